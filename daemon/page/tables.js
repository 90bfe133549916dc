// Tables and lists. Cells are changed in place, so that a screen reader keeps its position.

import { CANDIDATES, candidateOf, count, interval, known, percent, rate, refusal, span } from "./words.js";

/** Gives the element one child per content: adds or removes children at the end, and lets `each` update the rest. */
function fill(element, tag, contents, each) {
  while (element.children.length > contents.length) {
    element.lastElementChild.remove();
  }
  contents.forEach((content, place) => {
    const child = element.children[place] ?? element.appendChild(document.createElement(typeof tag === "string" ? tag : tag(content, place)));
    each(child, content, place);
  });
}

function write(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

/** A cell is a text, or { text, below, strong }. */
function cell(element, content) {
  const { text, below, strong } = typeof content === "string" ? { text: content } : content;
  element.classList.toggle("strong", Boolean(strong));
  if (element.dataset.text === text && element.dataset.below === (below ?? "")) {
    return;
  }
  element.dataset.text = text;
  element.dataset.below = below ?? "";
  element.replaceChildren(text);
  if (below) {
    element.appendChild(document.createElement("small")).textContent = below;
  }
}

/** `rows` are lists of cells; the first cell of a row is its header. `served` is the index of a row to mark. */
function table(element, head, rows, served) {
  element.tHead ?? element.createTHead().insertRow();
  element.tBodies[0] ?? element.createTBody();
  fill(element.tHead.rows[0], "th", head, (child, text) => {
    child.scope = "col";
    write(child, text);
  });
  fill(element.tBodies[0], "tr", rows, (row, cells, place) => {
    row.className = place === served ? "served" : "";
    fill(row, (_, column) => (column === 0 ? "th" : "td"), cells, (child, content, column) => {
      if (column === 0) {
        child.scope = "row";
      }
      cell(child, content);
    });
  });
}

const estimate = (value) => (known(value) ? { text: percent(value.value), below: interval(value) } : "–");

export function classes(about, frame) {
  const drawn = frame.shares_by_labels;
  // Labels that were not drawn at random say less than those that were.
  const labels = !drawn && about.labels && frame.classes.some((one) => known(one.true_proportion));
  const head = [
    "Class",
    "Training",
    "Now",
    ...(drawn ? [`By ${count(drawn.labels)} labels`] : []),
    ...(labels ? ["Among labels"] : []),
    ...(about.black_box ? [] : ["Movement"]),
  ];
  const now = ({ training }, served) => {
    if (frame.proportions_unknown) {
      return "cannot be told";
    }
    return served ? { ...estimate(served), strong: training < served.low || training > served.high } : "–";
  };
  const rows = about.classes.map((one, place) => {
    const { served, by_labels, true_proportion, movement_ratio } = frame.classes[place];
    const ratio = known(movement_ratio) ? movement_ratio.toFixed(3) : "–";
    return [
      one.name,
      percent(one.training),
      now(one, served),
      ...(drawn ? [estimate(by_labels)] : []),
      ...(labels ? [percent(true_proportion)] : []),
      ...(about.black_box ? [] : [ratio]),
    ];
  });
  table(document.getElementById("classes"), head, rows);
  const rest = about.classes_in_all - about.classes.length;
  const others = rest > 0 ? `${rest} rarer classes are in the metrics. ` : "";
  const movement = about.black_box ? "" : `Movement: squared movement by the map over squared distance to the nearest other class; the guard's limit is ${about.movement_limit}. `;
  write(document.getElementById("classes-note"), `${others}${movement}Bold: the share in training is outside the interval. ${drawn ? `Labels of randomly drawn events tell the shares of ${count(drawn.rows)} events up to block ${count(drawn.last_block)}, whatever has changed.` : ""}`);
}

export function candidates(about, frame) {
  const measured = frame.candidates.some((one) => known(one.accuracy));
  const head = ["Candidate", "Estimated", ...(measured ? ["Measured", "Log loss"] : [])];
  const figure = (value) => (known(value) ? value.toFixed(3) : "–");
  const rows = frame.candidates.map((one) => [
    one.name === candidateOf(frame) ? { text: CANDIDATES[one.name], below: "served" } : CANDIDATES[one.name],
    estimate(one.estimated),
    ...(measured ? [percent(one.accuracy), figure(one.log_loss)] : []),
  ]);
  const served = frame.candidates.findIndex((one) => one.name === candidateOf(frame));
  table(document.getElementById("candidates"), head, rows, served);
  const refused = frame.guard ? `The guard has refused ${count(frame.guard.refusals)} states so far. ` : "The guard has judged no state yet. ";
  const reason = frame.guard?.reason ? `It refuses the newest: ${refusal(about, frame.guard)}.` : "";
  write(document.getElementById("candidates-note"), refused + reason);
}

/** Labels that are asked for, wait and came; nothing if none are read. */
function labelRows(labels) {
  if (!labels) {
    return [];
  }
  const sample = labels.one_of > 1 ? `, one of ${count(labels.one_of)} events: labels.cache has no room for all` : "";
  const delays = known(labels.half_within_seconds)
    ? `half within ${span(labels.half_within_seconds)}, 90 % within ${known(labels.most_within_seconds) ? span(labels.most_within_seconds) : "more than a week"}`
    : "–";
  return [
    ["Labels wanted", labels.wanted > 0 ? `${count(labels.wanted)}: ${wantedIds(labels)}` : "none"],
    ["Labels asked for, answered", `${count(labels.asked)}, ${count(labels.answered)}`],
    ["Waiting for a label", `${count(labels.waiting)} events${sample}`, labels.one_of > 1 ? "look" : ""],
    ["Labels took", delays],
    ...(labels.negatives > 0 ? [["Negative by waiting, late labels", `${count(labels.negatives)}, ${count(labels.late)}`]] : []),
    ...(labels.without_id > 0 ? [["Events without an id", `${count(labels.without_id)}: their labels cannot be asked for`, "look"]] : []),
  ];
}

/** The newest ids; none where the page is open to whoever reaches it. */
function wantedIds({ wanted, wanted_ids }) {
  if (!wanted_ids) {
    return "ids are shown only with a token, or on the loopback";
  }
  return `${wanted_ids.join(", ")}${wanted > wanted_ids.length ? ", …" : ""}`;
}

/** The inputs beside training, those that broke first. */
export function inputs({ inputs }) {
  const head = ["Field", "Missing", "In training", "Unknown", "Beyond its range", "Distance", "By chance", "State"];
  const rows = inputs.map((one) => [
    one.name,
    percent(one.missing),
    percent(one.training_missing),
    percent(one.unknown),
    percent(one.beyond),
    one.distance.toFixed(3),
    one.noise_floor.toFixed(3),
    one.broken ? "broken" : "as in training",
  ]);
  table(document.getElementById("inputs"), inputs.length > 0 ? head : [], rows, inputs.findIndex((one) => one.broken));
  const unknown = "Not known: the bundle has no inputs.json, which `ostard fit` writes for named fields and dense features.";
  write(document.getElementById("inputs-note"), inputs.length === 0 ? unknown : "");
}

export function stream(about, frame) {
  const { stream } = frame;
  const checkpoint = known(stream.checkpoint_ms) ? `${span((frame.time_ms - stream.checkpoint_ms) / 1000)} ago` : "none yet";
  const rows = [
    ["Topic", about.topic],
    ["Broker", stream.connected ? "connected" : "no answer", stream.connected ? "" : "bad"],
    ["Behind", `${count(stream.lag_records)} records, ${span(stream.lag_seconds)}`, stream.lag_seconds > 60 ? "bad" : ""],
    ["Events read", `${count(stream.accepted)} (${rate(stream.events_per_second)}/s)`],
    ["Events learned from", count(frame.events)],
    ["Alignment steps", `${count(frame.steps)} (${rate(stream.steps_per_second)}/s)`],
    ["Steps skipped", count(frame.skipped_steps), frame.skipped_steps > 0 ? "look" : ""],
    ["Predictions delivered", count(stream.predictions)],
    ["Dead letters delivered", count(stream.dead_letters), stream.dead_letters > 0 ? "look" : ""],
    ["Deliveries failed", count(stream.failed), stream.failed > 0 ? "bad" : ""],
    ["Records lost to retention", count(stream.offsets_lost), stream.offsets_lost > 0 ? "bad" : ""],
    ["Requests", `${count(stream.requests)} (${rate(stream.requests_per_second)}/s)`],
    ["Requests refused", count(stream.refused_requests), stream.refused_requests > 0 ? "look" : ""],
    ["Late labels", about.labels ? count(stream.labels) : "not read"],
    ...labelRows(frame.labels),
    ["Checkpoint", checkpoint, stream.checkpoint_failures > 0 ? "bad" : ""],
  ];
  const tag = (_, place) => (place % 2 === 0 ? "dt" : "dd");
  fill(document.getElementById("stream"), tag, rows.flatMap((row) => [row, row]), (child, row, place) => {
    write(child, row[place % 2]);
    if (place % 2 === 1) {
      child.dataset.state = row[2] ?? "";
    }
  });
  rejected(about, stream);
}

function rejected(about, stream) {
  const host = document.getElementById("rejected");
  if (stream.rejected.length === 0) {
    host.replaceChildren(Object.assign(document.createElement("p"), { className: "note", textContent: "None." }));
    return;
  }
  const rows = stream.rejected.map(([reason, number]) => [reason.replaceAll("_", " "), count(number)]);
  const element = host.querySelector("table") ?? document.createElement("table");
  host.replaceChildren(element);
  table(element, ["Reason", "Events"], rows);
  if (!about.dead_letters) {
    host.append(Object.assign(document.createElement("p"), { className: "note", textContent: "They are dropped: dead_letters.topic is not set." }));
  }
}

/** The whole configuration, and what differs from the defaults. */
export function configuration(about) {
  const sections = about.configuration.split("\n\n").map((section) => section.trim().split("\n"));
  const changed = sections
    .map(([head, ...lines]) => [head, ...lines.filter((line) => line.endsWith("# changed")).map((line) => line.replace(/ # changed$/, ""))])
    .filter((lines) => lines.length > 1);
  write(document.getElementById("changed"), changed.map((lines) => lines.join("\n")).join("\n\n") || "Nothing.");
  write(document.getElementById("configuration"), about.configuration);
}

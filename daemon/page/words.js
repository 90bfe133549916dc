// Writes numbers as text, and the five answers at the top of the page.

const MODELS = {
  frozen: "Frozen model",
  prior: "Prior-corrected model",
  adapted: "Adapted model",
};
const REFUSALS = {
  non_finite: "a value in it is not finite",
  class_movement: "it moves a class too far",
  class_deformation: "it deforms a class too much",
  held_out_loss: "it is worse than the frozen model on held-out training rows",
  ill_conditioned: "shares cannot be estimated from its predictions",
  one_class: "it predicts nearly everything as one class",
  map_does_not_help: "training rows are no nearer to the stream after its map than before",
};
export const CANDIDATES = { frozen: "frozen", prior: "prior-corrected", adapted: "adapted" };

export const known = (value) => value !== null && value !== undefined;

/** A share as percent; "–" if it is not known. */
export function percent(share, digits = 1) {
  return known(share) ? `${(100 * share).toFixed(digits)} %` : "–";
}

export const interval = (estimate) => `${(100 * estimate.low).toFixed(1)} to ${percent(estimate.high)}`;

export function count(number) {
  return known(number) ? Math.round(number).toLocaleString("en") : "–";
}

/** A rate, with one decimal below 10. */
export function rate(number) {
  if (!known(number)) {
    return "–";
  }
  return number > 0 && number < 10 ? number.toFixed(1) : count(number);
}

export function span(seconds) {
  if (!known(seconds)) {
    return "–";
  }
  if (seconds < 90) {
    return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  }
  return seconds < 5400 ? `${(seconds / 60).toFixed(0)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

/** The candidate that is served. */
export const candidateOf = ({ mode, gate }) => (mode === "auto" ? gate.candidate : mode === "shadow" ? "frozen" : mode);

const READY = "The adapted model explains the stream and is ready. It waits for labels: without them it may be wrong.";

/** Instead of shares that are not known. */
const untold = (frame) => (frame.gate.refuted ? "cannot be told: the classes changed" : "cannot be told yet");

const waiting = (frame) =>
  frame.standby
    ? { state: "look", answer: "Standing by", evidence: "Another process learns; this one serves its newest checkpoint." }
    : { state: "look", answer: "No events yet", evidence: "The first block of events is not complete yet." };

/** How far a share is from training. Two classes always move by the same amount: the one that grew comes first. */
const far = ({ share, training }) => Math.abs(share.value - training) + (share.value > training ? 1e-6 : 0);

/** The share by labels that is farthest from training; null while there are too few labels. */
function byLabels(about, frame) {
  if (!frame.shares_by_labels) {
    return null;
  }
  const [most] = about.classes
    .map((one, place) => ({ ...one, share: frame.classes[place].by_labels }))
    .sort((left, right) => far(right) - far(left));
  const { labels } = frame.shares_by_labels;
  return `By ${count(labels)} labels ${most.name} is ${percent(most.share.value)} [${interval(most.share)}], ${percent(most.training)} in training.`;
}

/** The class whose share moved most. */
export function moved(about, frame) {
  const changes = about.classes
    .map((one, place) => ({ ...one, share: frame.classes[place].served }))
    .filter((one) => known(one.share))
    .sort((left, right) => far(right) - far(left));
  if (frame.proportions_unknown && frame.gate.refuted) {
    return { state: "look", answer: "More than the shares", evidence: byLabels(about, frame) ?? `Shares ${untold(frame)}. Labels would tell.` };
  }
  if (frame.proportions_unknown) {
    return { state: "look", answer: "Too early to say", evidence: byLabels(about, frame) ?? `Shares ${untold(frame)}.` };
  }
  if (changes.length === 0) {
    return waiting(frame);
  }
  const apart = ({ share, training }) => training < share.low || training > share.high;
  const most = changes.find(apart);
  if (!most) {
    const { name, share, training } = changes[0];
    return {
      state: "ok",
      answer: "Shares are as in training",
      evidence: `Largest difference: ${name}, ${percent(share.value)} [${interval(share)}], ${percent(training)} in training.`,
    };
  }
  const factor = most.share.value / most.training;
  const times = factor >= 1.5 ? `, ${factor.toFixed(1)} times as much` : factor <= 0.67 ? `, ${(1 / factor).toFixed(1)} times less` : "";
  return {
    state: "look",
    answer: `${most.name} is ${percent(most.share.value)}`,
    evidence: `95 % interval ${interval(most.share)}; ${percent(most.training)} in training${times}.`,
  };
}

const TESTS = { scores: "scores", latents: "latents", support: "rows unlike training" };
const measure = ({ name }, value) => (name === "support" ? percent(value) : value.toFixed(3));
const against = (test) => `${TESTS[test.name] ?? test.name} ${measure(test, test.statistic)} of at most ${measure(test, test.limit)}`;

/** Whether more than the shares moved, by the gate's tests. */
export function shape(about, frame) {
  const { refuted, tests, reason } = frame.gate;
  if (tests.length === 0) {
    return { state: "ok", answer: "Not measured yet", evidence: `${capital(reason)}.` };
  }
  const failed = tests.filter((test) => test.statistic > test.limit);
  const compared = `Compared with training at the stream's shares: ${(refuted && failed.length > 0 ? failed : tests).map(against).join(", ")}.`;
  if (refuted) {
    return { state: "look", answer: "Classes changed shape, too", evidence: `${compared}${brokenFirst(frame)}` };
  }
  return frame.proportions_unknown
    ? { state: "look", answer: "Too early to say", evidence: compared }
    : { state: "ok", answer: "Shares explain it", evidence: compared };
}

/** What broke in the inputs, one sentence a field, without full stops. */
export const broken = ({ inputs }) => inputs.filter((one) => one.broken).map((one) => one.broken);

/** Where to look before believing that classes changed; empty if no input broke. */
const brokenFirst = (frame) => (broken(frame).length > 0 ? ` Look at the inputs first: ${broken(frame).join("; ")}.` : "");

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** What is served, and why: the gate's reason in mode auto, else what the guard says about the newest adapted state. */
export function served(frame) {
  const answer = MODELS[candidateOf(frame)];
  const version = `Mode ${frame.mode}, version ${frame.version.epoch}.${frame.version.step}.`;
  if (frame.mode === "auto") {
    const { reason, since_block, refuted, adapted_ready, candidate } = frame.gate;
    const since = since_block > 0 ? ` Since block ${count(since_block)}.` : "";
    const ready = adapted_ready && candidate !== "adapted" ? ` ${READY}` : "";
    return { state: refuted ? "look" : "ok", answer, evidence: `${capital(reason)}.${since}${ready}${refuted ? brokenFirst(frame) : ""} ${version}` };
  }
  const adapts = frame.mode === "adapted";
  if (!frame.guard) {
    return { state: "ok", answer, evidence: `${version} ${adapts ? "Nothing was learned yet." : ""}` };
  }
  if (frame.guard.serves) {
    const agrees = adapts ? "The guard accepts the newest state." : "The guard accepts the newest adapted state.";
    return { state: "ok", answer, evidence: `${version} ${agrees}` };
  }
  const why = REFUSALS[frame.guard.refusal] ?? frame.guard.refusal;
  const instead = adapts ? "The last good one is served." : "It would not be served in this mode.";
  return { state: adapts ? "look" : "ok", answer, evidence: `${version} The guard refuses the newest adapted state: ${why}. ${instead}` };
}

/** The guard's reason in full, with the class's name instead of its index. */
export function refusal(about, guard) {
  const name = (_, number) => about.classes.find((one) => one.number === Number(number))?.name ?? `class ${number}`;
  return guard.reason?.replace(/^class (\d+)/, name);
}

/** Accuracy of what is served: measured if there are late labels, else estimated. */
export function right(frame) {
  const [frozen] = frame.candidates;
  const own = frame.candidates.find((one) => one.name === candidateOf(frame));
  if (known(own.accuracy)) {
    const gain = 100 * (own.accuracy - frozen.accuracy);
    const against = own === frozen ? "" : ` Frozen model: ${percent(frozen.accuracy)} (${gain >= 0 ? "+" : "−"}${Math.abs(gain).toFixed(1)} points).`;
    return {
      state: gain < -1 ? "bad" : "ok",
      answer: percent(own.accuracy),
      evidence: `Measured on the newest of ${count(frame.stream.labels)} late labels.${against}`,
    };
  }
  if (own.estimated) {
    return {
      state: "ok",
      answer: `about ${percent(own.estimated.value)}`,
      evidence: `Estimated without labels, 95 % interval ${interval(own.estimated)}; right if only shares moved.`,
    };
  }
  return { state: "ok", answer: "Not known", evidence: "No late labels, and no estimate yet." };
}

/** Whether it can predict, and what is wrong nevertheless. */
export function readiness({ not_ready, conditions }) {
  if (not_ready) {
    return { state: "bad", text: `not ready: ${not_ready}` };
  }
  const wrong = Object.entries(conditions).map(([part, reason]) => `${part}: ${reason}`);
  return wrong.length > 0 ? { state: "look", text: `ready, but ${wrong.join("; ")}` } : { state: "ok", text: "ready" };
}

/** Whether events come in and predictions go out. */
export function flows(frame) {
  const { stream } = frame;
  const bad = stream.rejected.reduce((sum, [, number]) => sum + number, 0);
  const letters = bad > 0 ? ` ${count(bad)} events could not be used.` : "";
  const evidence = `${count(stream.lag_records)} records behind${known(stream.lag_seconds) ? ` (${span(stream.lag_seconds)})` : ""}.${letters}`;
  if (stream.stopped) {
    return { state: "bad", answer: "Stopped: too many bad events", evidence: "`ostard ctl read-on` continues reading." };
  }
  if (!stream.connected) {
    return { state: "bad", answer: "No broker answers", evidence };
  }
  const late = stream.lag_seconds > 60;
  return { state: late ? "bad" : "ok", answer: `${rate(stream.events_per_second)} events/s`, evidence };
}

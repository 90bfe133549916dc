// Tables and lists, with the words that the daemon sends. Cells are changed in place, so that a screen reader keeps its
// position.

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

function cell(element, { text, below, strong }) {
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

/** The first cell of a row is its header. `marked` is the index of a row that stands out. */
function table(element, { head, rows, marked }) {
  element.tHead ?? element.createTHead().insertRow();
  element.tBodies[0] ?? element.createTBody();
  fill(element.tHead.rows[0], "th", head, (child, text) => {
    child.scope = "col";
    write(child, text);
  });
  fill(element.tBodies[0], "tr", rows, (row, cells, place) => {
    row.className = place === marked ? "served" : "";
    fill(row, (_, column) => (column === 0 ? "th" : "td"), cells, (child, content, column) => {
      if (column === 0) {
        child.scope = "row";
      }
      cell(child, content);
    });
  });
}

/** Names and values. */
function list(element, lines) {
  const tag = (_, place) => (place % 2 === 0 ? "dt" : "dd");
  fill(element, tag, lines.flatMap((line) => [line, line]), (child, { name, value, state }, place) => {
    write(child, place % 2 === 0 ? name : value);
    if (place % 2 === 1) {
      child.dataset.state = state;
    }
  });
}

const element = (id) => document.getElementById(id);

export function show(about, words) {
  for (const name of ["classes", "candidates", "inputs"]) {
    table(element(name), words[name]);
  }
  write(element("classes-note"), words.classes_note);
  write(element("candidates-note"), words.candidates_note);
  const unknown = "Not known: the bundle has no inputs.json, which `ostard fit` writes for named fields and dense features.";
  write(element("inputs-note"), words.inputs.rows.length === 0 ? unknown : "");
  list(element("stream"), words.stream);
  list(element("figures"), words.figures);
  rejected(about, words.rejected);
}

function rejected(about, listing) {
  const host = element("rejected");
  if (listing.rows.length === 0) {
    host.replaceChildren(Object.assign(document.createElement("p"), { className: "note", textContent: "None." }));
    return;
  }
  const shown = host.querySelector("table") ?? document.createElement("table");
  host.replaceChildren(shown);
  table(shown, listing);
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
  write(element("changed"), changed.map((lines) => lines.join("\n")).join("\n\n") || "Nothing.");
  write(element("configuration"), about.configuration);
}

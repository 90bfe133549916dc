// Orders to the daemon, if it takes them: the same as those of `ostard ctl`.

import { headers } from "./feed.js";

const ORDERS = [
  ["pause", "Pause learning"],
  ["resume", "Resume learning"],
  ["checkpoint", "Write a checkpoint"],
  ["rollback", "Roll back"],
];
const MODES = ["auto", "frozen", "prior", "adapted", "shadow"];

async function give(order) {
  const outcome = document.getElementById("order-outcome");
  outcome.textContent = "…";
  try {
    const answer = await fetch("page/orders", {
      method: "POST",
      headers: { ...headers(), "content-type": "application/json" },
      body: JSON.stringify(order),
    });
    const text = await answer.text();
    outcome.textContent = answer.ok ? `Done: ${text}` : `Not done: ${text}`;
  } catch {
    outcome.textContent = "Not done: the daemon does not answer";
  }
}

export function show(about) {
  document.getElementById("orders").hidden = !about.orders;
  const host = document.getElementById("order-buttons");
  if (!about.orders || host.children.length > 0) {
    return;
  }
  const button = ([order, text]) =>
    Object.assign(document.createElement("button"), { type: "button", textContent: text, onclick: () => give({ order }) });
  const select = document.createElement("select");
  select.ariaLabel = "Serve in mode";
  select.append(...MODES.map((mode) => new Option(`serve ${mode}`, mode)));
  const serve = Object.assign(document.createElement("button"), {
    type: "button",
    textContent: "Change mode",
    onclick: () => give({ order: "mode", mode: select.value }),
  });
  host.replaceChildren(...ORDERS.map(button), select, serve);
}

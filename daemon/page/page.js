// The live page: receives events from the daemon and passes them to tables, charts and map.

import { Chart, count, known, percent, ranges, rate } from "./charts.js";
import { follow } from "./feed.js";
import { LatentMap } from "./map.js";
import * as orders from "./orders.js";
import * as tables from "./tables.js";

/** Seconds of history that the page keeps, as the daemon does. */
const HOUR = 3600;
/** Seconds without a frame after which lines are broken. */
const GAP = 10;
/** Most classes in a chart: more colours cannot be told apart. */
const CHARTED = 8;
const CANDIDATES = { frozen: "frozen", prior: "prior-corrected", adapted: "adapted" };

const element = (id) => document.getElementById(id);
const page = { charts: [] };

function hello({ about, history, frame, picture }) {
  const same = page.about?.model === about.model && String(page.about.columns) === String(about.columns);
  page.store = after(same ? page.store : undefined, history, about.columns);
  page.about = about;
  element("model").textContent = about.model;
  document.title = `ostard ${about.model}`;
  element("program").textContent = `ostard ${about.program_version}`;
  document.querySelectorAll(".with-labels").forEach((note) => (note.hidden = !about.labels));
  tables.configuration(about);
  orders.show(about);
  const classes = charted(about, frame);
  page.charts.forEach((chart) => chart.remove());
  page.charts = charts(about, classes);
  page.map?.remove();
  page.map = new LatentMap(about, (number) => colourOf(about, number));
  state("connection", "ok", "live");
  if (frame) {
    showFrame(frame);
  }
  if (picture) {
    page.map.show(picture);
  }
  draw();
}

function frame(next) {
  append(page.store, next.state.time_ms / 1000, next.values);
  forget(page.store, next.state.time_ms / 1000 - HOUR);
  showFrame(next);
  draw();
}

/** What has left its usual level, above the answers; hidden if nothing has. */
function alarms(told) {
  const notice = element("alarms");
  notice.hidden = told.length === 0;
  const text = told.map((one) => `Alarm: ${one}.`).join(" ");
  if (notice.textContent !== text) {
    notice.textContent = text;
  }
}

function showFrame({ state: now, words }) {
  alarms(words.alarms);
  Object.entries(words.answers).forEach(([name, told]) => answer(name, told));
  tables.show(page.about, words);
  state("ready", words.ready.state, words.ready.text);
  state("learning", words.learning.state, words.learning.text);
  if (now.act) {
    state("act", "ok", now.act);
  }
  element("version").textContent = `version ${now.version.epoch}.${now.version.step}`;
  element("clock").textContent = `up ${words.up}`;
  announce(`${words.learning.text}, ${words.ready.text}. ${words.answers.served.answer}.`);
}

function answer(name, { state, answer, evidence }) {
  const article = element(`answer-${name}`);
  article.dataset.state = state;
  article.querySelector(".answer").textContent = answer;
  article.querySelector(".evidence").textContent = evidence;
}

function state(name, value, text) {
  const pill = element(name);
  pill.hidden = false;
  pill.dataset.state = value;
  pill.textContent = text;
}

/** Announces a text only when it has changed: a screen reader must not speak every second. */
function announce(text) {
  if (page.announced !== text) {
    page.announced = text;
    element("announcement").textContent = text;
  }
}

function lost(reason) {
  state("connection", "bad", `${reason}; trying again`);
  announce(reason);
}

function askForToken(wasWrong) {
  const form = element("login");
  form.hidden = false;
  element("refused").textContent = wasWrong ? "That token was refused." : "";
  element("token").focus();
  return new Promise((resolve) => {
    form.onsubmit = (event) => {
      event.preventDefault();
      form.hidden = true;
      resolve(element("token").value.trim());
      element("token").value = "";
    };
  });
}

/** The daemon's history, preceded by what this page saw earlier: a restarted daemon remembers nothing. */
function after(before, { times, columns }, names) {
  const first = (times[0] ?? Infinity) / 1000;
  const earlier = before ? before.times.filter((time) => time < first).length : 0;
  const store = {
    times: before?.times.slice(0, earlier) ?? [],
    columns: Object.fromEntries(names.map((name) => [name, before?.columns[name].slice(0, earlier) ?? []])),
  };
  times.forEach((time, place) => append(store, time / 1000, columns.map((column) => column[place])));
  return store;
}

/** Adds a point. After a gap it first adds an empty point, so that no line is drawn across. */
function append(store, time, values) {
  const last = store.times.at(-1);
  if (time - last > GAP) {
    push(store, last + 0.001, values.map(() => null));
  }
  push(store, time, values);
}

function push({ times, columns }, time, values) {
  times.push(time);
  Object.values(columns).forEach((column, place) => column.push(values[place]));
}

function forget(store, oldest) {
  const old = store.times.findIndex((time) => time >= oldest);
  if (old > 0) {
    store.times.splice(0, old);
    Object.values(store.columns).forEach((column) => column.splice(0, old));
  }
}

function draw() {
  const range = Number(document.querySelector("input[name=range]:checked").value);
  const last = page.store.times.at(-1) ?? 0;
  page.charts.forEach((chart) => chart.show(page.store, last - range));
}

/** Indices of the classes to chart: if there are too many, those that moved most. */
function charted(about, now) {
  const places = about.classes.map((_, place) => place);
  const moved = (place) => known(now?.state.shares_age_ms) ? Math.abs(now.state.classes[place].served - about.classes[place].training) : 0;
  return places.sort((left, right) => moved(right) - moved(left)).slice(0, CHARTED).sort((left, right) => left - right);
}

function colourOf(about, number) {
  const place = about.classes.findIndex((one) => one.number === number);
  return place < 0 ? "--muted" : `--class-${place % 8}`;
}

function charts(about, places) {
  const share = (place) => {
    const { name, number, training } = about.classes[place];
    return {
      label: name,
      variable: colourOf(about, number),
      scale: "share",
      band: [`proportion_low.${place}`, `proportion_high.${place}`],
      lines: [
        { constant: training, dash: [4, 5], width: 1.2 },
        ...(about.labels ? [{ column: `true_proportion.${place}`, dots: true }] : []),
        { column: `proportion.${place}` },
      ],
      text: (at) => known(at(`proportion.${place}`)) && `${name} ${percent(at(`proportion.${place}`))} [${(100 * at(`proportion_low.${place}`)).toFixed(1)} to ${percent(at(`proportion_high.${place}`))}]`,
    };
  };
  const accuracy = (name) => ({
    label: CANDIDATES[name],
    variable: `--${name}`,
    scale: "accuracy",
    lines: [
      { column: `estimated_accuracy.${name}`, dash: [6, 4], width: 1.5 },
      ...(about.labels ? [{ column: `measured_accuracy.${name}` }] : []),
    ],
    text: (at) => {
      const measured = known(at(`measured_accuracy.${name}`)) ? `${percent(at(`measured_accuracy.${name}`))} measured, ` : "";
      return known(at(`estimated_accuracy.${name}`)) && `${CANDIDATES[name]} ${measured}${percent(at(`estimated_accuracy.${name}`))} estimated`;
    },
  });
  const line = (label, column, variable, scale, format, more = {}) => ({
    label,
    variable,
    scale,
    lines: [{ column, ...more }],
    text: (at) => known(at(column)) && `${label} ${format(at(column))}`,
  });
  const thousandths = (value) => value.toFixed(3);
  return [
    new Chart("shares", "Shares of the classes over time", places.map(share), { share: ranges.share }),
    new Chart("accuracy", "Accuracy of the candidates over time", Object.keys(CANDIDATES).map(accuracy), { accuracy: ranges.accuracy }),
    new Chart("shift", "Distance between source and stream over time", [
      line("before the map", "distance_before_map", "--class-1", "distance", thousandths),
      line("after the map", "distance_after_map", "--class-0", "distance", thousandths),
      line("noise floor", "noise_floor", "--muted", "distance", thousandths, { dash: [4, 4] }),
    ], { distance: ranges.distance }),
    new Chart("flow", "Events per second and records behind, over time", [
      line("events per second", "events_per_second", "--class-0", "rate", rate),
      line("records behind", "lag_records", "--class-1", "records", count),
    ], { rate: ranges.rate, records: ranges.records }),
  ];
}

document.querySelectorAll("input[name=range]").forEach((input) => (input.onchange = () => page.store && draw()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  page.charts.forEach((chart) => chart.recolour());
  page.map?.draw();
});
follow({ hello, frame, picture: (picture) => page.map?.show(picture), lost, token: askForToken });

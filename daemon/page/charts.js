// Line charts over time, drawn by uPlot, with a legend of buttons and a readout that follows mouse and arrow keys.
/* global uPlot */

export const known = (value) => value !== null && value !== undefined;

/** A share as percent. */
export const percent = (share, digits = 1) => `${(100 * share).toFixed(digits)} %`;

export const count = (number) => Math.round(number).toLocaleString("en");

/** A rate, with one decimal below 10. */
export const rate = (number) => (number > 0 && number < 10 ? number.toFixed(1) : count(number));

const colour = (variable) => getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
/** Colour of an interval's band. Colours are #rrggbb; 30 is the opacity. */
const faint = (variable) => `${colour(variable)}30`;
const clock = (seconds) => new Date(1000 * seconds).toLocaleTimeString("en-GB");

/**
 * One chart. A group is what one button of the legend shows and hides:
 * { label, variable (its colour), scale, band: [low, high], lines: [{ column or constant, dash, width, dots }], text(at) }.
 */
export class Chart {
  constructor(name, title, groups, scales) {
    this.host = document.getElementById(`${name}-chart`);
    this.readout = document.getElementById(`${name}-readout`);
    this.legend = document.getElementById(`${name}-legend`);
    this.title = title;
    this.groups = groups;
    this.scales = scales;
    this.host.tabIndex = 0;
    this.host.setAttribute("role", "figure");
    this.host.setAttribute("aria-label", `${title}. Arrow keys move through time.`);
    this.host.setAttribute("aria-describedby", this.readout.id);
    this.host.onkeydown = (event) => this.#move(event);
    this.host.onblur = () => this.#leave();
    this.#drawLegend();
    this.sizes = new ResizeObserver(() => this.plot?.setSize(this.#size()));
    this.sizes.observe(this.host);
  }

  /** Shows the store from the time `from`, in seconds since 1970. */
  show(store, from) {
    this.store = store;
    this.from = from;
    if (!this.plot) {
      this.#build();
    } else {
      this.plot.setData(this.#data());
    }
    this.#read();
  }

  /** Redraws from scratch: uPlot reads colours and hidden groups only when it is created. */
  recolour() {
    this.plot?.destroy();
    this.plot = undefined;
    if (this.store) {
      this.show(this.store, this.from);
    }
  }

  remove() {
    this.sizes.disconnect();
    this.plot?.destroy();
    this.host.replaceChildren();
  }

  #size() {
    return { width: Math.max(this.host.clientWidth, 100), height: this.host.clientHeight };
  }

  #lines() {
    return this.groups.flatMap((group) => {
      const edges = (group.band ?? []).map((column) => ({ column, edge: true }));
      return [...edges, ...group.lines].map((line) => ({ ...line, group }));
    });
  }

  #data() {
    const { times, columns } = this.store;
    const values = ({ column, constant }) => (column ? columns[column] : times.map(() => constant));
    return [times, ...this.#lines().map(values)];
  }

  #build() {
    const lines = this.#lines();
    const series = lines.map(({ group, edge, dash, width, dots }) => ({
      scale: group.scale,
      show: !group.hidden,
      stroke: edge ? undefined : colour(group.variable),
      width: edge || dots ? 0 : (width ?? 2),
      dash,
      points: dots ? { show: true, size: 4, fill: colour(group.variable), width: 0 } : { show: false },
      spanGaps: false,
    }));
    const bands = lines.flatMap(({ group, edge, column }, place) =>
      edge && column === group.band[1] ? [{ series: [place + 1, place], fill: faint(group.variable) }] : []);
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const scales = Object.entries(this.scales);
    const options = {
      ...this.#size(),
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: { x: { time: true, range: () => this.#window() }, ...Object.fromEntries(scales.map(([name, { range }]) => [name, { range }])) },
      series: [{}, ...series],
      bands,
      axes: [
        { ...axis, values: (_, splits) => splits.map(clock), space: 90, size: 30 },
        ...scales.map(([name, { format }], place) => ({
          ...axis,
          scale: name,
          side: place === 0 ? 3 : 1,
          grid: { ...axis.grid, show: place === 0 },
          size: 56,
          values: (_, splits) => splits.map(format),
        })),
      ],
      hooks: { setCursor: [() => this.#read()] },
    };
    this.plot = new uPlot(options, this.#data(), this.host);
  }

  #window() {
    const { times } = this.store;
    const last = times.at(-1) ?? Date.now() / 1000;
    return [Math.min(Math.max(times[0] ?? last, this.from), last - 10), last];
  }

  /** Writes the values under the cursor, or the newest ones, to the readout. */
  #read() {
    const { times, columns } = this.store;
    if (times.length === 0) {
      return;
    }
    const place = this.plot?.cursor.idx ?? times.length - 1;
    const at = (column) => columns[column][place];
    const parts = this.groups.filter((group) => !group.hidden).map((group) => group.text(at));
    this.readout.textContent = `${clock(times[place])}  ${parts.filter(Boolean).join(" · ")}`;
  }

  #move(event) {
    const { times } = this.store ?? { times: [] };
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30, Home: -Infinity, End: Infinity };
    if (!(event.key in steps) || times.length === 0) {
      return;
    }
    event.preventDefault();
    this.readout.setAttribute("aria-live", "polite");
    const first = times.findIndex((time) => time >= this.#window()[0]);
    const place = (this.plot.cursor.idx ?? times.length - 1) + steps[event.key];
    const time = times[Math.max(first, Math.min(times.length - 1, place))];
    this.plot.setCursor({ left: this.plot.valToPos(time, "x"), top: 10 });
  }

  #leave() {
    this.readout.removeAttribute("aria-live");
    this.plot?.setCursor({ left: -10, top: -10 });
  }

  #drawLegend() {
    const button = (group) => {
      const element = document.createElement("button");
      element.type = "button";
      element.ariaPressed = String(!group.hidden);
      element.append(swatch(group.variable), group.label);
      element.onclick = () => {
        group.hidden = !group.hidden;
        element.ariaPressed = String(!group.hidden);
        this.recolour();
      };
      return element;
    };
    this.legend.replaceChildren(...this.groups.map(button));
  }
}

/** A small square in a colour, for legends. */
export function swatch(variable) {
  const square = document.createElement("span");
  square.className = "swatch";
  square.style.background = `var(${variable})`;
  return square;
}

export const ranges = {
  share: { range: (_, low, high) => [0, Math.min(1, 1.1 * (high ?? 1)) || 1], format: (value) => percent(value, 0) },
  accuracy: {
    range: (_, low, high) => [Math.max(0, (low ?? 0) - 0.02), Math.min(1, (high ?? 1) + 0.02)],
    format: (value) => percent(value, 0),
  },
  distance: { range: (_, low, high) => [0, 1.15 * (high ?? 1) || 1], format: (value) => value.toFixed(2) },
  rate: { range: (_, low, high) => [0, 1.15 * (high ?? 1) || 1], format: rate },
  records: { range: (_, low, high) => [0, Math.max(10, 1.15 * (high ?? 1))], format: count },
};

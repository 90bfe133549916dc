// Map of the latents: source, mapped source and stream in one fixed plane.

import { swatch } from "./charts.js";

const CLOUDS = ["source", "mapped", "target"];

export class LatentMap {
  constructor(about, colourOf) {
    this.about = about;
    this.colourOf = colourOf;
    this.canvases = Object.fromEntries(CLOUDS.map((cloud) => [cloud, document.getElementById(`map-${cloud}`)]));
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(document.getElementById("maps"));
    const keys = about.classes.slice(0, 8).map((one) => {
      const key = Object.assign(document.createElement("span"), { className: "key" });
      key.append(swatch(colourOf(one.number)), one.name);
      return key;
    });
    document.getElementById("map-legend").replaceChildren(...keys);
    this.#explain();
  }

  show(picture) {
    this.picture = {
      source: pairs(picture.source, picture.scale),
      mapped: pairs(picture.mapped, picture.scale),
      target: pairs(picture.target, picture.scale),
      labels: picture.labels,
      predicted: picture.predicted,
    };
    this.#widen();
    this.draw();
    this.#describe();
  }

  /** Widens the visible range where points leave it. It never shrinks: what moves on the screen has really moved. */
  #widen() {
    const points = CLOUDS.flatMap((cloud) => this.picture[cloud]);
    const edges = [0, 1].map((axis) => {
      const values = points.map((point) => point[axis]).sort((left, right) => left - right);
      // Ignores 0.3 % of the points on each side: one outlier must not shrink all others to a dot.
      const outside = Math.floor(0.003 * values.length);
      const [low, high] = [values[outside], values.at(-1 - outside)];
      const margin = 0.08 * (high - low) || 1;
      const [left, right] = this.edges?.[axis] ?? [Infinity, -Infinity];
      return [low < left ? low - margin : left, high > right ? high + margin : right];
    });
    this.edges = edges;
  }

  remove() {
    this.sizes.disconnect();
  }

  draw() {
    if (!this.picture) {
      return;
    }
    const { source, mapped, target, labels, predicted } = this.picture;
    const from = means(source, labels);
    const to = means(mapped, labels);
    this.#canvas("source", (pen) => {
      pen.points(source, labels);
      from.forEach((mean, label) => pen.cross(mean, label));
    });
    this.#canvas("mapped", (pen) => {
      pen.points(mapped, labels);
      to.forEach((mean, label) => pen.arrow(from.get(label), mean, label));
    });
    this.#canvas("target", (pen) => {
      pen.points(target, predicted);
      to.forEach((mean, label) => pen.cross(mean, label));
    });
  }

  #canvas(cloud, draw) {
    const canvas = this.canvases[cloud];
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    const ratio = window.devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    draw(new Pen(context, width, height, this.edges, this.colourOf));
  }

  /** Describes the maps for screen readers. */
  #describe() {
    const { source, mapped, target, labels, predicted } = this.picture;
    const name = (label) => this.about.classes.find((one) => one.number === label)?.name ?? `class ${label}`;
    const from = means(source, labels);
    const moves = [...means(mapped, labels)].map(([label, [x, y]]) => {
      const [u, v] = from.get(label);
      return `${name(label)} by ${Math.hypot(x - u, y - v).toFixed(2)}`;
    });
    const predictions = [...counts(predicted)].map(([label, number]) => `${name(label)} ${number}`);
    const say = (cloud, text) => this.canvases[cloud].setAttribute("aria-label", text);
    say("source", `${source.length} source latents in two dimensions, by class`);
    say("mapped", `The same latents as the map moves them. The means of classes move: ${moves.join(", ")}`);
    say("target", `${target.length} latents of the stream, by predicted class: ${predictions.join(", ")}`);
  }

  #explain() {
    const note = document.getElementById("map-note");
    if (this.about.black_box) {
      note.textContent = "Not available: the model is a black box, and its latents are unknown.";
    } else if (this.about.steps_per_block === 0) {
      note.textContent = "Not available: alignment is switched off (learner.steps_per_block = 0).";
    } else {
      note.textContent = "A sample of latents in the plane of the source's first two principal components, which stays fixed. Updated with every refresh of the learner.";
    }
    document.getElementById("maps").hidden = this.about.black_box || this.about.steps_per_block === 0;
  }
}

/** Draws in coordinates of the plane. */
class Pen {
  constructor(context, width, height, [[left, right], [bottom, top]], colourOf) {
    // One scale for both axes, so that distances are comparable.
    const scale = Math.min(width / (right - left), height / (top - bottom));
    this.context = context;
    this.at = ([x, y]) => [width / 2 + scale * (x - (left + right) / 2), height / 2 - scale * (y - (bottom + top) / 2)];
    const style = getComputedStyle(document.documentElement);
    this.variable = (name) => style.getPropertyValue(name).trim();
    this.colour = (label) => this.variable(colourOf(label));
  }

  points(cloud, labels) {
    this.context.globalAlpha = 0.62;
    cloud.forEach((point, place) => {
      const [x, y] = this.at(point);
      this.context.fillStyle = this.colour(labels[place]);
      this.context.beginPath();
      this.context.arc(x, y, 2.4, 0, 2 * Math.PI);
      this.context.fill();
    });
    this.context.globalAlpha = 1;
  }

  cross(point, label) {
    const [x, y] = this.at(point);
    this.#stroke(label, () => {
      this.context.moveTo(x - 6, y);
      this.context.lineTo(x + 6, y);
      this.context.moveTo(x, y - 6);
      this.context.lineTo(x, y + 6);
    });
  }

  arrow(from, to, label) {
    const [x, y] = this.at(to);
    const [u, v] = this.at(from);
    if (Math.hypot(x - u, y - v) < 6) {
      this.cross(to, label);
      return;
    }
    const angle = Math.atan2(y - v, x - u);
    this.#stroke(label, () => {
      this.context.moveTo(u, v);
      this.context.lineTo(x, y);
      for (const side of [-0.5, 0.5]) {
        this.context.moveTo(x, y);
        this.context.lineTo(x - 8 * Math.cos(angle + side), y - 8 * Math.sin(angle + side));
      }
    });
  }

  /** Strokes twice: first wider, in the panel's colour, so that the line stands out from the points. */
  #stroke(label, path) {
    for (const [width, colour] of [[5, this.variable("--panel")], [2.5, this.colour(label)]]) {
      this.context.lineWidth = width;
      this.context.strokeStyle = colour;
      this.context.beginPath();
      path();
      this.context.stroke();
    }
  }
}

function pairs(numbers, scale) {
  return Array.from({ length: numbers.length / 2 }, (_, place) => [numbers[2 * place] / scale, numbers[2 * place + 1] / scale]);
}

function counts(labels) {
  const found = new Map();
  labels.forEach((label) => found.set(label, (found.get(label) ?? 0) + 1));
  return found;
}

function means(cloud, labels) {
  const sums = new Map();
  cloud.forEach(([x, y], place) => {
    const [u, v, number] = sums.get(labels[place]) ?? [0, 0, 0];
    sums.set(labels[place], [u + x, v + y, number + 1]);
  });
  return new Map([...sums].map(([label, [x, y, number]]) => [label, [x / number, y / number]]));
}

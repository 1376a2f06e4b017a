// Lines over time on a canvas: bands from least to largest value, marks, a cursor that all charts of a page share.

import { h, colour, moment, tick } from "./format.js";

const LEFT = 56, RIGHT = 12, TOP = 8, BOTTOM = 4, AXIS = 20;
const MANY = 20; // marks: fainter, so that the lines are seen
const GAP = 6; // buckets: a hole of a few is a metric that comes less often than they are wide
const STEPS = [1e3, 5e3, 15e3, 30e3, 60e3, 300e3, 900e3, 1800e3, 3600e3, 7200e3, 21600e3, 43200e3, 86400e3];

function nice(low, high, n) {
  const raw = (high - low) / n || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((k) => k * power).find((each) => each >= raw * 0.999);
  const ticks = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step) ticks.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return ticks;
}

function decades(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const k of [1, 2, 5]) if (k * 10 ** power >= low * 0.99 && k * 10 ** power <= high * 1.01) ticks.push(k * 10 ** power);
  }
  return ticks.length > 6 ? ticks.filter((each) => Math.abs(Math.log10(each) % 1) < 1e-9) : ticks;
}

// What several charts share: the range of time, marks, and where the cursor is.
export class Shared {
  constructor() {
    this.charts = [];
    this.cursor = null;
    this.marks = [];
    this.history = null;
  }
  set(history, marks) {
    this.history = history;
    this.marks = marks;
    this.draw();
  }
  point(ms) {
    this.cursor = ms;
    this.draw();
  }
  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      for (const chart of this.charts) chart.draw();
    });
  }
}

export class Chart {
  // lines : list of {name, label, colour (variable), dash, scale}. format : of values, and of ticks so far apart. unit : in the title.
  constructor(shared, { title, unit, lines, height = 140, format, log = false, zero = false, least = null, most = null, axis = false }) {
    Object.assign(this, { shared, title, unit, lines, height, format, log, zero, least, most, axis });
    this.canvas = h("canvas", {
      tabindex: 0, role: "slider", "aria-label": `${title} over time`, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": 0,
      "aria-valuetext": "no values yet",
    });
    this.values = new Map();
    this.legend = h("div", { class: "legend" }, h("span", { class: "name" }, title), h("span", { class: "note" }, unit));
    for (const line of lines) {
      const value = h("b", {}, "–");
      this.values.set(line.name, value);
      this.legend.append(h("span", {}, this.key(line), `${line.label} `, value));
    }
    this.tip = h("div", { class: "tip", hidden: true });
    this.element = h("div", { class: "chart" }, this.legend, this.canvas, this.tip);
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; shared.point(null); });
    this.canvas.addEventListener("keydown", (event) => this.press(event));
    new ResizeObserver(() => this.draw()).observe(this.element);
    shared.charts.push(this);
  }

  key(line) {
    const key = h("span", { class: "key" });
    key.style.borderColor = colour(line.colour);
    key.style.borderTopStyle = line.dash?.length ? (line.dash[0] < 3 ? "dotted" : "dashed") : "solid";
    return key;
  }

  hover(event) {
    const box = this.canvas.getBoundingClientRect();
    const { from, to } = this.shared.history ?? {};
    if (!from) return;
    const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
    if (share < 0 || share > 1) return;
    const ms = from + share * (to - from);
    this.shared.point(ms);
    const rows = this.lines.map((line) => `${line.label} ${this.format(this.at(line, ms))}`);
    this.tip.replaceChildren(h("div", { class: "note" }, moment(ms)), ...rows.map((row) => h("div", {}, row)));
    this.tip.hidden = false;
    const x = event.clientX - box.left;
    this.tip.style.left = `${x > box.width / 2 ? x - this.tip.offsetWidth - 14 : x + 14}px`;
    this.tip.style.top = `${this.canvas.offsetTop + 4}px`;
  }

  press(event) {
    const { from, to, width } = this.shared.history ?? {};
    const step = { ArrowLeft: -1, ArrowRight: 1, PageDown: -20, PageUp: 20 }[event.key];
    if (!from || (!step && event.key !== "Home" && event.key !== "End")) return;
    event.preventDefault();
    const at = this.shared.cursor ?? to;
    const ms = event.key === "Home" ? from : event.key === "End" ? to : Math.min(to, Math.max(from, at + step * width));
    this.shared.point(ms);
    this.canvas.setAttribute("aria-valuenow", Math.round((100 * (ms - from)) / (to - from)));
    const values = this.lines.map((line) => `${line.label} ${this.format(this.at(line, ms))}`);
    this.canvas.setAttribute("aria-valuetext", `${moment(ms)}: ${values.join(", ")}`);
  }

  series(line) {
    return this.shared.history?.series.get(line.name);
  }

  at(line, ms) {
    const { start, width } = this.shared.history;
    const i = Math.floor((ms - start) / width);
    const mean = this.series(line)?.mean ?? [];
    for (const k of [i, i - 1, i + 1, i - 2]) if (mean[k] !== null && mean[k] !== undefined) return mean[k];
    return null;
  }

  last(line) {
    const mean = this.series(line)?.mean ?? [];
    for (let i = mean.length - 1; i >= Math.max(0, mean.length - 12); i--) if (mean[i] !== null) return mean[i];
    return null;
  }

  bounds() {
    let low = Infinity, high = -Infinity;
    for (const line of this.lines) {
      const found = this.series(line);
      for (const value of [...(found?.low ?? found?.mean ?? []), ...(found?.high ?? [])]) {
        if (value === null || (this.log && value <= 0)) continue;
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
    }
    if (low > high) return null;
    if (this.log) return [low / 1.2, Math.max(high * 1.2, low * 2)];
    if (this.zero) low = Math.min(0, low);
    const room = (high - low) * 0.08 || Math.abs(high) * 0.1 || 1;
    low = this.zero && low >= 0 ? 0 : low - room;
    high += room;
    if (this.least !== null) low = Math.max(this.least, low);
    if (this.most !== null) high = Math.min(this.most, high);
    return [low, high];
  }

  draw() {
    const history = this.shared.history;
    const box = this.element.getBoundingClientRect();
    if (!history || box.width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    const height = this.height + (this.axis ? AXIS : 0);
    const size = [Math.round(box.width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== size[0] || this.canvas.height !== size[1]) [this.canvas.width, this.canvas.height] = size;
    this.canvas.style.height = `${height}px`;
    const pen = this.canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, box.width, height);
    pen.font = "12px Inter, system-ui, sans-serif";
    const { from, to, start, width } = history;
    const right = box.width - RIGHT, bottom = this.height - BOTTOM;
    const x = (ms) => LEFT + ((ms - from) / (to - from)) * (right - LEFT);
    const soft = colour("--soft"), grid = colour("--grid");
    const bounds = this.bounds();
    this.times(pen, x, from, to, right, bottom, soft, grid);
    for (const line of this.lines) {
      const shown = this.shared.cursor === null ? this.last(line) : this.at(line, this.shared.cursor);
      this.values.get(line.name).textContent = this.format(shown);
    }
    if (!bounds) {
      pen.fillStyle = soft;
      pen.fillText("no values in this time", LEFT + 8, TOP + 16);
      return;
    }
    const [low, high] = bounds.map((value) => (this.log ? Math.log10(value) : value));
    const y = (value) => bottom - (((this.log ? Math.log10(Math.max(value, bounds[0])) : value) - low) / (high - low)) * (bottom - TOP);
    pen.textAlign = "right";
    const ticks = this.log ? decades(...bounds) : nice(low, high, Math.max(2, this.height / 45));
    const step = this.log || ticks.length < 2 ? null : ticks[1] - ticks[0];
    for (const at of ticks) {
      pen.strokeStyle = grid;
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(LEFT, Math.round(y(at)) + 0.5);
      pen.lineTo(right, Math.round(y(at)) + 0.5);
      pen.stroke();
      pen.fillStyle = soft;
      pen.fillText(this.format(at, step), LEFT - 8, y(at) + 4);
    }
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, right - LEFT, this.height);
    pen.clip();
    for (const mark of this.shared.marks) {
      pen.strokeStyle = colour(mark.colour);
      pen.setLineDash(mark.dash ?? []);
      pen.lineWidth = mark.dash ? 1 : 1.4;
      pen.globalAlpha = this.shared.marks.length > MANY ? 0.25 : 0.6;
      pen.beginPath();
      pen.moveTo(x(mark.time), 0);
      pen.lineTo(x(mark.time), this.height);
      pen.stroke();
    }
    pen.globalAlpha = 1;
    for (const line of [...this.lines].reverse()) this.line(pen, line, x, y, start, width);
    pen.setLineDash([]);
    if (this.shared.cursor !== null) {
      pen.strokeStyle = soft;
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(x(this.shared.cursor), 0);
      pen.lineTo(x(this.shared.cursor), this.height);
      pen.stroke();
    }
    pen.restore();
  }

  line(pen, line, x, y, start, width) {
    const found = this.series(line);
    if (!found) return;
    const middle = (i) => x(start + (i + 0.5) * width);
    pen.strokeStyle = pen.fillStyle = colour(line.colour);
    if (found.low) {
      pen.globalAlpha = 0.16;
      let run = [];
      const close = () => {
        if (!run.length) return;
        pen.beginPath();
        for (const i of run) pen.lineTo(middle(i), y(found.high[i]));
        for (const i of run.toReversed()) pen.lineTo(middle(i), y(found.low[i]));
        pen.fill();
        run = [];
      };
      for (let i = 0; i < found.mean.length; i++) {
        if (found.low[i] === null) continue;
        if (run.length && i - run[run.length - 1] > GAP) close();
        run.push(i);
      }
      close();
      pen.globalAlpha = 1;
    }
    pen.lineWidth = 1.7;
    pen.lineJoin = "round";
    pen.setLineDash(line.dash ?? []);
    pen.beginPath();
    let before = -9;
    found.mean.forEach((value, i) => {
      if (value === null) return;
      if (i - before > GAP) {
        pen.moveTo(middle(i) - 0.5, y(value));
        pen.lineTo(middle(i) + 0.5, y(value));
      } else pen.lineTo(middle(i), y(value));
      before = i;
    });
    pen.stroke();
  }

  times(pen, x, from, to, right, bottom, soft, grid) {
    const wanted = (to - from) / Math.max(2, (right - LEFT) / 110);
    const step = STEPS.find((each) => each >= wanted) ?? 7 * 86400e3;
    const zone = new Date(to).getTimezoneOffset() * 60e3;
    pen.textAlign = "center";
    for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) {
      pen.strokeStyle = grid;
      pen.lineWidth = 1;
      pen.beginPath();
      pen.moveTo(Math.round(x(at)) + 0.5, TOP);
      pen.lineTo(Math.round(x(at)) + 0.5, bottom);
      pen.stroke();
      if (this.axis && x(at) > LEFT + 20 && x(at) < right - 20) {
        pen.fillStyle = soft;
        pen.fillText(tick(at, step), x(at), this.height + AXIS - 6);
      }
    }
  }
}

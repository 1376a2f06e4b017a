// Lines over time on a canvas: bands from least to largest value, marks, a cursor that all charts of a page share.

import { h, colour, dash, keyOf, moment, nice, tick } from "./format.js";

const LEFT = 56, RIGHT = 12, ENDS = 58, TOP = 8, BOTTOM = 4, AXIS = 20, STRIP = 22;
const GAP = 6; // buckets: a hole of a few is a metric that comes less often than they are wide
const OUTLIERS = 0.01; // share of the values at either end that the axis need not hold
const WIDE = 100; // times the least value that the greatest is
const LEAST_DRAG = 8; // pixels
const STEPS = [1e3, 5e3, 15e3, 30e3, 60e3, 300e3, 900e3, 1800e3, 3600e3, 7200e3, 21600e3, 43200e3, 86400e3];

function decades(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const k of [1, 2, 5]) if (k * 10 ** power >= low * 0.99 && k * 10 ** power <= high * 1.01) ticks.push(k * 10 ** power);
  }
  return ticks.length > 6 ? ticks.filter((each) => Math.abs(Math.log10(each) % 1) < 1e-9) : ticks;
}

// What several charts share: the range of time, marks, where the cursor is, which lines are off, and what a drag does.
export class Shared {
  constructor(zoom = null) {
    Object.assign(this, { charts: [], cursor: null, marks: [], history: null, off: new Set(), zoom });
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

function offer(file, name) {
  const link = h("a", { href: URL.createObjectURL(file), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // a busy browser begins to save it later
}

export class Chart {
  // lines : list of {name, label, colour (variable), dash, note}. format : of values, and of ticks so far apart. unit : in
  // the title. limit : a value that is drawn as a dashed line. reigns : of who was champion, a strip below. above : an
  // element over the canvas. ends : whether the last values stand beside the lines. fills : whether it grows with its
  // card, from `height` on. wide : whether the axis has logarithms where values span decades.
  constructor(shared, { title, unit, lines, height = 110, format, log = false, wide = false, zero = false, least = null, most = null, limit = null, reigns = null, above = null, ends = false, fills = false }) {
    Object.assign(this, { shared, title, unit, lines, height, least_height: height, fills, format, log, wide, zero, least, most, limit, reigns, right: ends ? ENDS : RIGHT, ends });
    this.canvas = h("canvas", {
      tabindex: 0, role: "slider", "aria-label": `${title} over time`, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": 0,
      "aria-valuetext": "no values yet",
    });
    this.values = new Map();
    this.when = h("span", { class: "when" });
    const file = (name, title, onclick) => h("button", { type: "button", class: "note", title, disabled: true, onclick }, name); // until it is drawn
    this.files = ends ? [file("CSV", "Save the lines of this page", () => this.save()), file("PNG", "Save this chart", () => this.picture())] : [];
    this.legend = h("div", { class: "legend" }, title ? h("span", { class: "name" }, title) : null, unit ? h("span", { class: "note" }, unit) : null,
      lines.map((line) => this.entry(line)), this.when, this.files);
    this.element = h("div", { class: fills ? "chart fills" : "chart" }, this.legend, above, this.canvas);
    this.canvas.addEventListener("pointermove", (event) => this.hover(event));
    this.canvas.addEventListener("pointerleave", () => { this.began = null; shared.point(null); });
    this.canvas.addEventListener("pointerdown", (event) => { this.began = shared.zoom && event.pointerType === "mouse" ? this.moment(event) : null; });
    this.canvas.addEventListener("pointerup", (event) => this.drop(event));
    this.canvas.addEventListener("keydown", (event) => this.press(event));
    new ResizeObserver(() => this.draw()).observe(this.element);
    shared.charts.push(this);
  }

  // All lines of the page in the range that is shown, a row a bucket.
  save() {
    const { start, width, series } = this.shared.history, lines = this.shared.charts.flatMap((chart) => chart.lines ?? []);
    const columns = [...new Set(lines.map((line) => line.name))].filter((name) => series.has(name)), means = columns.map((name) => series.get(name).mean);
    const rows = Array.from({ length: Math.max(0, ...means.map((mean) => mean.length)) }, (_, i) => [new Date(start + i * width).toISOString(), ...means.map((mean) => mean[i] ?? "")]);
    offer(new Blob([[["time", ...columns], ...rows].map((row) => row.join(",")).join("\n"), "\n"], { type: "text/csv" }), "riparian.csv");
  }

  // The chart as it is drawn, below its title and the values of its lines.
  picture() {
    const { width, height } = this.canvas, ratio = window.devicePixelRatio || 1, top = 34 * ratio;
    const page = h("canvas", { width, height: height + top }), pen = page.getContext("2d");
    pen.fillStyle = colour("--card");
    pen.fillRect(0, 0, width, height + top);
    pen.font = `600 ${13 * ratio}px Inter, system-ui, sans-serif`;
    let x = 14 * ratio;
    for (const [text, ink] of [[this.title, "--text"], ...this.shown.map((line) => [`${line.label} ${this.values.get(line.name).textContent}`, line.colour])]) {
      pen.fillStyle = colour(ink);
      pen.fillText(text, x, 22 * ratio);
      x += pen.measureText(text).width + 18 * ratio;
    }
    pen.drawImage(this.canvas, 0, top);
    page.toBlob((file) => offer(file, "riparian.png"));
  }

  // A line in the legend, with its value now or at the cursor; of several a button that switches it.
  entry(line) {
    const value = h("b", {}, dash);
    this.values.set(line.name, value);
    const content = [keyOf(line), h("span", {}, line.label, line.note ? h("span", { class: "note" }, ` ${line.note}`) : null), value];
    if (this.lines.length < 2) return h("span", { class: "entry" }, content);
    return h("button", { type: "button", class: "entry", "aria-pressed": "true", onclick: ({ currentTarget }) => {
      const { off } = this.shared;
      off.has(line.name) ? off.delete(line.name) : off.add(line.name);
      currentTarget.setAttribute("aria-pressed", String(!off.has(line.name)));
      this.shared.draw();
    } }, content);
  }

  get shown() {
    return this.lines.filter((line) => !this.shared.off.has(line.name));
  }

  // The time below the pointer; null beside the picture.
  moment(event) {
    const box = this.canvas.getBoundingClientRect(), { from, to } = this.shared.history ?? {};
    const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - this.right);
    return !from || share < 0 || share > 1 ? null : from + share * (to - from);
  }

  hover(event) {
    const ms = this.moment(event);
    if (ms !== null) this.shared.point(ms);
  }

  drop(event) {
    const ends = [this.began, this.moment(event)].sort((a, b) => a - b), { from, to } = this.shared.history ?? {};
    const pixels = ((ends[1] - ends[0]) / (to - from)) * this.canvas.clientWidth;
    const whole = this.began !== null && ends[0] !== null && pixels > LEAST_DRAG;
    this.began = null;
    if (whole) this.shared.zoom(...ends.map(Math.round));
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
    const values = this.shown.map((line) => `${line.label} ${this.format(this.at(line, ms))}`);
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

  // Of the axis: a few values at either end, such as those of a stream's first labels, may lie beyond it.
  bounds() {
    const all = [];
    if (this.wide) this.log = false;
    for (const line of this.shown) for (const value of this.series(line)?.mean ?? []) if (value !== null && !(this.log && value <= 0)) all.push(value);
    if (!all.length) return null;
    all.sort((a, b) => a - b);
    const cut = Math.floor(OUTLIERS * all.length), tail = this.shown.map((line) => this.last(line)).filter((value) => value !== null && !(this.log && value <= 0));
    let low = Math.min(all[cut], ...tail), high = Math.max(all[all.length - 1 - (this.log || this.zero ? 0 : cut)], ...tail);
    if (this.wide) this.log = low > 0 && high > WIDE * low;
    if (this.log) return [low / 1.2, Math.max(high * 1.2, low * 2)];
    if (this.limit !== null) [low, high] = [Math.min(low, this.limit), Math.max(high, this.limit)];
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
    for (const each of this.files) each.disabled = false;
    const ratio = window.devicePixelRatio || 1;
    const below = AXIS + (this.reigns ? STRIP : 0);
    if (this.fills) { // the picture is out of the flow, so that its card can shrink again
      this.element.style.paddingBottom = `${this.least_height + below}px`;
      const top = this.canvas.previousElementSibling.offsetTop + this.canvas.previousElementSibling.offsetHeight;
      this.canvas.style.top = `${top}px`;
      this.height = Math.max(this.least_height, this.element.clientHeight - top - below);
    }
    const height = this.height + below;
    const size = [Math.round(box.width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== size[0] || this.canvas.height !== size[1]) [this.canvas.width, this.canvas.height] = size;
    this.canvas.style.height = `${height}px`;
    const pen = this.canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, box.width, height);
    pen.font = "12px Inter, system-ui, sans-serif";
    const { from, to, start, width } = history, { cursor } = this.shared;
    const right = box.width - this.right, bottom = this.height - BOTTOM;
    const x = (ms) => LEFT + ((ms - from) / (to - from)) * (right - LEFT);
    const soft = colour("--soft"), grid = colour("--grid");
    const rule = (x1, y1, x2, y2, stroke, dash = [], thick = 1) => {
      pen.strokeStyle = stroke;
      pen.lineWidth = thick;
      pen.setLineDash(dash);
      pen.beginPath();
      pen.moveTo(x1, y1);
      pen.lineTo(x2, y2);
      pen.stroke();
      pen.setLineDash([]);
    };
    const bounds = this.bounds();
    this.times(pen, x, from, to, right, rule, bottom, soft, grid);
    for (const line of this.lines) this.values.get(line.name).textContent = this.shared.off.has(line.name) ? "off" : this.format(cursor === null ? this.last(line) : this.at(line, cursor));
    this.when.textContent = cursor === null || !this.ends ? "" : moment(cursor);
    if (this.reigns) this.strip(pen, x, from, to, soft);
    if (!bounds) {
      pen.fillStyle = soft;
      pen.textAlign = "left";
      pen.fillText("no values in this time", LEFT + 8, TOP + 16);
      return;
    }
    const [low, high] = bounds.map((value) => (this.log ? Math.log10(value) : value));
    const y = (value) => bottom - (((this.log ? Math.log10(Math.max(value, bounds[0])) : value) - low) / (high - low)) * (bottom - TOP);
    pen.textAlign = "right";
    const ticks = this.log ? decades(...bounds) : nice(low, high, Math.max(2, this.height / 45));
    const step = this.log || ticks.length < 2 ? null : ticks[1] - ticks[0];
    for (const at of ticks) {
      rule(LEFT, Math.round(y(at)) + 0.5, right, Math.round(y(at)) + 0.5, grid);
      pen.fillStyle = soft;
      pen.fillText(this.format(at, step), LEFT - 8, y(at) + 4);
    }
    if (this.limit !== null) rule(LEFT, y(this.limit), right, y(this.limit), soft, [5, 4]);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, right - LEFT, this.height);
    pen.clip();
    pen.textAlign = "center";
    for (const mark of this.shared.marks) {
      if (!mark.small) rule(x(mark.time), 0, x(mark.time), this.height, colour(mark.colour), mark.dash, mark.dash ? 1 : 1.6);
      else if (this.ends) {
        pen.fillStyle = colour("--slate2");
        pen.fillText("◇", x(mark.time), bottom - 2);
      }
    }
    for (const line of this.shown.toReversed()) this.line(pen, line, x, y, start, width);
    pen.setLineDash([]);
    if (cursor !== null) rule(x(cursor), 0, x(cursor), this.height, soft);
    if (this.began && cursor !== null) {
      pen.fillStyle = colour("--accent");
      pen.globalAlpha = 0.14;
      pen.fillRect(x(Math.min(this.began, cursor)), 0, Math.abs(x(cursor) - x(this.began)), this.height);
      pen.globalAlpha = 1;
    }
    pen.restore();
    if (this.ends) this.lasts(pen, y, right);
  }

  // The last values beside the lines, so far apart that they can be read.
  lasts(pen, y, right) {
    const found = this.shown.map((line) => ({ line, value: this.last(line) })).filter(({ value }) => value !== null).map((each) => ({ ...each, at: y(each.value) })).sort((a, b) => a.at - b.at);
    pen.textAlign = "left";
    pen.font = "600 12px Inter, system-ui, sans-serif";
    let before = -99;
    for (const { line, value, at } of found) {
      before = Math.max(at, before + 14);
      pen.fillStyle = colour(line.colour);
      pen.beginPath();
      pen.arc(right, at, 3.5, 0, 7);
      pen.fill();
      pen.fillText(this.format(value), right + 7, before + 4);
    }
  }

  // Who was champion when.
  strip(pen, x, from, to, soft) {
    const top = this.height + AXIS + 2;
    pen.textAlign = "left";
    this.reigns.forEach(({ since, name, colour: own }, i) => {
      const begin = x(Math.max(from, since)), end = x(Math.min(to, this.reigns[i + 1]?.since ?? to));
      if (end <= begin) return;
      pen.fillStyle = colour(own);
      pen.fillRect(begin, top, end - begin - 1, 4);
      const text = i === this.reigns.length - 1 ? `champion: ${name}` : name;
      pen.fillStyle = soft;
      if (pen.measureText(text).width < end - begin) pen.fillText(text, begin, top + 17);
    });
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
    pen.lineWidth = line.lead ? 2.6 : 1.7;
    pen.lineJoin = "round";
    pen.setLineDash(line.dash ?? []);
    pen.beginPath();
    let before = -9;
    const alone = []; // points without a line to another one
    found.mean.forEach((value, i) => {
      if (value === null) return;
      if (i - before > GAP) {
        pen.moveTo(middle(i), y(value));
        alone.push(i);
      } else {
        pen.lineTo(middle(i), y(value));
        if (alone[alone.length - 1] === before) alone.pop();
      }
      before = i;
    });
    pen.stroke();
    for (const i of alone) {
      pen.beginPath();
      pen.arc(middle(i), y(found.mean[i]), line.lead ? 3.5 : 2.5, 0, 7);
      pen.fill();
    }
  }

  times(pen, x, from, to, right, rule, bottom, soft, grid) {
    const wanted = (to - from) / Math.max(2, (right - LEFT) / 110);
    const step = STEPS.find((each) => each >= wanted) ?? 7 * 86400e3;
    const zone = new Date(to).getTimezoneOffset() * 60e3;
    pen.textAlign = "center";
    for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) {
      rule(Math.round(x(at)) + 0.5, TOP, Math.round(x(at)) + 0.5, bottom, grid);
      if (x(at) > LEFT + 20 && x(at) < right - 20) {
        pen.fillStyle = soft;
        pen.fillText(tick(at, step), x(at), this.height + AXIS - 6);
      }
    }
  }
}

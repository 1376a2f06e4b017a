// Small plots in SVG: axes with few ticks, and marks that are put at values.

import { h, nice } from "./format.js";

const WIDTH = 380, HEIGHT = 250;
const LEFT = 46, RIGHT = 20, TOP = 26, BOTTOM = 40;

export const logit = (p) => Math.log(Math.min(1 - 1e-4, Math.max(1e-4, p)) / (1 - Math.min(1 - 1e-4, Math.max(1e-4, p))));
export const PERCENTS = [[0, "0 %"], [0.25, "25 %"], [0.5, "50 %"], [0.75, "75 %"], [1, "100 %"]];
export const ODDS = [[0.0001, "0.01 %"], [0.001, "0.1 %"], [0.01, "1 %"], [0.1, "10 %"], [0.5, "50 %"], [0.9, "90 %"], [0.99, "99 %"]];

// A scale of values. ticks : [value, text]. by : of the values before they are placed, such as `logit`.
export const scale = (low, high, ticks, label = "", by = (value) => value) => ({ low: by(low), high: by(high) > by(low) ? by(high) : by(low) + 1, ticks, label, by });

// title : for those who do not see it. draw : (x, y) -> elements; x and y place values.
export function plot(title, across, up, draw, height = HEIGHT) {
  const place = (axis, from, to) => (value) => from + ((axis.by(value) - axis.low) / (axis.high - axis.low)) * (to - from);
  const x = place(across, LEFT, WIDTH - RIGHT), y = place(up, height - BOTTOM, TOP);
  const inside = (axis, value) => axis.by(value) >= axis.low - 1e-9 && axis.by(value) <= axis.high + 1e-9;
  const grid = up.ticks.filter(([value]) => inside(up, value)).flatMap(([value, text]) => [
    h("path", { class: "rule", d: `M${LEFT},${y(value)}H${WIDTH - RIGHT}` }), h("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, text)]);
  const below = across.ticks.filter(([value]) => inside(across, value)).map(([value, text]) => h("text", { x: x(value), y: height - BOTTOM + 16, "text-anchor": "middle" }, text));
  return h("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": title }, grid, below,
    h("text", { x: WIDTH - RIGHT, y: height - 6, "text-anchor": "end" }, across.label), h("text", { x: 4, y: 12 }, up.label), [draw(x, y)].flat(Infinity));
}

export const line = (xs, ys, x, y, kind = "line") => h("path", { class: kind, d: xs.map((value, i) => `${i ? "L" : "M"}${x(value).toFixed(1)},${y(ys[i]).toFixed(1)}`).join("") });

// Round ticks of numbers, about four.
export const ticks = (low, high, format) => nice(low, high, 4).map((value) => [value, format(value)]);

// Why a score is what it is: where it begins, what each feature adds, and where it ends.

import { dash, h, number, percent } from "./format.js";

const LETTERS = 34;

// What is added, in points of a probability or in units of a value.
export const added = (value, share) => `${value < 0 ? "−" : "+"}${share ? (100 * Math.abs(value)).toFixed(Math.abs(value) < 0.0095 ? 2 : 1) : number(Math.abs(value))}`;

// [name, what it adds] of each feature, the largest first: an object has names such as "10" in an order of its own.
export const largest = (reasons) => Object.entries(reasons ?? {}).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));

// [name, from, to, what it adds, feature] of each bar; the first and the last are from 0 on and add nothing. What
// reasons leave out stands in the first, or with `begin` before the last. rows : as `largest` gives them.
export function steps(score, rows, begin = null, name = null) {
  const sum = rows.reduce((total, [, value]) => total + value, 0);
  let at = begin ?? score - sum;
  const found = [[name ?? "all else", 0, at, null]];
  for (const [feature, value] of rows) found.push([feature, at, (at += value), value, feature]);
  if (begin !== null && Math.abs(score - at) > 1e-9 * Math.max(1, Math.abs(score))) found.push(["other features", at, score, score - at]);
  return [...found, ["score", 0, score, null]];
}

function scaleOf(bars, threshold, share) {
  const values = [0, ...(share ? [] : [threshold ?? 0]), ...bars.flatMap(([, from, to]) => [from, to])];
  const low = Math.min(...values), high = Math.max(...values, share ? Math.min(1, (threshold ?? 0) * 1.1) : -Infinity);
  return (value) => (100 * (value - low)) / (high - low || 1);
}

function track([, from, to, value], at, threshold) {
  const bar = h("span", { class: `bar${value === null ? " whole" : value < 0 ? " less" : ""}` });
  bar.style.left = `${at(Math.min(from, to))}%`;
  bar.style.width = `${Math.max(0.4, Math.abs(at(to) - at(from)))}%`;
  const mark = threshold === null || threshold === undefined ? null : h("span", { class: "at" });
  if (mark) mark.style.left = `${at(threshold)}%`;
  return h("span", { class: "track" }, bar, mark);
}

// The whole picture, a row each. values : name -> what stood in the record.
export function waterfall(bars, { threshold = null, share = true, values = {}, caption }) {
  const at = scaleOf(bars, threshold, share), plain = (value) => (share ? percent(value) : number(value));
  const rows = bars.map((bar) => {
    const [name, , to, value, feature] = bar;
    const stood = feature !== undefined && Object.hasOwn(values, feature) ? values[feature] : undefined;
    const short = name.length > LETTERS ? `${name.slice(0, LETTERS - 1)}…` : name;
    return h("li", { class: value === null ? "whole" : null, title: name },
      h("span", { class: "what" }, short, stood === undefined ? null : h("span", { class: "note" }, ` ${stood === null ? "missing" : stood}`)),
      track(bar, at, threshold), h("span", { class: "r" }, value === null ? plain(to) : added(value, share)));
  });
  return h("figure", {}, h("ol", { class: "waterfall" }, rows), caption ? h("figcaption", { class: "note" }, caption) : null);
}

// The same as a picture for a row of a table, with the two largest in words beside it. values : name -> text.
export function small(score, reasons, threshold, share, values = {}) {
  if (!reasons || score === null) return [h("span", { class: "note" }, dash)];
  const rows = largest(reasons), bars = steps(score, rows), all = scaleOf(bars, threshold, share);
  const two = rows.slice(0, 2).map(([name, value]) => h("span", {}, `${name} `, Object.hasOwn(values, name) ? h("b", {}, `${values[name]} `) : null, h("span", { class: "note" }, added(value, share))));
  return [h("span", { class: "spark", "aria-hidden": "true" }, bars.slice(1, -1).map((bar) => track(bar, all, threshold))), h("span", { class: "two" }, two)];
}

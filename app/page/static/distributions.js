// How a feature, or what a model predicts, was distributed before a drift and after it: shares of its values, bin by bin.

import { table } from "./widgets.js";
import { SIGNS, dash, h, moment, number, percent, signalOf } from "./format.js";

const WIDTH = 360, HEIGHT = 130, BOTTOM = 22, LEFT = 38, MOST = 6, MOST_BARS = 24, MOST_ROWS = 30, LETTERS = 8;
const FAR = [0.25, 0.1]; // stability index, as credit scorecards are judged
const KINDS = { values: "its values", missing: "missing values", unseen: "values that were not there before", range: "values beyond the range of before" };

const short = (text) => (text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text);

// Names of the bins, in the order of the counts.
export function bins({ edges, values }) {
  if (values) return [...values.map(String), "others", "unseen", "missing"];
  const between = edges.slice(1).map((edge, i) => `${number(edges[i])} to ${number(edge)}`);
  return [`below ${number(edges[0])}`, ...between, `above ${number(edges[edges.length - 1])}`, "missing"];
}

function shares(counts) {
  const total = counts.reduce((sum, n) => sum + n, 0) || 1;
  return counts.map((n) => n / total);
}

// Bars of before and after side by side; bins that are empty in both at the ends are left out.
export function histogram(event) {
  const { shift } = event, names = bins(shift), before = shares(shift.before), after = shares(shift.after);
  const kept = names.map((_, i) => i).filter((i) => before[i] || after[i] || (shift.edges && i > 0 && i < names.length - 2)).slice(0, MOST_BARS);
  const most = Math.max(...kept.map((i) => Math.max(before[i], after[i]))) || 1, step = (WIDTH - LEFT - 6) / kept.length, bar = Math.max(1.5, Math.min(18, step * 0.4));
  const y = (share) => HEIGHT - BOTTOM - (share / most) * (HEIGHT - BOTTOM - 8), parts = [];
  for (const share of [0, most / 2, most]) {
    parts.push(h("path", { class: "rule", d: `M${LEFT},${y(share)}H${WIDTH - 4}` }), h("text", { x: LEFT - 6, y: y(share) + 4, "text-anchor": "end" }, percent(share, 0)));
  }
  const every = Math.ceil((short(kept.map((i) => names[i]).reduce((a, b) => (b.length > a.length ? b : a), "")).length * 7.5) / step);
  kept.forEach((i, k) => {
    const x = LEFT + step * (k + 0.5), title = h("title", {}, `${names[i]}: ${percent(before[i])} before, ${percent(after[i])} after`);
    parts.push(h("g", {}, title, h("rect", { x: x - bar, y: y(before[i]), width: bar, height: y(0) - y(before[i]), fill: "var(--slate2)" }),
      h("rect", { x, y: y(after[i]), width: bar, height: y(0) - y(after[i]), fill: "var(--accent)" })));
    const own = shift.values || i === 0 || i > names.length - 3;
    const label = own ? short(i === 0 && shift.edges ? "below" : i === names.length - 2 && shift.edges ? "above" : names[i]) : number(shift.edges[i]);
    if (k % every === 0) parts.push(h("text", { x, y: HEIGHT - 6, "text-anchor": "middle" }, label));
  });
  return h("svg", { class: "histogram", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": told(event) }, parts);
}

// What differs most, in a sentence.
export function told(event) {
  const { shift } = event, name = signalOf(event);
  const what = shift.at === undefined || shift.at === null ? KINDS[shift.kind] ?? shift.kind : shift.edges ? `values up to ${number(shift.at)}` : String(shift.at);
  return `${name}: ${what} went from ${percent(event.before)} to ${percent(event.after)}.`;
}

// The newest shift of each signal.
export function shifts(events) {
  const last = new Map();
  for (const event of events) if (event.shift) last.set(`${event.model} ${event.signal} ${event.partition}`, event);
  return [...last.values()].sort((a, b) => b.time - a.time).slice(0, MOST).map((event) => h("figure", {},
    h("figcaption", {}, h("strong", {}, signalOf(event)), h("span", { class: "note" }, ` partition ${event.partition}, ${moment(event.time)}`)),
    histogram(event), h("p", { class: "note" }, h("span", { class: "drift", "aria-hidden": "true" }, `${SIGNS.drift[0]} `), told(event), ` Hellinger distance ${number(event.shift.hellinger)}, stability index ${number(event.shift.psi)}.`)));
}

// How far each is from its reference now, the farthest first; of several partitions the one that is farthest.
export function distances(rows) {
  const worst = new Map();
  for (const one of rows) {
    const name = signalOf(one), known = worst.get(name);
    if (!known || one.hellinger > known.one.hellinger) worst.set(name, { one, n: (known?.n ?? 0) + 1 });
    else known.n += 1;
  }
  const share = (value) => (value === undefined || value === null ? dash : percent(value));
  const [far, moved] = FAR, judged = ({ psi }) => (psi > far ? h("span", { class: "bad-text" }, "▲ far") : psi > moved ? h("span", { class: "change" }, "◇ moved") : "near");
  return table([["Signal"], ["It is"], ["Partition", "r"], ["Hellinger distance, 0 to 1", "r"], ["Stability index", "r"], ["Missing", "r"], ["Unseen", "r"], ["Out of range", "r"]],
    [...worst.values()].sort((a, b) => b.one.hellinger - a.one.hellinger).slice(0, MOST_ROWS).map(({ one, n }) => [signalOf(one), judged(one), n > 1 ? `${one.partition}, of ${n}` : String(one.partition), number(one.hellinger), number(one.psi), share(one.missing), share(one.unseen), share(one.outside)]), "Distances from the reference");
}

// How a feature, or what a model predicts, was distributed before a drift and after it: shares of its values, bin by bin.

import { plot, scale } from "./plot.js";
import { table } from "./widgets.js";
import { SIGNS, dash, h, moment, number, percent, signalOf } from "./format.js";

const HEIGHT = 170, MOST = 6, MOST_BARS = 24, MOST_ROWS = 30, LETTERS = 8, MOST_LETTERS = 42;
const FAR = [0.25, 0.1]; // stability index, as credit scorecards are judged
const KINDS = { values: "its values", missing: "missing values", unseen: "values that were not there before", range: "values beyond the range of before" };

const short = (text) => (text.length > LETTERS ? `${text.slice(0, LETTERS - 1)}…` : text);

// Names of the bins, in the order of the counts.
function bins({ edges, values }) {
  if (values) return [...values.map(String), "others", "unseen", "missing"];
  const between = edges.slice(1).map((edge, i) => `${number(edges[i])} to ${number(edge)}`);
  return [`below ${number(edges[0])}`, ...between, `above ${number(edges[edges.length - 1])}`, "missing"];
}

function shares(counts) {
  const total = counts.reduce((sum, n) => sum + n, 0) || 1;
  return counts.map((n) => n / total);
}

// Bars of before and after side by side; bins that are empty in both at the ends are left out.
function histogram(event) {
  const { shift } = event, names = bins(shift), before = shares(shift.before), after = shares(shift.after);
  const kept = names.map((_, i) => i).filter((i) => before[i] || after[i] || (shift.edges && i > 0 && i < names.length - 2)).slice(0, MOST_BARS);
  const most = Math.max(...kept.map((i) => Math.max(before[i], after[i]))) || 1;
  const labels = kept.map((i) => {
    if (shift.values || i === names.length - 1) return short(names[i]);
    return i === 0 ? "below" : i === names.length - 2 ? "above" : number(shift.edges[i]);
  });
  const every = Math.ceil((Math.max(...labels.map((label) => label.length)) * kept.length) / MOST_LETTERS);
  const across = scale(0, kept.length, labels.map((label, k) => [k + 0.5, label]).filter((_, k) => k % every === 0));
  return plot(told(event), across, scale(0, most, [0, most / 2, most].map((share) => [share, percent(share, 0)])), (x, y) => kept.map((i, k) => {
    const bar = (kind, share, begin) => h("rect", { class: `bin ${kind}`, x: x(k + begin), y: y(share), width: x(0.4) - x(0), height: y(0) - y(share) });
    return h("g", {}, h("title", {}, `${names[i]}: ${percent(before[i])} before, ${percent(after[i])} after`), bar("", before[i], 0.1), bar("after", after[i], 0.5));
  }), HEIGHT);
}

// What differs most, in a sentence.
function told(event) {
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

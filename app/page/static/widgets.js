// What pages are made of: cards, tables, fields, dialogs, and the range of time that charts show.

import { h, percent } from "./format.js";

const RANGES = [["15m", 900e3, "15 m"], ["1h", 3600e3, "1 h"], ["6h", 6 * 3600e3, "6 h"], ["24h", 86400e3, "24 h"], ["7d", 7 * 86400e3, "7 d"]];
export const rangeOf = (name) => (RANGES.find(([each]) => each === name) ?? RANGES[1])[1];

export const card = (title, note, ...content) => h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, title), note ? h("span", { class: "note" }, note) : null), ...content);

// A card whose content is of the range of time that is chosen in its head.
export function timed(app, title, note, ...content) {
  const whole = card(title, note, ...content);
  whole.querySelector(".head").append(ranges(app));
  return whole;
}

function ranges(app) {
  return h("div", { class: "choice", role: "group", "aria-label": "Range of time" }, RANGES.map(([name, , label]) =>
    h("button", { type: "button", "aria-pressed": String(app.range === name && !app.from), onclick: () => app.go({ range: name, from: null, to: null }) }, label)));
}

export function table(heads, rows, caption) {
  const cell = (content, i) => {
    const attributes = { class: heads[i][1] ?? null, "data-label": heads[i][0] };
    return i === 0 ? h("th", { scope: "row" }, content) : h("td", attributes, content);
  };
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, heads.map(([name, kind]) => h("th", { scope: "col", class: kind ?? null }, name)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell))))));
}

// A value on a line with its interval, and further values as rings: {low, high, value, rings: [[value, label]]}.
export function sure({ low, high, value, rings = [] }, [least, most], text, look = null) {
  const at = (x) => `${(100 * (Math.min(most, Math.max(least, x)) - least)) / (most - least || 1)}%`;
  const put = (kind, x, content = null) => { const one = h("span", { class: kind }, content); one.style.left = at(x); return one; };
  const bar = h("span", { class: "span" });
  bar.style.left = at(low ?? value);
  bar.style.right = `calc(100% - ${at(high ?? value)})`;
  const line = h("div", { class: "sure", "aria-hidden": "true" }, bar, put("dot", value), rings.map(([x, label]) => [put("ring", x), put("ring-text", x, label)]), put("dot-text", value, text));
  if (look !== null) line.style.setProperty("--c", `var(--m${look})`);
  return line;
}

const SOON_MS = 700;

// Asks the server now, and with each `update` once so much time is over; `draw` gets what is new, `told` what is said
// where it does not answer. Where `draw` says that more is coming, it asks again soon.
export function polled(app, path, ms, told, draw) {
  let asked = 0, shown = "";
  async function look() {
    asked = Infinity; // one at a time
    let found;
    try {
      found = await app.get(path);
    } catch (error) {
      told.textContent = String(error.message);
      shown = ""; // what comes next is drawn over it
      return;
    } finally {
      asked = Date.now();
    }
    const text = JSON.stringify([found, app.status.control]);
    if (text === shown) return;
    shown = text;
    if (draw({ ...found, class: found.task === "anomaly" ? "anomaly" : found.class })) setTimeout(() => told.isConnected && look(), SOON_MS);
  }
  look();
  return () => { if (Date.now() - asked > ms) look(); };
}

// Puts elements into another in their order, and moves none that stands where it shall: what has the focus keeps it.
export function settle(parent, elements) {
  const wanted = new Set(elements);
  for (const each of [...parent.children]) if (!wanted.has(each)) each.remove();
  elements.forEach((each, i) => { if (parent.children[i] !== each) parent.insertBefore(each, parent.children[i] ?? null); });
}

export function field(label, attributes) {
  const input = h("input", attributes);
  return [h("label", { class: "field" }, label, input), input];
}

export function dialogOf(title, ...content) {
  const dialog = h("dialog", { "aria-labelledby": "asked", onclose: () => dialog.remove() }, h("h2", { id: "asked" }, title), ...content);
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// Shares by name, the greatest first.
export const shareBars = (rows, digits = 0) => h("div", { class: "bars" }, rows.flatMap(([name, value]) => {
  const bar = h("div", { class: "bar-line" });
  bar.style.width = `${(100 * value) / rows[0][1]}%`;
  return [h("span", {}, name), bar, h("span", { class: "r" }, percent(value, digits))];
}));

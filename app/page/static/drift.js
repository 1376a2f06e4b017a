// What changed, and when: a row of marks for each signal that is watched, and every event as a row of a table.

import { charts, marksOf, together, zoomed } from "./pages.js";
import { card, table, timed } from "./widgets.js";
import { distances, shifts } from "./distributions.js";
import { SIGNS, count, h, measured, moment, signalOf } from "./format.js";

const FIRST_EVENTS = 25, OTHERS = ["assigned", "applied", "refused", "proposed"];
const ROW = 24, NAMES = 210, NARROW = 130, NEAR = 7, MOST_ROWS = 40;

// Rows: errors of the champion, those of challengers, then features, the one that changed most often first.
export function rowsOf(events) {
  const rows = new Map();
  for (const event of events) {
    const name = signalOf(event);
    if (!rows.has(name)) rows.set(name, { name, rank: event.model === "champion" ? 0 : event.model ? 1 : 2, events: [], drifts: 0 });
    rows.get(name).events.push(event);
    rows.get(name).drifts += ["drift", "reset", "replace-started"].includes(event.kind) ? 1 : 0;
  }
  return [...rows.values()].sort((a, b) => a.rank - b.rank || b.drifts - a.drifts || a.name.localeCompare(b.name));
}

function strip(rows, { from, to }, width) {
  const left = width < 600 ? NARROW : NAMES, right = width - 60;
  const x = (time) => left + ((time - from) / (to - from)) * (right - left);
  const shown = rows.slice(0, MOST_ROWS), parts = [];
  shown.forEach((row, i) => {
    const y = ROW * i + ROW / 2, last = new Map();
    parts.push(h("path", { class: "rule", d: `M${left},${y}H${right}` }), h("text", { x: 0, y: y + 4 }, row.name.length > left / 7 ? `${row.name.slice(0, left / 7 - 1)}…` : row.name));
    for (const event of row.events) {
      const [sign, kind] = SIGNS[event.kind] ?? ["●", "slate"], at = x(event.time);
      if (at < left - 1 || at > right + 1 || at - (last.get(sign) ?? -NEAR) < NEAR) continue; // what would lie on itself
      last.set(sign, at);
      parts.push(h("text", { class: kind, opacity: event.kind === "improvement" ? 0.45 : null, x: at, y: y + 4, "text-anchor": "middle", fill: "currentColor" }, h("title", {}, moment(event.time)), sign));
    }
    parts.push(h("text", { class: "count", x: width - 4, y: y + 4, "text-anchor": "end" }, count(row.drifts)));
  });
  return h("svg", { class: "strip", width, height: ROW * shown.length, role: "img", "aria-label": `Marks of ${count(rows.length)} signals over time; the table below has every event` }, parts);
}

function watched({ detectors, features, distributions = [], on_drift: reaction }, models) {
  const named = (some) => (some.length > 4 ? `${some.length} features` : some.join(", "));
  const without = distributions.length ? ` Without labels: how ${named(distributions)} and what the champion predicts are distributed.` : "";
  if (!detectors.length) return `Drift of errors is not watched: the stream file says drift: none.${without}`;
  const what = features.length ? `, and ${named(features)}` : "; of features none (drift.features in the stream file)";
  return `Watched by ${detectors.join(", ")}: the errors of ${models} model${models === 1 ? "" : "s"}${what}. On a drift: ${reaction}.${without}`;
}

export function drift(app) {
  const shared = zoomed(app);
  const over = timed(app, "Over time", null, ...charts(app, shared, ["objective"]));
  const body = h("div"), lanes = h("div"), figures = h("div", { class: "figures" }), task = app.status.task;
  const keys = h("span", { class: "legend" }, h("span", {}, h("span", { class: "key before" }), "before"), h("span", {}, h("span", { class: "key after" }), "after"));
  const both = card("Before and after", "shares of the values, of the newest shift of each", figures);
  both.querySelector(".head").append(keys);
  const far = h("div"), away = card("Distance from the reference", "of the newest values, without labels", far);
  away.hidden = true;
  let whole = false;

  async function measure() {
    const { rows } = await app.get(`/distances?partition=${app.partition ?? ""}`);
    away.hidden = !rows.length;
    if (rows.length) far.replaceChildren(distances(rows));
  }

  function list(shown) {
    const kept = whole ? shown : shown.slice(0, FIRST_EVENTS);
    body.replaceChildren(table([["What"], ["When"], ["Partition", "r"], ["Signal"], ["Detector"], ["Before", "r"], ["After", "r"], ["At value", "r"], ["Offset", "r"]],
      kept.map((event) => {
        const [sign, kind, name] = SIGNS[event.kind] ?? ["●", "slate", event.kind];
        return [[h("span", { class: kind, "aria-hidden": "true" }, `${sign} `), event.times > 1 ? `${name}, in ${event.times} steps` : name], moment(event.time), String(event.partition), signalOf(event), event.detector,
          measured(event, event.before, task), measured(event, event.after, task), count(event.n), count(event.offset)];
      }), "Events of drift"));
    if (kept.length < shown.length) body.append(h("button", { type: "button", onclick: () => { whole = true; list(shown); } }, `Show all ${count(shown.length)}`));
    body.append(h("p", { class: "note" }, "Before: the mean since the drift before. After: the mean of the last 100 values. A trial's end: mean errors of the fresh and of the old model."));
  }

  return {
    elements: [over, card("What changed", "one row a signal; at the end its drifts in this time", lanes), both, away, card("Events", null, body)],
    update() {},
    history(found, all) {
      shared.set(found, marksOf(all));
      measure().catch(() => {}); // the stream of events says that nobody answers
      const known = all.filter((event) => !OTHERS.includes(event.kind));
      const moved = shifts(known);
      both.hidden = !moved.length;
      figures.replaceChildren(...moved);
      const watching = h("p", { class: "note" }, watched(app.status.watched, app.status.models.length));
      if (!known.length) {
        const labels = app.status.models.reduce((sum, model) => Math.max(sum, model.n), 0);
        lanes.replaceChildren(h("p", { class: "empty" }, `No drift in this time. ${count(labels)} labels were scored since the stream began.`), watching);
        body.replaceChildren(h("p", { class: "empty" }, "Nothing to show."));
        return;
      }
      lanes.replaceChildren(strip(rowsOf(known), found, Math.max(300, lanes.clientWidth)), watching);
      list(together(known).reverse());
    },
  };
}

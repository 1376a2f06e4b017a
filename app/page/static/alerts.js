// The last alerts, the newest first: why, and what came of them. Everything of records is text of strangers.

import { card, polled, settle, table } from "./widgets.js";
import { added, largest, small, steps, waterfall } from "./waterfall.js";
import { count, dash, h, moment, number, percent, span } from "./format.js";

const AGAIN_MS = 3_000, MOST_BESIDE = 5;
const FILTERS = [["", "All", "alerts"], ["waiting", "Waiting", "waiting"], ["right", "Right", "right"], ["wrong", "False alarm", "wrong"], ["missed", "Missed", "missed"]];
const SIGNS = { right: "■", wrong: "□", waiting: "◌", "no label": "–", missed: "✗", passed: "·" };

// What came of a prediction, as a sign, a word and a time.
export function came(row, about) {
  const words = { right: `${about} indeed`, wrong: "false alarm", missed: "missed", passed: "no alert, rightly", waiting: row.alert ? "waiting" : "no label yet", "no label": "no label will come" };
  const late = row.label_time ? (row.label_time - row.time) / 1000 : null; // below 0 where the records are of long ago
  const more = row.outcome === "waiting" ? (row.due ? `${row.assumed} on ${moment(row.due)}` : "") : late !== null ? late < -1 ? "" : `label ${late < 1 ? "at once" : `${span(late)} later`}` : row.label ? `${row.label}: no label in time` : "";
  return h("span", { class: `came ${row.outcome.replace(" ", "-")}` }, h("span", { "aria-hidden": "true" }, `${SIGNS[row.outcome]} `), h("b", {}, words[row.outcome]), more ? h("span", { class: "note" }, ` ${more}`) : null);
}

export const placeOf = (row) => `${row.partition}-${row.position}${row.index ? `-${row.index}` : ""}`;

export function copyLink(app, path) {
  const button = h("button", { type: "button", onclick: async () => {
    const all = new URL(path, location.href).href;
    try { await navigator.clipboard.writeText(all); button.textContent = "Copied"; } catch { button.replaceChildren(h("span", {}, all)); }
  } }, "Copy link");
  return button;
}

// What stood in a record, in the words of a row.
const brief = (value) => (typeof value === "number" ? value.toLocaleString("en", Math.abs(value) < 1000 ? { maximumSignificantDigits: 6 } : { maximumFractionDigits: 2 }) : whole(value));

// What a row has besides its two reasons: other features, those first that moved the score, and its keys, which lead on.
function beside(app, row, values) {
  const ranked = [...largest(row.reasons).slice(2).map(([name]) => name), ...Object.keys(row.values?.x ?? {}), ...Object.keys(row.features ?? {})].filter((name) => Object.hasOwn(values, name));
  const shown = [...new Set(ranked)].filter((name) => !largest(row.reasons).slice(0, 2).some(([top]) => top === name)).slice(0, MOST_BESIDE);
  const keys = Object.entries(row.values?.keys ?? {}).filter(([, value]) => value !== null).map(([key, value]) => h("a", { href: app.link({ tab: "keys", key, value }), onclick: (event) => app.follow(event) }, `${key} ${value}`));
  return [...keys, ...shown.map((name) => h("span", {}, h("span", { class: "note" }, `${name} `), values[name]))];
}

// Values as they stood, none cut.
export const whole = (value) => (value === null || value === undefined ? "missing" : typeof value === "number" ? value.toLocaleString("en", { maximumSignificantDigits: 17 }) : String(value));

// A prediction, all of it: why, values, what came of it, where it stands.
export function detail(app, place) {
  const body = h("div", { class: "detail", "aria-live": "polite" }, h("p", { class: "empty" }, "Reading the record …"));
  const [partition, position, index] = place.split("-").map(Number);
  load();
  return body;

  async function load() {
    let found;
    try {
      found = await app.get(`/partitions/${partition}/records/${position}?index=${index || 0}`);
    } catch (error) {
      body.replaceChildren(h("p", { class: "empty" }, String(error.message)));
      return;
    }
    const { prediction, outcome, x, keys, threshold, record, reasons: top, task } = found;
    const about = found.class, share = task !== "anomaly";
    const scored = outcome?.score ?? (share ? prediction.p?.[about] : prediction.y) ?? null;
    // Reasons are of what was named: of another class than that of alerts, of that.
    const named = share && prediction.y !== null && String(prediction.y) !== about ? prediction.p?.[prediction.y] ?? null : scored;
    const values = Object.fromEntries(Object.entries({ ...x, ...(prediction.features ?? {}) }).map(([name, value]) => [name, whole(value)]));
    const why = prediction.reasons && named !== null
      ? waterfall(steps(named, largest(prediction.reasons)), { threshold: named === scored ? threshold : null, share, values,
        caption: `Points of ${share ? `the probability of ${prediction.y}` : "the score"}, by ${prediction.model}. “all else” is what the other features add, and where a record without values begins.${threshold === null ? "" : ` Dashed: alerts begin at ${share ? percent(threshold) : number(threshold)}.`}` })
      : h("p", { class: "empty" }, top === null ? "The stream file asks for no reasons: predictions: {reasons: {top: 3, of: alerts}}." : "No reasons stand in its record.");
    const go = (label, changes) => h("a", { href: app.link(changes), onclick: (event) => app.follow(event) }, label);
    const rows = (of) => Object.entries(of ?? {}).map(([name, value]) => [name, h("span", { class: "value" }, whole(value)), prediction.reasons?.[name] === undefined ? "" : added(prediction.reasons[name], share)]);
    const heads = [["Feature"], ["Value", "r"], ["Added", "r"]], made = rows(prediction.features), own = rows(x);
    body.replaceChildren(
      h("div", { class: "two-columns" },
        h("div", {}, h("h3", {}, scored === null ? `Said ${prediction.y == null ? "nothing" : whole(prediction.y)}` : `Why ${share ? percent(scored) : number(scored)}`), why, outcome ? h("p", {}, came(outcome, share ? about : "anomaly")) : null),
        h("div", {}, made.length ? [h("h3", {}, "Over the key's past"), table(heads, made, "Features over the key's past")] : null,
          h("h3", {}, "The record"), own.length ? table(heads, own, "The record") : h("p", { class: "empty" }, "Its feature record is not kept any more."))),
      h("p", { class: "actions" }, copyLink(app, app.link({ tab: "alerts", at: place })),
        Object.entries(keys).filter(([, value]) => value !== null).map(([key, value]) => go(`${key} ${value}`, { tab: "keys", key, value })),
        go("All contributions", { tab: "predictions", id: prediction.id }),
        h("span", { class: "note" }, `id ${prediction.id} · partition ${partition}, offset ${count(position)} · ${moment(found.time)}`)),
      h("details", {}, h("summary", {}, "As JSON"), h("pre", { tabindex: 0, "aria-label": "the prediction" }, JSON.stringify(prediction, null, 1)), record === null ? null : h("pre", { tabindex: 0, "aria-label": "the feature record" }, record)));
  }
}

export function alerts(app) {
  const only = FILTERS.some(([name]) => name === app.own.only) ? app.own.only : "", place = /^\d+-\d+(-\d+)?$/.test(app.own.at ?? "") ? app.own.at : null;
  const told = h("p", { class: "note", role: "status" }, "Reading the last predictions …"), missing = h("div"), feed = h("div", { class: "feed" }), choice = h("div", { class: "choice", role: "group", "aria-label": "Which alerts" });
  const open = place === null ? null : detail(app, place);
  const whole_ = card("Alerts", null, told, missing, feed);
  whole_.querySelector(".head").append(choice);
  choice.hidden = !app.status.objective.labelled; // what came of them is never known
  const numbers = FILTERS.map(([name, label, counted]) => {
    const n = h("span", { class: "n" });
    choice.append(h("button", { type: "button", "aria-pressed": String(name === only), onclick: () => app.go({ only: name || null, at: null }) }, label, n));
    return [n, counted];
  });
  let lines = new Map();

  function draw({ rows, counts, since, read, threshold, class: about, target, task, missing: lacking }) {
    const share = task !== "anomaly", known = counts.right + counts.wrong;
    const kept = target && target[0] === "alert_rate" ? ` ${percent(target[1])} of the predictions shall be alerts.` : "";
    told.textContent = counts.predictions
      ? `${count(counts.alerts)} alert${counts.alerts === 1 ? "" : "s"} in the last ${count(counts.predictions)} predictions, since ${moment(since)}${read ? "" : "; more are being read"}.${known ? ` Of ${count(known)} whose label came, ${percent(counts.right / known)} ${task === "anomaly" ? "were anomalies" : `were ${about}`}.` : ""}${kept}${threshold === null ? "" : ` They begin at ${share ? percent(threshold, 2) : number(threshold)}.`}`
      : read ? "No predictions yet." : "Reading the last predictions …";
    missing.replaceChildren(...lacking.map((sentence) => h("p", { class: "set" }, sentence)));
    for (const [n, counted] of numbers) n.textContent = count(counts[counted]);
    const items = rows.map((row) => {
      const at = placeOf(row), item = lineOf(at);
      const values = Object.fromEntries(Object.entries({ ...row.values?.x, ...row.features }).map(([name, value]) => [name, brief(value)]));
      item.children[1].replaceChildren(...beside(app, row, values));
      item.firstChild.replaceChildren(h("span", { class: "time" }, moment(row.time)), h("span", { class: "id" }, row.id),
        h("span", { class: "score" }, row.score === null ? String(row.y ?? dash) : share ? percent(row.score) : number(row.score)),
        h("span", { class: "why" }, small(row.score, row.reasons, threshold, share, values)), came(row, about));
      return item;
    });
    lines = new Map(items.map((item, i) => [placeOf(rows[i]), item]));
    const apart = place !== null && !rows.some((row) => placeOf(row) === place); // an older one, by its link
    settle(feed, [...(apart ? [h("div", { class: "alert open" }, open)] : []), ...items,
      ...(rows.length || apart ? [] : [h("p", { class: "empty" }, counts.predictions && !lacking.length ? (only === "missed" ? `No ${about} without an alert, as far as labels came.` : "None.") : "")])]);
    return rows.some((row) => row.source && !row.values);
  }

  // The line of a prediction, the same one as long as it is shown: what has the focus keeps it.
  function lineOf(at) {
    if (lines.has(at)) return lines.get(at);
    const opened = at === place;
    return h("div", { class: `alert${opened ? " open" : ""}` },
      h("a", { class: "line", href: app.link({ at: opened ? null : at }), "aria-expanded": String(opened), onclick: (event) => app.follow(event) }), h("div", { class: "values", hidden: opened }), opened ? open : null);
  }

  const update = polled(app, `/alerts?only=${only}&partition=${app.partition ?? ""}`, AGAIN_MS, told, draw);
  return { elements: [whole_], update, history() {} };
}

// How good the predictions were whose labels came: what was caught and missed, by threshold, by score, by what it costs.

import { segments } from "./segments.js";
import { card, polled, table } from "./widgets.js";
import { ODDS, PERCENTS, line, logit, plot, scale, ticks } from "./plot.js";
import { count, h, moment, nice, number, percent, span, tick } from "./format.js";

const AGAIN_MS = 10_000;

const within = (low, high) => (low === undefined ? "" : `${percent(low)} to ${percent(high)}`);

function matrix({ decided, confusion, class: about }) {
  if (decided && (decided.hits || decided.missed || decided.false || decided.passed)) {
    const { hits, missed, false: wrong, passed } = decided;
    const box = (kind, n, word) => h("td", { class: `box ${kind}` }, h("b", {}, count(n)), h("span", {}, word));
    const grid = h("table", { class: "matrix" }, h("caption", { class: "unseen" }, "Confusion matrix"),
      h("thead", {}, h("tr", {}, h("td", {}), h("th", { scope: "col" }, "alert"), h("th", { scope: "col" }, "no alert"))),
      h("tbody", {}, h("tr", {}, h("th", { scope: "row" }, about, h("span", { class: "note" }, count(hits + missed))), box("hit", hits, "caught"), box("miss", missed, "missed")),
        h("tr", {}, h("th", { scope: "row" }, `not ${about}`, h("span", { class: "note" }, count(wrong + passed))), box("false", wrong, "false alarms"), box("pass", passed, "rightly none"))));
    const never = (wrong + passed) / (hits + missed + wrong + passed);
    return [grid, h("dl", { class: "shares" }, [["Recall", "recall"], ["Precision", "precision"]].map(([label, name]) => h("div", {}, h("dt", {}, label), h("dd", {}, percent(decided[name]), h("span", { class: "note" }, within(decided[`${name}_low`], decided[`${name}_high`])))))),
      decided.accuracy === null || decided.accuracy === undefined ? null : h("p", { class: "note" }, `Accuracy is ${percent(decided.accuracy)}; no alert at all would have ${percent(never)}.`)];
  }
  const { classes, counts } = confusion, names = counts.at(-1).some((n) => n) || counts.some((row) => row.at(-1)) ? [...classes, "others or none"] : classes;
  const kept = counts.slice(0, names.length).map((row) => row.slice(0, names.length));
  return [table([["True"], ...names.map((name) => [`said ${name}`, "r"])], kept.map((row, i) => {
    const total = row.reduce((a, b) => a + b, 0) || 1;
    return [names[i], ...row.map((n, j) => h("span", { class: i === j ? "good-text" : n / total > 0.1 ? "bad-text" : null }, count(n), h("span", { class: "note" }, ` ${percent(n / total, 0)}`)))];
  }), "Confusion matrix")];
}

// Where on a curve a threshold stands: the last point that is not below it.
const placeOf = (curve, threshold) => (threshold === null ? -1 : curve.threshold.findLastIndex((value) => value >= threshold));

function recalls({ curve, decided }) {
  const at = decided?.recall === undefined ? null : [decided.recall, decided.precision ?? null];
  const title = `Precision by recall; average precision ${percent(curve.average)}`;
  const picture = plot(title, scale(0, 1, PERCENTS, "recall"), scale(0, 1, PERCENTS, "precision"), (x, y) => [
    h("path", { class: "dashed", d: `M${x(0)},${y(curve.share)}H${x(1)}` }, h("title", {}, "of all predictions")),
    line(curve.recall, curve.precision, x, y),
    at && at[1] !== null ? h("circle", { class: "point", cx: x(at[0]), cy: y(at[1]), r: 5 }, h("title", {}, `decided: recall ${percent(at[0])}, precision ${percent(at[1])}`)) : null]);
  return [picture, h("p", { class: "note" }, `Average precision ${percent(curve.average)}; by chance ${percent(curve.share)} (dashed). The point is what was decided.`)];
}

function ranked({ average: { from, to, value, chance } }) {
  const [first, last] = [from[0], to.at(-1)], width = (last - first) / 4, middle = from.map((one, i) => (one + to[i]) / 2);
  const across = scale(first, last, [0, 1, 2, 3, 4].map((k) => [first + k * width, tick(first + k * width, width)]), "of predictions made at");
  const most = Math.min(1, 1.1 * Math.max(...value)), least = Math.max(0, Math.min(...value, ...chance) - 0.05);
  const picture = plot("Average precision over time", across, scale(least, most, nice(least, most, 4).map((each) => [each, percent(each, 0)])), (x, y) => [
    line(middle, chance, x, y, "line faint"), line(middle, value, x, y),
    value.map((each, i) => h("circle", { class: "point", cx: x(middle[i]), cy: y(each), r: 3.5 }, h("title", {}, `${moment(from[i])} to ${moment(to[i])}: ${percent(each)}; by chance ${percent(chance[i], 2)}`)))]);
  return [picture, h("p", { class: "keys" }, h("span", { class: "of" }, "average precision"), h("span", { class: "of faint" }, "by chance"))];
}

function byThreshold({ curve, threshold, task }) {
  const odds = task !== "anomaly", low = Math.min(...curve.threshold), high = Math.max(...curve.threshold);
  const across = odds ? scale(0.0001, 0.9999, ODDS, "threshold", logit) : scale(low, high, ticks(low, high, number), "threshold");
  const picture = plot("Precision, recall and alerts by threshold", across, scale(0, 1, PERCENTS), (x, y) => [
    line(curve.threshold, curve.recall, x, y, "line"), line(curve.threshold, curve.precision, x, y, "line second"), line(curve.threshold, curve.alerts, x, y, "line faint"),
    threshold === null ? null : h("path", { class: "mark", d: `M${x(threshold)},${y(0)}V${y(1)}` })]);
  const at = placeOf(curve, threshold);
  return [picture, h("p", { class: "keys" }, h("span", { class: "of" }, "recall"), h("span", { class: "of second" }, "precision"), h("span", { class: "of faint" }, "alerts"),
    at < 0 ? null : h("span", { class: "note" }, `at ${odds ? percent(threshold, 2) : number(threshold)}: recall ${percent(curve.recall[at])}, precision ${percent(curve.precision[at])}, alerts ${percent(curve.alerts[at], 2)}`))];
}

function costly({ curve, costs, threshold }) {
  const most = Math.max(...costs.cost), least = costs.cost.indexOf(Math.min(...costs.cost)), at = placeOf(curve, threshold);
  const picture = plot("Mean cost of a prediction by threshold", scale(0.0001, 0.9999, ODDS, "threshold", logit), scale(0, most * 1000, ticks(0, most * 1000, number), "per 1,000"), (x, y) => [
    line(curve.threshold, costs.cost.map((value) => 1000 * value), x, y),
    threshold === null ? null : h("path", { class: "mark", d: `M${x(threshold)},${y(0)}V${y(1000 * most)}` }),
    h("circle", { class: "point open", cx: x(curve.threshold[least]), cy: y(1000 * costs.cost[least]), r: 5 })]);
  const chosen = at < 0 ? "" : ` At the threshold ${number(1000 * costs.cost[at])}.`;
  return [picture, h("p", { class: "note" }, `A missed one costs ${number(costs.missed)}, a false alarm ${number(costs.false)}. Cheapest at ${percent(curve.threshold[least], 2)} (ring): ${number(1000 * costs.cost[least])} per 1,000 predictions.${chosen}`)];
}

// Bars of one or two groups, each as shares of its own.
function bars(parts, edges, across, threshold, title) {
  const tall = 130;
  return parts.map(([name, counts, kind]) => {
    const total = counts.reduce((a, b) => a + b, 0) || 1, most = Math.max(...counts) / total || 1;
    return plot(`${title}, ${name}: ${count(total)}`, across, scale(0, most, [[0, "0 %"], [most, percent(most, 0)]], `${name}, ${count(total)}`), (x, y) => [
      counts.map((n, i) => (n ? h("rect", { class: `bin ${kind}`, x: x(edges[i]) + 0.5, y: y(n / total), width: Math.max(1, x(edges[i + 1]) - x(edges[i]) - 1), height: y(0) - y(n / total) }, h("title", {}, `${number(edges[i])} to ${number(edges[i + 1])}: ${count(n)}`)) : null)),
      threshold === null ? null : h("path", { class: "mark", d: `M${x(threshold)},${y(0)}V${y(most)}` })], tall);
  });
}

function scores({ scores: { edges, all, own, other, odds }, class: about, threshold }) {
  const across = odds ? scale(edges[1] / 2, 1 - (1 - edges.at(-2)) / 2, ODDS, "score", logit) : scale(edges[0], edges.at(-1), ticks(edges[0], edges.at(-1), number), "score");
  const parts = own ? [[about, own, "own"], [`not ${about}`, other, ""]] : [["all predictions", all, ""]];
  return [...bars(parts, edges, across, threshold, "Scores"), h("p", { class: "note" }, `Share of each.${threshold === null ? "" : " Right of the line are alerts."}`)];
}

function calibrated({ calibration: { said, came, low, high, n } }) {
  const picture = plot("How often it came, by what was said", scale(0.0001, 0.9999, ODDS, "said", logit), scale(0.0001, 0.9999, ODDS, "came", logit), (x, y) => [
    h("path", { class: "dashed", d: `M${x(0.0001)},${y(0.0001)}L${x(0.9999)},${y(0.9999)}` }),
    said.map((value, i) => h("g", {}, h("title", {}, `said ${percent(value, 2)}: came ${percent(came[i], 2)} of ${count(n[i])}, ${percent(low[i], 2)} to ${percent(high[i], 2)}`),
      h("path", { class: "whisker", d: `M${x(value)},${y(low[i])}V${y(high[i])}` }), h("circle", { class: "point", cx: x(value), cy: y(came[i]), r: 4 })))]);
  return [picture, h("p", { class: "note" }, "On the dashed line it comes as often as was said. Bars: 95 %.")];
}

function off({ errors: { edges, counts, mae, bias, by } }) {
  const [low, high] = [edges[0], edges.at(-1)], values = [...by.said, ...by.came], least = Math.min(...values), most = Math.max(...values);
  const picture = plot("What came, by what was said", scale(least, most, ticks(least, most, number), "said"), scale(least, most, ticks(least, most, number), "came"), (x, y) => [
    h("path", { class: "dashed", d: `M${x(least)},${y(least)}L${x(most)},${y(most)}` }), by.said.map((value, i) => h("circle", { class: "point", cx: x(value), cy: y(by.came[i]), r: 4 }, h("title", {}, `said ${number(value)}: came ${number(by.came[i])}`)))]);
  return [card("Errors", "predicted minus label", ...bars([["predictions", counts, ""]], edges, scale(low, high, ticks(low, high, number), "error"), 0, "Errors"), h("p", { class: "note" }, `Off by ${number(mae)} on average; ${Math.abs(bias) < 1e-12 ? "neither too high nor too low" : `${number(Math.abs(bias))} too ${bias > 0 ? "high" : "low"}`}.`)),
    card("Calibration", "tenths of the predictions", picture)];
}

export function quality(app) {
  const told = h("p", { role: "status" }, "Reading the last predictions …"), missing = h("div"), choice = h("div", { class: "choice", role: "group", "aria-label": "Which labels" });
  const head = card("Quality", "the champion", told, missing), rest = h("div", { class: "charts" });
  head.querySelector(".head").append(choice);
  const early = app.own.early === "1";
  function draw(found) {
    const { predictions, empty, labels, n, matured, from, to, matures, read, missing: lacking } = found;
    const when = predictions || empty ? `, of ${moment(from)} to ${moment(to)}` : "", without = empty ? ` Empty, and left out: ${count(empty)}.` : "";
    told.textContent = !predictions && !empty ? (read ? "No predictions yet." : "Reading the last predictions …")
      : `${labels === null ? `The last ${count(predictions)} predictions` : `${count(n)} of the last ${count(predictions)} predictions have ${matures === null || early ? "a label" : "matured"}`}${when}.${without}${read ? "" : " More are being read."}`;
    const notes = lacking.map((sentence) => h("p", { class: "set" }, sentence));
    if (matures !== null && early) notes.push(h("p", { class: "set" }, "Labels of one class come first: until the time of the others is up, these figures say too much or too little."));
    if (matures !== null && !early && !n && labels) notes.push(h("p", { class: "set" }, `None has waited ${span(matures / 1000)} yet, by when it is known what came of it. ${count(labels)} labels came already.`));
    if (predictions && n && n < 10) notes.push(h("p", { class: "empty" }, "Too few labels for curves."));
    missing.replaceChildren(...notes);
    choice.replaceChildren(...(matures === null ? [] : [["", "Matured", matured], ["1", "All that came", labels]].map(([value, label, total]) =>
      h("button", { type: "button", "aria-pressed": String((value === "1") === early), onclick: () => app.go({ early: value || null }) }, label, h("span", { class: "n" }, count(total))))));
    const cards = [];
    const add = (title, note, make) => cards.push(card(title, note, ...make(found)));
    if (found.errors) cards.push(...off(found));
    if (found.confusion || found.decided) if (n) add("Confusion matrix", found.threshold === null ? null : `alerts from ${found.task === "anomaly" ? number(found.threshold) : percent(found.threshold, 2)}`, matrix);
    if (found.curve) add("Precision and recall", null, recalls);
    if (found.average?.value.length) add("Average precision", "over time", ranked);
    if (found.curve) add("By threshold", null, byThreshold);
    if (found.costs) add("Costs", "by threshold", costly);
    if (found.scores) add("Scores", found.scores.own ? "by class" : null, scores);
    if (found.calibration) add("Calibration", found.class ? null : "of the class that was named", calibrated);
    rest.replaceChildren(...cards);
  }

  const bySegment = segments(app);
  const ask = polled(app, `/quality?partition=${app.partition ?? ""}${early ? "&early=1" : ""}`, AGAIN_MS, told, draw);
  const update = () => { ask(); bySegment.update(); };
  bySegment.update();
  return { elements: [head, bySegment.element, rest], update, history() {} };
}

// What each value of a feature adds to a fall: share times rate, now less before.

import { card, table } from "./widgets.js";
import { SIGNS, count, h, moment, number, percent } from "./format.js";

const MOST = 8, WIDTH = 100;

function bar(row, most, bad) {
  const width = most ? Math.max(1, (WIDTH * Math.abs(row.adds)) / most) : 1;
  return h("svg", { viewBox: `0 0 ${WIDTH} 10`, width: "100%", height: 10, preserveAspectRatio: "none", "aria-hidden": "true" }, h("rect", { x: 0, y: 0, width, height: 10, fill: `var(${bad && row.since ? "--bad" : "--slate2"})` }));
}

function rowsOf({ values, share }, now) {
  const rest = values.slice(MOST), shown = values.slice(0, MOST);
  if (rest.length) shown.push({ value: `${count(rest.length)} more`, adds: rest.reduce((sum, row) => sum + row.adds, 0), now: null, before: null });
  const bad = (row) => (share ? row.adds < 0 : row.adds > 0), most = Math.max(...shown.map((row) => Math.abs(row.adds)));
  const signed = (value) => {
    const text = share ? Math.abs(100 * value).toFixed(1) : number(Math.abs(value));
    return `${!/[1-9]/.test(text) ? "" : value < 0 ? "−" : "+"}${text}`;
  };
  const rate = (value) => (share ? percent(value, 0) : number(value));
  return shown.map((row) => [
    row.since ? h("strong", { title: `surely worse, found ${moment(row.since, now)}` }, h("span", { class: "drift", "aria-hidden": "true" }, `${SIGNS.drift[0]} `), row.value) : row.value,
    bar(row, most, bad(row)), signed(row.adds), rate(row.now), rate(row.before)]);
}

export function segments(app) {
  const content = h("div", { class: "lean" }), element = card("What each value adds", "to the change from before", content);
  return {
    element,
    update() {
      const { segments: tables, now } = app.status;
      element.hidden = !tables.length;
      content.replaceChildren(...tables.map((each) =>
        table([[each.feature], [""], [each.share ? "Points" : "Adds", "r"], ["Now", "r"], ["Before", "r"]], rowsOf(each, now), `Quality by ${each.feature}`)),
        h("p", { class: "note" }, `${SIGNS.drift[0]} is surely worse. Each list sums to the change.`));
    },
  };
}

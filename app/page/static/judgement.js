// How a challenger does beside the champion, in words.

import { count, h, number } from "./format.js";

export const VERDICTS = { better: ["▲ better for sure", "good-text"], worse: ["▼ worse for sure", "bad-text"], open: ["○ not decided", "note"] };

// What is known of a challenger, for whoever is asked whether it shall be champion.
export async function judgement(app, challenger) {
  const { rows, metric } = await app.get("/comparison"), isAccuracy = metric === "accuracy";
  const worded = (value) => (isAccuracy ? `${Math.abs(100 * value).toFixed(2)} ${value < 0 ? "more" : "fewer"}` : `${number(Math.abs(value))} ${value < 0 ? "higher" : "lower"}`);
  const own = rows.filter((one) => one.challenger === challenger), whole = own.filter((one) => one.partition === null);
  const shown = whole.length ? whole : own;
  if (!shown.length) return [h("p", { class: "set" }, "Nothing is known yet of it beside the champion.")];
  return shown.map((one) => h("p", { class: "set" }, h("strong", { class: VERDICTS[one.verdict][1] }, VERDICTS[one.verdict][0]),
    ` ${one.verdict === "open" ? "beside" : "than"} the champion${one.partition === null || shown.length === 1 ? "" : ` in partition ${one.partition}`}, by ${count(one.labels)} labels: ${worded(one.difference)} ${isAccuracy ? "errors in 100" : "in error"}, surely between ${worded(one.low)} and ${worded(one.high)}.`));
}

// Challengers beside the champion: what `riparian compare` says, the rule that promotes, and what it has proposed.

import { ask } from "./actions.js";
import { VERDICTS } from "./judgement.js";
import { card, polled, table } from "./widgets.js";
import { ago, count, dash, h, moment, number, percent } from "./format.js";

const MOST_PARTITIONS = 8, EVERY_MS = 5_000, WIDTH = 110, HEIGHT = 18;

// An interval beside the others of the table, on one scale with a line at zero.
function interval(row, low, high) {
  const x = (value) => 4 + ((value - low) / (high - low || 1)) * (WIDTH - 8), middle = HEIGHT / 2;
  return h("svg", { class: `interval ${VERDICTS[row.verdict][1]}`, width: WIDTH, height: HEIGHT, "aria-hidden": "true" },
    h("path", { class: "zero", d: `M${x(0)},0V${HEIGHT}` }),
    h("rect", { x: x(row.low), y: middle - 3, width: Math.max(2, x(row.high) - x(row.low)), height: 6, rx: 3, fill: "currentColor", opacity: 0.35 }),
    h("circle", { cx: x(row.difference), cy: middle, r: 4, fill: "currentColor" }));
}

function ruled(rule, control, metric) {
  if (rule === null) {
    return control ? "No rule promotes: somebody does (riparian promote). With promotion: propose or automatic in the stream file a rule looks at these intervals."
      : "Who is champion stays as the stream file says: it has no control: true, so nobody can promote.";
  }
  const margin = rule.margin ? ` by more than ${metric === "accuracy" ? `${number(100 * rule.margin)} points` : number(rule.margin)}` : "";
  const who = `a challenger that is better for sure${margin}, over at least ${count(rule.at_least)} labels`;
  return rule.mode === "automatic" ? `Promotion is automatic: ${who}, becomes the champion of its partition.` : `Promotion is proposed: ${who}, is named once in the timeline, and you promote it.`;
}

export function comparison(app) {
  const body = h("div"), rule = h("p", { class: "note" });

  function row(one, found, [low, high]) {
    const isAccuracy = found.metric === "accuracy";
    const plain = (value) => (isAccuracy ? percent(value) : number(value));
    const signed = (value) => `${value < 0 ? "−" : "+"}${isAccuracy ? Math.abs(100 * value).toFixed(2) : number(Math.abs(value))}`;
    const [words, kind] = VERDICTS[one.verdict];
    const whole = one.partition === null || app.status.partitions.length === 1;
    const proposed = found.proposed.filter((each) => each.challenger === one.challenger && (whole || each.partition === one.partition));
    const last = proposed.length ? `☆ ${ago(Math.max(...proposed.map((each) => each.time)), Date.now())}` : "";
    const button = whole && app.status.actions && app.status.control
      ? h("button", { type: "button", "aria-label": `Promote ${one.challenger}, from the comparison`, onclick: () => ask(app, "promote", one.challenger) }, "Promote…") : null;
    return [h("span", { class: whole ? null : "note" }, one.challenger), one.partition === null ? "all" : String(one.partition), h("span", { class: kind }, words),
      signed(one.difference), interval(one, low, high), `${signed(one.low)} to ${signed(one.high)}`, plain(one.challenger_loss), plain(one.champion),
      count(one.labels), one.since === null ? dash : moment(one.since), ...(found.rule === null ? [] : [h("span", { class: "change" }, last)]), ...(app.status.actions && app.status.control ? [button] : [])];
  }

  function show(found) {
    const several = app.status.partitions.length > MOST_PARTITIONS && app.partition === null;
    const order = found.rows.map((one) => one.challenger);
    const rows = found.rows.filter((one) => !several || one.partition === null)
      .sort((a, b) => order.indexOf(a.challenger) - order.indexOf(b.challenger) || (a.partition ?? -1) - (b.partition ?? -1));
    rule.textContent = ruled(found.rule, app.status.control, found.metric);
    if (!rows.length) {
      body.replaceChildren(h("p", { class: "empty" }, app.status.models.length < 2 ? "No challengers. Name some in the stream file to compare the champion with."
        : "Nothing to compare yet: a label counts where both the champion and the challenger had predicted its instance, and one of them knew an answer."));
      return;
    }
    const ends = [Math.min(0, ...rows.map((one) => one.low)), Math.max(0, ...rows.map((one) => one.high))];
    const isAccuracy = found.metric === "accuracy";
    body.replaceChildren(table([["Challenger"], ["Partition"], ["It is"], [isAccuracy ? "Fewer errors" : "Lower error", "r"], ["Worse | better"], ["Surely"],
      [isAccuracy ? "Its errors" : "Its error", "r"], ["Champion's", "r"], ["Labels", "r"], ["Since"], ...(found.rule === null ? [] : [["Proposed"]]), ...(app.status.actions && app.status.control ? [["Promotion"]] : [])], rows.map((one) => row(one, found, ends)), "Challengers beside the champion"),
    h("p", { class: "note" }, `All intervals hold together with a confidence of ${number(100 * rows[0].confidence)} %, however often one looks. Of one partition: over the shortest span of labels that tells the two apart; of all: since the comparison began.${isAccuracy ? "" : ` An error counts as ${number(Math.max(...rows.map((one) => one.reach)))} at most.`}${several ? " Choose a partition above to see it alone." : ""}`));
  }

  return {
    element: card("Challengers beside the champion", null, rule, body),
    update: polled(app, `/comparison?partition=${app.partition ?? ""}`, EVERY_MS, rule, show),
  };
}

// Looks a prediction up by its id, or a key by its value. Everything here is text of strangers, and becomes text nodes alone.

import { card, table } from "./widgets.js";
import { lines } from "./lines.js";
import { ago, count, dash, h, moment, number, percent } from "./format.js";

const SPANS = [["3600", "the last hour"], ["86400", "the last day"], ["604800", "the last week"], ["all", "everything that is kept"]];
const SHOWN_CLASSES = 5;

const plain = (value) => (value === null || value === undefined ? dash : typeof value === "number" ? number(value) : String(value));

function shares(p) {
  if (p === null || typeof p !== "object") return "";
  return Object.entries(p).sort((a, b) => b[1] - a[1]).slice(0, SHOWN_CLASSES).map(([name, share]) => `${name} ${percent(share)}`).join(", ");
}

function judged(row) {
  if (row.error !== undefined) return `off by ${number(row.error)}`;
  return row.right === undefined ? dash : h("span", { class: row.right ? "good-text" : "bad-text" }, row.right ? "✓ right" : "✗ wrong");
}

function path(tree) {
  const steps = tree.steps.map((step) => h("li", {}, h("strong", {}, step.if || "root"),
    h("span", { class: "note" }, ` ${step.weight === null ? "" : `${count(step.weight)} instances`} ${step.said ? `· ${step.said}` : ""}`)));
  return [h("ol", { class: "path" }, steps), tree.whole ? null : h("p", { class: "note" }, "And on by several branches at once: its tests are soft.")];
}

function believed(members) {
  const most = members.slice(0, 5).map(([name, weight]) => `${name} ${weight.toFixed(3)}`).join(", ");
  return members.length ? h("p", { class: "note" }, `Members by weight: ${most}. Of ${members[0][0]}:`) : null;
}

function reasons(found) {
  const { why } = found;
  if (why === null) return [h("p", { class: "empty" }, found.why_not)];
  const begin = why.checkpoint ? `checkpoint ${count(why.checkpoint)} (offset ${count(why.checkpoint_offset)})` : "the beginning of the topics";
  const same = why.same ? "each as it was sent" : "not all as they were sent, so the model may have been another";
  return [
    h("p", { class: "note" }, `The model as it was at that moment, made again from ${begin}: ${count(why.folded)} predictions, ${same}.`),
    table([["Feature"], ["Value"]], Object.entries(why.features).map(([name, value]) => [name, value === null ? "missing" : plain(value)]), "Features"),
    ...why.models.flatMap((model) => [h("h3", {}, `${model.role} (${model.learner})`),
      believed(Object.entries(model.members)),
      ...(model.trees.length ? model.trees.flatMap(path) : [h("p", { class: "note" }, "No tree that has split.")]),
      model.more_trees ? h("p", { class: "note" }, `And ${count(model.more_trees)} trees more.`) : null]),
  ].filter((each) => each !== null);
}

// A form that looks something up as soon as the address says what. fields : its inputs, by what stands before them.
// query : of the request, null where nothing is asked for. show : what was found -> a sentence, and cards.
function lookup(app, title, hint, fields, path, query, show) {
  const said = h("p", { class: "note", role: "status" }, hint);
  const result = h("div", { class: "results" });
  const last = h("select", { name: "last" }, SPANS.map(([value, label]) => h("option", { value, selected: value === (app.last ?? "3600") }, label)));
  const form = h("form", { class: "search", onsubmit: (event) => { event.preventDefault(); app.go(Object.fromEntries(new FormData(form))); } },
    Object.entries({ ...fields, in: last }).map(([label, input]) => h("label", {}, `${label} `, input)), h("button", { type: "submit" }, "Look it up"));
  const elements = [card(title, null, form, said), result];
  if (query) search();

  async function search() {
    said.textContent = "Looking …";
    const span = (app.last ?? "3600") === "all" ? "" : `&last=${Number(app.last ?? 3600) || 3600}`;
    try {
      const answer = await fetch(`/api/streams/${encodeURIComponent(app.stream)}/${path}?${new URLSearchParams(query)}${span}`);
      if (!answer.ok) throw new Error(await answer.text());
      for await (const line of lines(answer)) {
        if (line.error) said.textContent = line.error;
        else if (line.found) {
          const [sentence, ...cards] = show(line.found);
          said.textContent = sentence;
          result.replaceChildren(...cards);
        } else said.textContent = `${line.doing === "looking" ? `Reading ${path === "keys" ? "records" : path} backwards` : "Making the model of that moment again"}: ${percent(line.progress, 0)}`;
      }
    } catch (error) {
      said.textContent = String(error.message);
    }
  }

  return { elements, update() {}, history() {} };
}

const typed = (name, value) => h("input", { type: "text", name, required: true, maxlength: 1024, autocomplete: "off", spellcheck: "false", value: value ?? "", size: 32 });

export function predictions(app) {
  const show = (found) => {
    const label = found.label
      ? `The label ${found.label.y === null ? "null (none will come)" : plain(found.label.y)} came ${moment(found.label.time)}, at offset ${count(found.label.offset)}.`
      : `No label has come; ${count(found.labels_read)} labels were read after it.`;
    return [
      `Found at offset ${count(found.position)} of ${found.topic}, partition ${found.partition}, sent ${ago(found.time, Date.now())}.`,
      card(`${found.id}: ${plain(found.said[0].y)}`, moment(found.time),
        h("p", {}, label),
        h("p", { class: "note" }, `Features at offset ${count(found.offset)}; the next label then was ${count(found.label_offset)}.`),
        table([["Model"], ["Said"], ["That was"], ["Shares"]], found.said.map((row) => [row.learner ? `${row.role} (${row.learner})` : row.role, `${plain(row.y)}${row.alert ? ", an alert" : ""}`, judged(row), shares(row.p)]), "What was said")),
      card("Why", null, ...reasons(found))];
  };
  return lookup(app, "A prediction", "The id of an instance, as its features have it.", { Id: typed("id", app.id) }, "predictions", app.id && { id: app.id }, show);
}

export function keys(app) {
  const columns = (rows) => [...new Set(rows.flatMap((row) => Object.keys(row ?? {})))];
  const link = ({ id }) => h("a", { href: app.link({ tab: "predictions", id, last: app.last, key: null, value: null }), onclick: (event) => app.follow(event) }, id);
  const show = ({ key, value, partition, time, checkpoint, features, records, records_read: read }) => {
    const own = columns(records.map((row) => row.x)), made = columns(records.map((row) => row.features));
    const heads = [["Time"], ["Id"], ...own.map((each) => [each, "r"]), ["Predicted"], ...made.map((each) => [each, "r"])];
    const rows = records.map((row) => [moment(row.time), link(row), ...own.map((each) => plain(row.x[each])),
      row.y === undefined ? dash : h("span", { class: row.alert ? "bad-text" : null }, `${plain(row.y)}${row.alert ? " ◆ alert" : ""}`), ...made.map((each) => plain(row.features?.[each]))]);
    return [
      `${count(read)} records were read, the newest first.`,
      card(`${key} ${value}`, partition === null ? "nothing is known of its records" : `partition ${partition}`,
        h("p", { class: "note" }, `As a record would find it at ${moment(time)}, the time of the stream at checkpoint ${count(checkpoint)}. Ratios are made with a record.`),
        table([["Feature"], ["Now", "r"], ["What it is"]], features.map((each) => [each.name, each.value === null ? "missing" : plain(each.value), each.what]), "What is known now")),
      card("Last records", null, rows.length ? table(heads, rows, "Last records") : h("p", { class: "empty" }, "None of that time."))];
  };
  const name = h("select", { name: "key" }, app.status.keys.map((each) => h("option", { value: each, selected: each === app.key }, each)));
  const query = app.key && app.value && { key: app.key, value: app.value, partition: app.partition ?? "" };
  return lookup(app, "A key", "What stands in records, such as the number of a card.", { Key: name, is: typed("value", app.value) }, "keys", query, show);
}

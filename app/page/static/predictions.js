// Looks a prediction up by its id, or a key by its value. Everything here is text of strangers, and becomes text nodes alone.

import { came, copyLink, placeOf, whole } from "./alerts.js";
import { largest, steps, waterfall } from "./waterfall.js";
import { card, polled, shareBars, table } from "./widgets.js";
import { lines } from "./lines.js";
import { plot, scale, ticks } from "./plot.js";
import { ago, count, dash, h, moment, number, percent } from "./format.js";

const SPANS = [["3600", "the last hour"], ["86400", "the last day"], ["604800", "the last week"], ["all", "everything that is kept"]];
const SHOWN_CLASSES = 5, MOST_BARS = 15, MOST_MEMBERS = 8, MOST_NEWEST = 12, AGAIN_MS = 3_000;

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

// Of a pool, whom it believes; of another model nothing.
function believed(members) {
  if (!members.length) return null;
  return h("div", {}, h("p", { class: "note" }, "Whom the pool believed:"), shareBars(members.slice(0, MOST_MEMBERS), 1));
}

// What each feature added to a model's prediction, the smallest together.
function contributions({ added: found }, values) {
  if (!found) return h("p", { class: "empty" }, "What features added is not known: it had no prediction.");
  const all = largest(found.features), share = found.of !== null;
  const caption = `Points of ${share ? `the probability of ${found.of}` : "the value"}${all.length > MOST_BARS ? `; the smallest ${all.length - MOST_BARS} are “other features”` : ""}.`;
  return waterfall(steps(found.prediction, all.slice(0, MOST_BARS), found.begin, "without values"), { share, values, caption });
}

function trees(model) {
  const name = Object.keys(model.members)[0];
  if (!model.trees.length) return name ? null : h("p", { class: "note" }, "No tree that has split.");
  const said = `${name ? `The path in ${name}, which it believed most` : model.trees.length > 1 ? `The paths in ${model.trees.length} trees${model.more_trees ? ` of ${count(model.trees.length + model.more_trees)}` : ""}` : "The path in its tree"}`;
  return h("details", { open: !name && model.trees.length === 1 }, h("summary", {}, said), model.trees.flatMap(path));
}

function reasons(found) {
  const { why } = found;
  if (why === undefined) return [h("p", { class: "empty" }, "Making the model of that moment again …")];
  if (why === null) return [h("p", { class: "empty" }, found.why_not)];
  const begin = why.checkpoint ? `checkpoint ${count(why.checkpoint)} (offset ${count(why.checkpoint_offset)})` : "the beginning of the topics";
  const same = why.same ? "each as it was sent" : "not all as they were sent, so the model may have been another";
  const values = Object.fromEntries(Object.entries(why.features).map(([name, value]) => [name, whole(value)]));
  return [
    h("p", { class: "note" }, `The model as it was at that moment, made again from ${begin}: ${count(why.folded)} predictions, ${same}.`),
    ...why.models.flatMap((model) => [h("h3", {}, `${model.role} (${model.learner})`),
      model.outside === undefined ? contributions(model, values) : beyond(model.outside), believed(Object.entries(model.members)), trees(model)]),
    h("details", {}, h("summary", {}, "All values"), table([["Feature"], ["Value"]], Object.entries(values).map(([name, value]) => [name, h("span", { class: "value" }, value)]), "Features")),
  ].filter((each) => each !== null);
}

const beyond = (outside) => (Object.keys(outside).length
  ? table([["Feature"], ["Value", "r"], ["Least", "r"], ["Most", "r"]], Object.entries(outside).map(([name, { value, low, high }]) => [name, whole(value), whole(low), whole(high)]), "Outside of what the model has of the last records")
  : h("p", { class: "note" }, "No value lies outside of what the model has of the last records."));

// A form that looks something up as soon as the address says what. fields : its inputs, by what stands before them.
// query : of the request, null where nothing is asked for. show : what was found -> a sentence, and cards.
function lookup(app, title, hint, fields, path, query, show) {
  const said = h("p", { class: "note", role: "status" }, hint);
  const result = h("div", { class: "results" });
  const last = h("select", { name: "last" }, SPANS.map(([value, label]) => h("option", { value, selected: value === (app.own.last ?? "3600") }, label)));
  const form = h("form", { class: "search", onsubmit: (event) => { event.preventDefault(); app.go(Object.fromEntries(new FormData(form))); } },
    Object.entries({ ...fields, in: last }).map(([label, input]) => h("label", {}, `${label} `, input)), h("button", { type: "submit" }, "Look it up"));
  const elements = [card(title, null, form, said), result];
  if (query) search();

  async function search() {
    said.textContent = "Looking …";
    const span = (app.own.last ?? "3600") === "all" ? "" : `&last=${Number(app.own.last ?? 3600) || 3600}`;
    try {
      const answer = await fetch(`/api/streams/${encodeURIComponent(app.stream)}/${path}?${new URLSearchParams(query)}${span}`);
      if (!answer.ok) throw new Error(await answer.text());
      for await (const line of lines(answer)) {
        if (line.said) result.replaceChildren(...show(line.said).slice(1));
        else if (line.error) said.textContent = line.error;
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
    const label = found.labels_read === undefined ? "Its label is being looked for." : found.label
      ? `The label ${found.label.y === null ? "null (none will come)" : whole(found.label.y)} came ${moment(found.label.time)}, at offset ${count(found.label.offset)}.`
      : found.labels_read === null ? "Its label is a later value of the stream, and is not read here." : `No label has come; ${count(found.labels_read)} labels were read after it.`;
    return [
      `Found at offset ${count(found.position)} of ${found.topic}, partition ${found.partition}, sent ${ago(found.time, Date.now())}.`,
      card(`${found.id}: ${whole(found.said[0].y)}`, moment(found.time),
        h("p", {}, label),
        h("p", { class: "note" }, `Features at offset ${count(found.offset)}; the next label then was ${count(found.label_offset)}.`),
        table([["Model"], ["Said"], ["That was"], ["Shares"]], found.said.map((row) => [row.learner ? `${row.role} (${row.learner})` : row.role, `${whole(row.y)}${row.alert ? ", an alert" : ""}`, judged(row), shares(row.p)]), "What was said"),
        h("p", { class: "actions" }, copyLink(app, app.link({ tab: "predictions", id: found.id })), record(app, found)),
        h("details", {}, h("summary", {}, "The whole record"), h("pre", { tabindex: 0, "aria-label": "the prediction" }, JSON.stringify(found.record, null, 1)))),
      card("Why", null, ...reasons(found))];
  };
  const found = lookup(app, "A prediction", "The id of an instance, as its features have it.", { Id: typed("id", app.own.id) }, "predictions", app.own.id && { id: app.own.id }, show);
  return app.own.id ? found : { ...found, ...newest(app, found.elements) };
}

// The last predictions, each a link, behind the form.
function newest(app, elements) {
  const told = h("p", { class: "note", role: "status" }, "Reading the last predictions …"), body = h("div");
  const update = polled(app, `/alerts?only=newest&n=${MOST_NEWEST}&partition=${app.partition ?? ""}`, AGAIN_MS, told, ({ rows, read }) => {
    told.textContent = rows.length ? "" : read ? "No predictions yet." : "Reading the last predictions …";
    const link = (id) => h("a", { href: app.link({ tab: "predictions", id }), onclick: (event) => app.follow(event) }, id);
    body.replaceChildren(rows.length ? table([["Id"], ["Sent"], ["Said"], ["Label"]], rows.map((row) => [link(row.id), moment(row.time), row.y === null ? dash : whole(row.y), row.label === null ? dash : whole(row.label)]), "The last predictions") : "");
  });
  return { elements: [...elements, card("The last predictions", null, told, body)], update };
}

const record = (app, found) => h("a", { href: app.link({ tab: "alerts", at: placeOf({ ...found, index: found.record.index }) }), onclick: (event) => app.follow(event) }, "Its record and reasons");

// The values of a feature in the last records, the oldest first, as bars; alerts are marked.
function course(records, name) {
  const rows = records.filter((row) => typeof row.x[name] === "number").toReversed(), values = rows.map((row) => row.x[name]);
  const low = Math.min(0, ...values), high = Math.max(0, ...values);
  const across = scale(0, rows.length, [[0.5, moment(rows[0].time)], ...(rows.length > 4 ? [[rows.length - 1, moment(rows.at(-1).time)]] : [])]);
  return plot(`${name} of the last records`, across, scale(low, high * 1.12, ticks(low, high, number), name), (x, y) => rows.map((row, i) => h("g", {},
    h("title", {}, `${moment(row.time)}: ${name} ${whole(row.x[name])}${row.alert ? ", an alert" : ""}`),
    h("rect", { class: `bin ${row.alert ? "own" : ""}`, x: x(i + 0.15), width: x(0.7) - x(0), y: Math.min(y(0), y(row.x[name])), height: Math.max(1, Math.abs(y(0) - y(row.x[name]))) }),
    row.alert ? h("text", { x: x(i + 0.5), y: y(Math.max(0, row.x[name])) - 4, "text-anchor": "middle", class: "mark-alert" }, "◆") : null)));
}

// A number that one can read; all of it on pointing.
const short = (value) => (typeof value === "number" ? h("span", { title: whole(value) }, whole(Number(value.toPrecision(6)))) : whole(value));

export function keys(app) {
  const columns = (rows) => [...new Set(rows.flatMap((row) => Object.keys(row ?? {})))];
  const link = (row) => h("a", { href: app.link(row.position === undefined ? { tab: "predictions", id: row.id } : { tab: "alerts", at: placeOf(row) }), onclick: (event) => app.follow(event) }, row.id);
  const show = ({ key, value, partition, time, checkpoint, features, records, records_read: read }) => {
    const own = columns(records.map((row) => row.x)), made = columns(records.map((row) => row.features)), numeric = own.filter((name) => records.some((row) => typeof row.x[name] === "number"));
    const last = records.find((row) => row.features)?.features ?? {}, known = records.filter((row) => row.came), alerts = records.filter((row) => row.alert).length;
    const said = (row) => (row.y === undefined ? dash : h("span", { class: row.alert ? "mark-alert" : null }, `${whole(row.y)}${row.alert ? " ◆ alert" : ""}`));
    const heads = [["Time"], ["Id"], ...own.map((each) => [each, "r"]), ["Predicted"], ["What came of it"], ...made.map((each) => [each, "r"])];
    const rows = records.map((row) => [moment(row.time), link(row), ...own.map((each) => short(row.x[each])), said(row), row.came ? came(row.came, row.came.label ?? "") : dash, ...made.map((each) => (row.features ? short(row.features[each]) : dash))]);
    const chosen = numeric.includes(app.own.of) ? app.own.of : numeric[0];
    const choice = h("select", { "aria-label": "Feature", onchange: () => app.go({ of: choice.value }) }, numeric.map((name) => h("option", { value: name, selected: name === chosen }, name)));
    const bars = chosen ? card("Its last records", alerts ? "◆ alert" : null, course(records, chosen)) : null;
    bars?.querySelector(".head").append(h("span", { class: "grow" }), choice);
    const now = card(`${key} ${value}`, partition === null ? "nothing is known of its records" : `partition ${partition}`,
      h("p", {}, `${count(alerts)} alert${alerts === 1 ? "" : "s"} in its last ${count(records.length)} record${records.length === 1 ? "" : "s"}; what came of ${count(known.filter((row) => row.came.label !== null).length)} is known.`),
      table([["Feature"], ["At the last prediction", "r"], ["Now", "r"], ["What it is"]], features.map((each) => [each.name, last[each.name] === undefined ? dash : short(last[each.name]), short(each.value), h("span", { class: "value" }, each.what)]), "What is known now"),
      h("p", { class: "note" }, `Now: as a record would find it at ${moment(time)}, the time of the stream at checkpoint ${count(checkpoint)}. Ratios are made with a record.${made.length || !features.length ? "" : " predictions: {features: true} in the stream file also keeps what each prediction saw."}`),
      h("p", { class: "actions" }, copyLink(app, app.link({ tab: "keys", key, value }))));
    return [`${count(read)} records were read, the newest first.`, h("div", { class: "charts" }, now, bars),
      card("Last records", null, rows.length ? table(heads, rows, "Last records") : h("p", { class: "empty" }, "None of that time."))];
  };
  const name = h("select", { name: "key" }, app.status.keys.map((each) => h("option", { value: each, selected: each === app.own.key }, each)));
  const query = app.own.key && app.own.value && { key: app.own.key, value: app.own.value, partition: app.partition ?? "" };
  return lookup(app, "A key", "What stands in records, such as the number of a card.", { Key: name, is: typed("value", app.own.value) }, "keys", query, show);
}

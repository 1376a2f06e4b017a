// The pages of a stream. Each is a function of what is known that makes elements once, and says how they are updated.

import { Chart, Shared } from "./chart.js";
import { steering } from "./actions.js";
import { comparison } from "./comparison.js";
import { segments } from "./segments.js";
import { River } from "./tree.js";
import { card, shareBars, sure, table, timed } from "./widgets.js";
import { SIGNS, ago, bytes, change, count, dash, h, keyOf, moment, number, percent, span, style, ticked, valueOf, valueText, worded } from "./format.js";

const DRIFTS = ["drift", "reset", "replace-started"];
const AGAIN = ["improvement", "warning"], AGAIN_MS = 60_000, TEXT = 7; // pixels of a letter
const MOST_MEMBERS = 12;

// What one detector says again and again of the same becomes one line.
export function together(events) {
  const found = [], last = new Map();
  for (const event of events) {
    const of = ["model", "signal", "detector", "partition"].map((name) => event[name]).join(" "), one = last.get(of);
    if (one && one.kind === event.kind && AGAIN.includes(event.kind) && event.time - one.time < AGAIN_MS) {
      Object.assign(one, { ...event, before: one.before, times: one.times + 1 });
      continue;
    }
    found.push({ ...event, times: 1 });
    last.set(of, found[found.length - 1]);
  }
  return found.sort((a, b) => a.time - b.time);
}

// few : of what is no drift of the champion's errors, at most so many.
function timeline(events, now, task, n, few = Infinity) {
  if (!events.length) return h("p", { class: "empty" }, "Nothing happened in this time.");
  const all = together(events), small = all.filter((event) => markOf(event)?.small).slice(-few);
  return h("ul", { class: "timeline" }, all.filter((event) => !markOf(event)?.small || small.includes(event)).slice(-n).reverse().map((event) => {
    const [sign, kind] = markOf(event)?.small ? ["◇", "slate"] : SIGNS[event.kind] ?? ["●", "slate"];
    return h("li", {}, h("span", { class: `sign ${kind}`, "aria-hidden": "true" }, sign),
      h("span", {}, worded(event, task), event.times > 1 ? `, in ${event.times} steps` : "", event.kind === "assigned" ? null : h("span", { class: "note" }, ` · partition ${event.partition}`)),
      h("span", { class: "when", title: moment(event.time, 0) }, ago(event.time, now)));
  }));
}

// How an event is marked: drifts of the champion's errors strong, other drifts small; promotions and other commands, and
// models that took the place of others. What got better has its place in the timeline.
function markOf(event) {
  if (DRIFTS.includes(event.kind)) {
    const strong = event.model === "champion" && event.signal === "error";
    return strong ? { colour: "--bad", text: "drift" } : { small: true, colour: "--slate2" };
  }
  if (event.kind === "replaced" && event.model === "champion") return { colour: "--news", dash: [4, 3], text: "replaced" };
  if (event.kind !== "applied") return null;
  if (event.action === "promote") return { colour: "--news", dash: [4, 3], text: `promoted: ${event.model}` };
  if (event.action === "demote") return { colour: "--news", dash: [4, 3], text: "promotion undone" };
  return event.action === "apply" ? { colour: "--slate", dash: [4, 3], text: "deployed" } : null;
}

export const marksOf = (events) => events.map((event) => ({ event, time: event.time, ...markOf(event) })).filter((mark) => mark.colour);

// Marks above the chart that can be reached by the keyboard, in words where there is room; those that would lie on each
// other become one.
export function signs(app, shared, task) {
  const strip = h("div", { class: "marks" });
  let shown = "";
  const place = () => {
    const { from, to } = shared.history ?? {};
    if (!from) return;
    const width = strip.clientWidth - 56 - 58, near = [];
    for (const mark of shared.marks.filter((each) => !each.small && each.time >= from && each.time <= to)) {
      const x = 56 + ((mark.time - from) / (to - from)) * width, last = near[near.length - 1];
      if (last && x - last.x < 16) last.marks.push(mark);
      else near.push({ x, marks: [mark] });
    }
    const now = JSON.stringify(near);
    if (now === shown) return; // buttons keep the focus
    shown = now;
    strip.replaceChildren(...near.map(({ x, marks }, i) => {
      const worst = marks.find((mark) => mark.colour === "--bad") ?? marks[0];
      const [sign, kind] = worst.text === "deployed" ? ["■", "slate"] : SIGNS[worst.event.kind];
      const words = marks.map(({ event }) => `${moment(event.time)} partition ${event.partition}: ${worded(event, task)}`).join("\n");
      const text = marks.length > 1 ? `${worst.text} ×${marks.length}` : worst.text;
      const room = (near[i + 1]?.x ?? strip.clientWidth) - x - 20 > TEXT * text.length;
      const button = h("button", { type: "button", class: kind, title: words, "aria-label": words, onclick: () => app.go({ tab: worst.colour === "--bad" ? "drift" : "timeline" }),
        onfocus: () => shared.point(worst.time), onblur: () => shared.point(null) }, sign, room ? ` ${text}` : null);
      button.style.left = `${x}px`;
      return button;
    }));
  };
  shared.charts.push({ draw: place });
  new ResizeObserver(place).observe(strip);
  return strip;
}

const plain = (value, step) => (step ? ticked(value, step) : number(value));
const share = (value, step) => (value === null ? dash : step ? `${ticked(100 * value, 100 * step)} %` : percent(value));
const points = (value, step) => (value === null ? dash : step ? ticked(100 * value, 100 * step) : `${number(100 * value)} points`);

// The models as lines; whoever is champion now is drawn stronger.
const modelLines = (models, kind, named) => models.map((model) => ({ name: `${kind}:${model[named]}`, label: model.title, note: model.role === "champion" ? "champion" : "", lead: model.role === "champion", ...style(model.look) }));

export function charts(app, shared, kinds) {
  const { models, objective, task, tiles, reigns } = app.status;
  const champion = models.find((model) => model.role === "champion"), colour = champion ? style(champion.look).colour : "--slate";
  const expected = objective.key === "accuracy" ? [{ name: "estimated:champion", label: "expected before labels come", colour, dash: [1, 3] }] : [];
  const target = objective.target?.[0] === "alert_rate" ? objective.target[1] : null;
  const large = { height: 300, fills: kinds.length > 3, ends: true, above: signs(app, shared, task), reigns: reigns.map((each) => ({ ...each, colour: style(each.look).colour })) };
  const made = {
    objective: () => new Chart(shared, { title: objective.title, unit: "", lines: [...modelLines(models, "objective", "name"), ...expected], wide: !objective.share, least: objective.share ? 0 : null, most: objective.share ? 1 : null,
      format: objective.share ? share : plain, ...large }),
    alerts: () => new Chart(shared, { title: "Alert rate", unit: target === null ? "" : `dashed: asked, ${percent(target, 2)}`, zero: true, limit: target, format: share, lines: [{ name: "alert-rate:champion", label: "champion", colour: "--slate" }], ...(objective.labelled ? {} : large) }),
    rate: () => new Chart(shared, { title: "Throughput", unit: "/s", zero: true, format: plain, lines: [
      { name: "in", label: "predicted", colour: "--slate" }, { name: "learned", label: "learned", colour: "--slate2", dash: [5, 3] }] }),
    lag: () => new Chart(shared, { title: "Lag", unit: "records", zero: true, format: plain, lines: [{ name: "lag", label: "behind", colour: "--slate" }] }),
    waiting: () => new Chart(shared, { title: "Waiting for labels", unit: "instances", zero: true, format: plain, lines: [{ name: "waiting", label: "waiting", colour: "--slate" }] }),
    delay: () => new Chart(shared, { title: "Label delay", unit: "half within", log: true, format: (value) => span(value), lines: [{ name: "delay", label: "p50", colour: "--slate" }] }),
    latency: () => new Chart(shared, { title: "Latency", unit: "", log: true, format: (value) => span(value), lines: [
      { name: "p99", label: "p99", colour: "--slate" }, { name: "p50", label: "p50", colour: "--slate2", dash: [5, 3] }] }),
    doubt: () => new Chart(shared, { title: "Error of confidence", unit: "calibrated confidence minus accuracy; subtracted from what is expected", format: points, lines: [{ name: "estimate-error:champion", label: "champion", colour }] }),
    nodes: () => new Chart(shared, { title: "Nodes", unit: "of the models' trees", zero: true, format: plain, lines: modelLines(models, "nodes", "role") }),
  };
  // Without labels, how many alerts there are is all that is known of them.
  const unlabelled = !objective.labelled && tiles.alert_rate !== null ? ["alerts", ...kinds.filter((kind) => !["objective", "alerts", "waiting", "delay"].includes(kind))] : kinds;
  const there = unlabelled.filter((kind) => kind !== "alerts" || tiles.alert_rate !== null);
  return there.map((kind) => made[kind]().element);
}

// Who is believed in a pool, over time: a member has its colour by its place among their names. Of another model nothing.
function believed(app, shared) {
  const { members = [] } = app.status.models.find((model) => model.role === app.model) ?? {}, names = members.toSorted();
  if (!members.length) return null;
  const lines = members.slice(0, MOST_MEMBERS).map((name) => ({ name: `believed:${app.model}:${name}`, label: name, ...style(names.indexOf(name)) }));
  const unit = [names.length > MOST_MEMBERS ? `the first ${MOST_MEMBERS} of ${names.length}` : "", app.partition === null && !app.status.steered.shared ? "mean of all partitions" : ""].filter(Boolean).join(", ");
  return new Chart(shared, { title: "Whom it believes, over time", unit, zero: true, height: 150, format: share, lines }).element;
}

const multiples = (...elements) => h("div", { class: "multiples" }, elements);

export const zoomed = (app) => new Shared((from, to) => app.go({ from, to }));

// Figures with a label above and a note below: put(name, label, value, unit, note) changes one.
function figures(names) {
  const parts = new Map(names.map((name) => [name, [h("dt"), h("dd")]]));
  const element = h("dl", { class: "numbers" }, [...parts.values()].map((pair) => h("div", {}, pair)));
  return [element, (name, label, value, unit, note = "") => {
    const [term, said] = parts.get(name);
    term.parentElement.hidden = label === null;
    term.textContent = label ?? "";
    said.replaceChildren(...[value].flat().filter((each) => each !== null), unit && value !== dash ? h("span", { class: "unit" }, ` ${unit}`) : "", h("span", { class: "note" }, note));
  }];
}

// How much a difference is, with a sign and a colour for whether it is better.
function moved(difference, figure) {
  const better = difference > 0 === figure.greater;
  return h("span", { class: better ? "up" : "down" }, `${difference > 0 ? "▲" : "▼"} ${change(difference, figure)}`);
}

const OF = { recall: (one) => `label${one.labels === 1 ? "" : "s"} of ${one.of}`, precision: () => "alerts with a label" };
const spanOf = (found) => (found.fading ? "labels lately" : `${count(found.labels)} ${(OF[found.key] ?? (() => "labels"))(found)}`);

// What the stream is judged by: how good the champion is, how sure that is, and how it went.
function judged(app) {
  const title = h("h2"), champion = h("span", { class: "note" }), big = h("p", { class: "big" }), list = h("ul"), line = h("div");
  const [more, put] = figures(["0", "1", "2", "expected"]);
  const element = h("section", { class: "card seven", "aria-label": "What the stream is judged by" }, h("div", { class: "head" }, title, champion),
    h("div", { class: "first" }, big, list), line, h("div", { class: "under" }, more));
  return [element, () => {
    const { objective: found, models, now, tiles, away } = app.status, { fall } = found;
    const look = models.find((model) => model.role === "champion")?.look ?? 0;
    const then = away ?? tiles.since;
    title.textContent = found.title;
    champion.replaceChildren("champion ", keyOf(style(look)), found.champion);
    const alerts = found.value === null && tiles.alert_rate !== null; // until the first labels come
    if (alerts) title.textContent = found.labelled ? `Alert rate, until ${found.title.toLowerCase()} is known` : "Alert rate";
    big.replaceChildren(...valueOf(alerts ? tiles.alert_rate : found.value, alerts ? { share: true } : found).filter((each) => each));
    const rows = [];
    if (then) rows.push(h("span", { class: "as-of" }, `as of ${moment(then, now)}`));
    if (fall) {
      rows.push([moved(fall.value - fall.before, found), ` since ${moment(fall.since, now)}`]);
      if (fall.recovers) rows.push([moved(fall.value - fall.worst, found), ` since ${moment(fall.at, now)}`]);
    } else if (found.change) rows.push([moved(found.change, found), " in an hour"]);
    if (found.value === null) rows.push(!found.labelled ? "this stream has no labels" : alerts ? "no labels have come yet" : "not known yet");
    else rows.push(h("span", { class: "note" }, `of ${spanOf(found)}${found.as_of ? `, the last at ${moment(found.as_of, now)}` : ""}`));
    if (found.scored_until) rows.push(h("span", { class: "note" }, `of records up to ${moment(found.scored_until, now)}`));
    list.replaceChildren(...rows.map((row) => h("li", {}, row)));
    const rings = fall ? [[fall.before, "before"], ...(fall.recovers ? [[fall.worst, "worst"]] : [])] : [];
    line.hidden = found.low === null && !rings.length;
    if (!line.hidden) {
      const all = [found.value, found.low ?? found.value, found.high ?? found.value, ...rings.map(([value]) => value)];
      const room = 0.35 * (Math.max(...all) - Math.min(...all)) || 0.1;
      const ends = [Math.min(...all) - room, Math.max(...all) + room];
      line.replaceChildren(sure({ ...found, rings }, ends, found.low === null ? "" : `95 %: ${valueText(found.low, found)} to ${valueText(found.high, found)}`, look));
    }
    found.beside.forEach((each, i) => i < 3 && put(String(i), each.value === null ? null : each.title, valueOf(each.value, each), null, each.low === null ? "" : `${valueText(each.low, each)} to ${valueText(each.high, each)}`));
    for (let i = found.beside.length; i < 3; i++) put(String(i), null, dash);
    more.parentElement.hidden = found.beside.every((each) => each.value === null) && tiles.expected === null;
    put("expected", tiles.expected === null || found.key !== "accuracy" ? null : "Expected", valueOf(tiles.expected, { share: true }), null, "before labels come");
  }];
}

function operation(app) {
  const note = h("span", { class: "note" }), [list, put] = figures(["rate", "alerts", "lag", "latency", "waiting", "letters"]);
  const element = h("section", { class: "card five ops", "aria-label": "Operation" }, h("div", { class: "head" }, h("h2", {}, "Operation"), note), list);
  const split = (text) => { const at = text.lastIndexOf(" "); return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)]; };
  return [element, () => {
    const { tiles: found, now, n_letters: letters, objective, partitions } = app.status, [kind, rate] = objective.target ?? [];
    const before = found.since === null ? null : `since ${moment(found.since, now)}`; // nobody tells these now
    const behind = partitions.filter((row) => row.state === "behind").length;
    const all = app.partition === null ? partitions.length : found.partitions, whole = found.partitions === all;
    note.textContent = before ? "" : `${whole ? "" : `${found.partitions} of `}${all} partition${all === 1 ? "" : "s"}, ${found.workers} worker${found.workers === 1 ? "" : "s"}${behind ? `, ${behind} behind` : whole ? ", all keep up" : ""}`;
    put("rate", "Throughput", number(found.rate), "/s", before ?? "instances");
    put("alerts", found.alert_rate === null ? null : "Alert rate", percent(found.alert_rate, 2), "", kind === "alert_rate" ? `asked: ${percent(rate, 2)}` : "");
    put("lag", "Lag", count(found.lag), "records", found.lag === null ? before ?? "" : found.lag_of === null ? "" : `most in partition ${found.lag_of}`);
    put("latency", "Latency, p99", ...split(span(found.p99)), before ?? (found.p50 === null ? "" : `half within ${span(found.p50)}`));
    put("waiting", objective.labelled ? "Waiting for labels" : null, count(found.waiting), "", [found.delay === null ? "" : `they come ${span(found.delay)} later`, ...Object.entries(found.without_label).map(([what, n]) => `${count(n)} ${what.replace("_", " ")}`)].filter(Boolean).join(", "));
    put("letters", "Dead letters", count(letters), "", "in 24 h");
  }];
}

const VERDICTS = { better: ["▲", "up"], worse: ["▼", "down"], open: ["○", "note"] };

function modelTable(app, short) {
  const element = h("div");
  return [element, () => {
    const { models, objective } = app.status;
    const known = models.flatMap((model) => [model.value, model.low, model.high]).filter((value) => value !== null);
    const room = 0.15 * (Math.max(...known) - Math.min(...known)) || 0.1, ends = [Math.min(...known) - room, Math.max(...known) + room];
    const beside = models[0]?.beside ?? [];
    const heads = [["Model"], [objective.title, "wide"], ...beside.map((each) => [each.title, "r"]), ["Against the champion", "r"],
      ...(short ? [] : [["Labels scored", "r"], ["Nodes", "r"], ["Depth", "r"], ["State", "r"]])];
    const rows = models.map((model) => {
      const role = model.role === "champion" ? h("span", { class: "role first-one" }, "champion") : h("span", { class: "role" }, "challenger");
      const name = [keyOf(style(model.look)), model.title, " ", role, h("span", { class: "note" }, [model.learner !== model.title ? model.learner : null, model.bytes ? bytes(model.bytes) : null].filter(Boolean).join(" · "))];
      const value = model.value === null ? dash : model.low === null ? valueText(model.value, objective) : sure(model, ends, valueText(model.value, objective), model.look);
      const [sign, kind] = VERDICTS[model.against?.verdict] ?? [];
      const against = model.against ? h("span", {}, h("span", { class: kind }, `${sign} ${model.against.said}`), h("span", { class: "note" }, model.against.sure)) : model.role === "champion" ? dash : "not compared yet";
      return [name, value, ...model.beside.map((each) => valueText(each.value, each)), against,
        ...(short ? [] : [count(model.n), count(model.nodes || null), count(model.nodes ? model.depth : null), bytes(model.bytes)])];
    });
    element.replaceChildren(table(heads, rows, "Models"));
    if (models.length === 1) element.append(h("p", { class: "empty" }, "No challengers. Name some in the stream file to compare the champion with."));
  }];
}

function partitionTable(app) {
  const element = h("div");
  return [element, () => {
    const { partitions, objective, now } = app.status;
    const state = (row) => h("span", { class: `state ${row.state === "up to date" ? "" : row.state}` }, row.state);
    const heads = [["Partition"], ["State"], ["Worker"], ["Since"], ["Lag", "r"], ["Predicted/s", "r"], ["Learned/s", "r"], ["Waiting", "r"], ["Label delay", "r"], ["Latency p99", "r"], [objective.title, "r"], ["Unsaved", "r"], ["State", "r"], ["Last drift", "r"]];
    const rows = partitions.map((row) => [String(row.partition), state(row), row.worker ? `${row.worker} (${row.version})` : dash, row.since ? moment(row.since, now) : dash, count(row.lag), number(row.rate), number(row.learned), count(row.waiting), span(row.delay), span(row.p99),
      valueText(row.score ?? null, objective), span(row.checkpoint_age), bytes(row.bytes), row.last_drift ? ago(row.last_drift, now) : "none"]);
    element.replaceChildren(table(heads, rows, "Partitions"));
  }];
}

// What was in the topics and is not shown.
const LEFT_OUT = { unreadable: "which no worker of this version writes so", foreign: "of a stream, partition or model that the stream file does not name", ahead: "stamped later than now" };
const leftOut = (rows) => rows.map(({ topic, why, n }) => h("p", { class: "note" }, `Left out: ${count(n)} record${n === 1 ? "" : "s"} of ${topic}, ${LEFT_OUT[why]}.`));

const titled = (app, title, tab, ...content) => {
  const whole = card("", null, ...content);
  whole.querySelector("h2").append(h("a", { href: app.link({ tab }), onclick: (event) => app.follow(event) }, title));
  return whole;
};

function whatHappened(app) {
  const newest = h("div"), events = [];
  return {
    element: titled(app, "What happened", "timeline", newest),
    update() {
      const known = events.length ? events[events.length - 1].time : 0;
      newest.replaceChildren(timeline([...events, ...app.status.events.filter((event) => event.time > known)], app.status.now, app.status.task, 6, MOST_SMALL), ...leftOut(app.status.left_out));
    },
    history(_, all) { events.splice(0, events.length, ...all); this.update(); },
  };
}

const MOST_SMALL = 3; // so that drifts of dummies do not fill the list

// Cards beside the chart of the overview, from the top; each makes an element, and says how it is updated.
const BESIDE = [segments, whatHappened];

export function overview(app) {
  const shared = zoomed(app);
  const [first, setFirst] = judged(app), [operating, setOperating] = operation(app), [models, setModels] = modelTable(app, true);
  const [large, ...others] = charts(app, shared, ["objective", "alerts", "rate", "lag", "latency", "waiting", "delay"]);
  const { labelled, title } = app.status.objective;
  const over = timed(app, `${labelled ? title : "Alert rate"} over time`, null, large);
  over.classList.add("two-thirds");
  large.querySelector(".name").remove(); // it is the card's title
  const beside = BESIDE.map((make) => make(app));
  const elements = [first, operating, over, h("div", { class: "third stacked" }, beside.map((each) => each.element)), h("section", { class: "card", "aria-label": "Around it" }, multiples(...others)), titled(app, "Models", "models", models)];
  return {
    elements,
    update() {
      const blank = !app.status.partitions.some((row) => row.worker) && app.status.newest === 0;
      for (const element of elements) element.hidden = blank;
      setFirst(); setOperating(); setModels();
      for (const each of beside) each.update();
    },
    history(found, all) {
      shared.set(found, marksOf(all));
      for (const each of beside) each.history?.(found, all);
    },
  };
}

export function models(app) {
  const shared = zoomed(app);
  const [rows, setRows] = modelTable(app, false);
  const [large, ...others] = charts(app, shared, ["objective", ...(app.status.objective.key === "accuracy" ? ["doubt"] : []), "nodes"]);
  const over = timed(app, "Over time", null, large, multiples(...others));
  const body = h("div"), note = h("span", { class: "note" }), steer = steering(app), beside = comparison(app);
  const role = h("select", { "aria-label": "Model", onchange: () => app.go({ model: role.value }) });
  role.append(...app.status.models.map((model) => h("option", { value: model.role, selected: model.role === app.model }, model.role)));
  const partition = app.partition ?? 0;
  const whole = card("What it has learned", null, believed(app, shared), body);
  whole.querySelector(".head").append(note, h("span", { class: "choice" }), role);
  const buttons = whole.querySelector(".choice");
  load(0);

  async function load(number_) {
    body.replaceChildren(h("p", { class: "empty" }, "Reading the last checkpoint …"));
    let found;
    try {
      found = await app.get(`/partitions/${partition}/models/${encodeURIComponent(app.model)}`);
    } catch (error) {
      body.replaceChildren(h("p", { class: "empty" }, String(error.message)));
      return;
    }
    const { summary, trees } = found;
    note.textContent = `partition ${partition}, checkpoint ${count(summary.sequence)}, ${ago(summary.created, Date.now())}`;
    const shown = [];
    const outline = h("pre", { tabindex: 0, "aria-label": "outline" }, found.outline.join("\n") + (found.more_lines ? `\n… ${count(found.more_lines)} lines more` : ""));
    buttons.replaceChildren();
    const members = Object.entries(found.members);
    if (members.length) shown.push(h("h3", {}, "Whom it believes"), shareBars(members.slice(0, 8), 1), h("h3", {}, `In ${members[0][0]}, which it believes most`));
    if (trees.length) {
      const tree = trees[Math.min(number_, trees.length - 1)];
      let river = null;
      const picture = h("div");
      shown.push(picture);
      buttons.append(h("button", { type: "button", onclick: () => river.all(false) }, "Close all"), h("button", { type: "button", onclick: () => river.all(true) }, "Open all"),
        h("button", { type: "button", onclick: () => picture.replaceChildren(picture.firstChild === outline ? river.element : outline) }, "Outline"));
      if (trees.length > 1) {
        buttons.append(h("button", { type: "button", "aria-label": "Tree before", onclick: () => load((number_ + trees.length - 1) % trees.length) }, "←"),
          h("button", { type: "button", "aria-label": "Next tree", onclick: () => load((number_ + 1) % trees.length) }, `Tree ${number_ + 1} of ${trees.length} →`));
      }
      queueMicrotask(() => { // where it stands, it has a width
        river = new River(tree, found.classes, picture.clientWidth);
        picture.replaceChildren(river.element);
        river.draw();
      });
    } else {
      const words = summary.n_nodes === 1 ? "One leaf so far: it has not split yet." : `${summary.learner} has no tree. What it has learned is below.`;
      shown.push(h("p", { class: "empty" }, words), outline);
    }
    if (found.too_large) shown.push(h("p", { class: "note" }, `${found.too_large} trees are too large to be drawn.`));
    if (found.importance.length) {
      shown.push(h("h3", {}, "What it looks at"), h("p", { class: "note" }, "Each feature's share of what the model tells apart: of trees the mean decrease of impurity."), shareBars(found.importance.slice(0, 15)));
    }
    body.replaceChildren(...shown);
  }

  return {
    elements: [card("Models", app.partition === null ? "all partitions" : `partition ${app.partition}`, rows), beside.element, ...(steer ? [steer.element] : []), over, whole],
    update() { setRows(); beside.update(); steer?.update(); },
    history: (found, all) => shared.set(found, marksOf(all)),
  };
}

export function partitions(app) {
  const shared = zoomed(app);
  const [rows, setRows] = partitionTable(app);
  const over = timed(app, "Over time", app.partition === null ? "all partitions together" : `partition ${app.partition}`, multiples(...charts(app, shared, ["rate", "lag", "waiting", "delay", "latency"])));
  return { elements: [card("Partitions", null, rows), over], update: setRows, history: (found, all) => shared.set(found, marksOf(all)) };
}

export function happened(app) {
  const body = h("div");
  const whole = timed(app, "Timeline", null, body);
  return { elements: [whole], update() {}, history: (_, all) => body.replaceChildren(timeline(all, Date.now(), app.status.task, 500)) };
}

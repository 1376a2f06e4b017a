// The pages of a stream. Each is a function of what is known that makes elements once, and says how they are updated.

import { Chart, Shared } from "./chart.js";
import { steering } from "./actions.js";
import { comparison } from "./comparison.js";
import { River } from "./tree.js";
import { card, table, timed } from "./widgets.js";
import { SIGNS, ago, bytes, colour, count, dash, h, moment, number, percent, pieces, score, span, style, ticked, worded } from "./format.js";

const MARKED = { drift: ["--bad"], reset: ["--bad"], "replace-started": ["--bad"], replaced: ["--news", [4, 3]] };

const AGAIN = ["improvement", "warning"], AGAIN_MS = 60_000;

const metricName = (metric) => ({ accuracy: "Accuracy", auroc: "AUROC" }[metric] ?? "Mean absolute error");

function modelKey(roles, role) {
  const { colour: shown, dash: dashes } = style(Math.max(0, roles.indexOf(role)));
  const key = h("span", { class: "key" });
  key.style.borderColor = shown;
  key.style.borderTopStyle = dashes.length ? (dashes[0] < 3 ? "dotted" : "dashed") : "solid";
  return key;
}

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

function timeline(events, now, metric, n) {
  if (!events.length) return h("p", { class: "empty" }, "Nothing happened in this time.");
  return h("ul", { class: "timeline" }, together(events).slice(-n).reverse().map((event) => {
    const [sign, kind] = SIGNS[event.kind] ?? ["●", "slate"];
    return h("li", {}, h("span", { class: `sign ${kind}`, "aria-hidden": "true" }, sign),
      h("span", {}, worded(event, metric), event.times > 1 ? `, in ${event.times} steps` : "", event.kind === "assigned" ? null : h("span", { class: "note" }, ` · partition ${event.partition}`)),
      h("span", { class: "when", title: moment(event.time, 0) }, ago(event.time, now)));
  }));
}

// Challengers and what got better have their place in the timeline: lines in the charts are what got worse.
const isMarked = (event) => MARKED[event.kind] && (!event.model || event.model === "champion");

export function marksOf(events) {
  return events.filter(isMarked).map((event) => ({ ...event, colour: MARKED[event.kind][0], dash: MARKED[event.kind][1] }));
}

// Marks above the charts that can be reached by the keyboard; those that would lie on each other become one.
export function signs(app, shared, events, metric) {
  const strip = h("div", { class: "marks" });
  const place = () => {
    const { from, to } = shared.history ?? {};
    if (!from) return;
    const width = strip.clientWidth - 68, near = [];
    for (const event of events.filter((each) => each.time >= from && each.time <= to && isMarked(each))) {
      const x = 56 + ((event.time - from) / (to - from)) * width;
      const last = near[near.length - 1];
      if (last && x - last.x < 16) last.events.push(event);
      else near.push({ x, events: [event] });
    }
    strip.replaceChildren(...near.map(({ x, events: group }) => {
      const worst = group.find((event) => MARKED[event.kind][0] === "--bad") ?? group[0];
      const [sign, kind] = SIGNS[worst.kind];
      const words = group.map((event) => `${moment(event.time)} partition ${event.partition}: ${worded(event, metric)}`).join("\n");
      const button = h("button", { type: "button", class: kind, title: words, "aria-label": words, onclick: () => app.go({ tab: "drift" }),
        onfocus: () => shared.point(worst.time), onblur: () => shared.point(null) }, sign, group.length > 1 ? h("sup", {}, String(group.length)) : null);
      button.style.left = `${x}px`;
      return button;
    }));
  };
  shared.charts.push({ draw: place });
  return strip;
}

export function charts(app, shared, kinds) {
  const roles = app.status.models.map((model) => model.role);
  const metric = app.status.tiles.metric;
  const lines = roles.map((role, i) => ({ name: `score:${role}`, label: role, colour: `--m${i % 5}`, dash: style(i).dash }));
  const plain = (value, step) => (step ? ticked(value, step) : number(value));
  const points = (value, step) => (value === null ? dash : step ? ticked(100 * value, 100 * step) : `${number(100 * value)} points`);
  const share = (value, step) => (step ? `${ticked(100 * value, 100 * step)} %` : percent(value));
  const expected = metric === "accuracy" ? [{ name: "estimated:champion", label: "champion, expected before labels come", colour: "--m0", dash: [1, 3] }] : [];
  const made = {
    score: () => new Chart(shared, { title: metricName(metric), unit: "of the last labels", lines: [...lines, ...expected], height: 210, least: metric === "accuracy" ? 0 : null, most: metric === "accuracy" ? 1 : null,
      format: metric === "accuracy" ? share : plain }),
    rate: () => new Chart(shared, { title: "Throughput", unit: "instances/s", zero: true, format: plain, lines: [
      { name: "in", label: "predicted", colour: "--slate" }, { name: "learned", label: "learned", colour: "--slate2", dash: [5, 3] }] }),
    lag: () => new Chart(shared, { title: "Lag", unit: "records", zero: true, format: plain, height: 110, lines: [{ name: "lag", label: "behind", colour: "--slate" }] }),
    waiting: () => new Chart(shared, { title: "Waiting for labels", unit: "instances", zero: true, format: plain, height: 110, lines: [{ name: "waiting", label: "waiting", colour: "--slate" }] }),
    delay: () => new Chart(shared, { title: "Label delay", unit: "features to label, half within", log: true, format: (value) => span(value), height: 110, lines: [{ name: "delay", label: "p50", colour: "--slate" }] }),
    latency: () => new Chart(shared, { title: "Features to prediction", unit: "", log: true, format: (value) => span(value), height: 130, lines: [
      { name: "p99", label: "p99", colour: "--slate" }, { name: "p50", label: "p50", colour: "--slate2", dash: [5, 3] }] }),
    doubt: () => new Chart(shared, { title: "Error of confidence", unit: "points: calibrated confidence minus the accuracy of the labels that came; subtracted from what is expected", format: points, height: 90, lines: [{ name: "estimate-error:champion", label: "champion", colour: "--m0" }] }),
    nodes: () => new Chart(shared, { title: "Nodes", unit: "of the models' trees", zero: true, format: plain, height: 120, lines: roles.map((role, i) => ({ name: `nodes:${role}`, label: role, colour: `--m${i % 5}`, dash: style(i).dash })) }),
  };
  const shown = kinds.map((kind) => made[kind]());
  shown.forEach((chart, i) => { chart.axis = i === shown.length - 1; }); // one axis of time, below all
  return shown.map((chart) => chart.element);
}

function verdict(app) {
  const element = h("p", { class: "verdict" });
  let kind = null;
  return [element, () => {
    const { verdict: found, now, progress } = app.status;
    element.className = `verdict ${found.level}`;
    element.replaceChildren(...pieces(found.said, now));
    if (app.status.file_said) element.append(` The stream file cannot be followed as it is now: ${app.status.file_said}. Start riparian ui again with it.`);
    if (progress !== null) element.append(` Reading the last 7 days: ${percent(progress, 0)}.`);
    if (found.kind !== kind) app.say(element.textContent);
    kind = found.kind;
  }];
}

function tiles(app) {
  const parts = ["score", "rate", "latency", "lag", "waiting"].map((name) => [name, h("div", { class: "label" }), h("div", { class: "value" }), h("div", { class: "more" })]);
  const element = h("section", { class: "card tiles", "aria-label": "Figures now" }, parts.map(([, ...rest]) => h("div", { class: "tile" }, rest)));
  const put = (name, label, value, unit, more, kind = "") => {
    const [, a, b, c] = parts.find(([each]) => each === name);
    a.textContent = label;
    b.replaceChildren(value, unit && value !== dash ? h("span", { class: "unit" }, ` ${unit}`) : "");
    c.textContent = more;
    c.className = `more ${kind}`;
  };
  return [element, () => {
    const found = app.status.tiles, isAccuracy = found.metric === "accuracy";
    const better = found.metric === "mae" ? found.change < 0 : found.change > 0;
    const small = Math.abs(found.change ?? 0) < (isAccuracy ? 0.0005 : 1e-9);
    const change = found.change === null || small ? "" : isAccuracy ? `${found.change > 0 ? "+" : "−"}${Math.abs(100 * found.change).toFixed(1)} points in an hour` : `${found.change > 0 ? "+" : "−"}${number(Math.abs(found.change))} in an hour`;
    const split = (text) => { const at = text.lastIndexOf(" "); return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)]; };
    const expected = found.expected === null ? "" : `${percent(found.expected)} expected before labels`;
    put("score", `${metricName(found.metric)} of the champion`, ...split(isAccuracy ? percent(found.score) : number(found.score)), [change, expected, found.scored_until === null ? "" : `of records up to ${moment(found.scored_until, app.status.now)}`].filter(Boolean).join("\n"), change ? (better ? "good-text" : "bad-text") : "");
    const before = found.since === null ? null : `since ${moment(found.since, app.status.now)}`; // nobody tells these now
    put("rate", "Throughput", number(found.rate), "instances/s", before ?? `${found.partitions} partition${found.partitions === 1 ? "" : "s"}, ${found.workers} worker${found.workers === 1 ? "" : "s"}`);
    put("latency", "Latency, p99", ...split(span(found.p99)), before ?? (found.p50 === null ? "" : `half within ${span(found.p50)}`));
    put("lag", "Lag", count(found.lag), "records", found.lag === null ? before ?? "" : found.lag_of === null ? "" : `most in partition ${found.lag_of}`);
    put("waiting", "Waiting for labels", count(found.waiting), "instances", [found.delay === null ? "" : `labels come ${span(found.delay)} later`, ...Object.entries(found.without_label).map(([what, n]) => `${count(n)} ${what.replace("_", " ")}`)].filter(Boolean).join("\n"));
  }];
}

function modelTable(app, short) {
  const element = h("div");
  return [element, () => {
    const { models, tiles: { metric } } = app.status;
    const roles = models.map((model) => model.role), isAccuracy = metric === "accuracy";
    const heads = short
      ? [["Model"], [metricName(metric), "r"], isAccuracy ? ["Kappa", "r"] : ["RMSE", "r"], ["Nodes", "r"]]
      : [["Model"], ["Learner"], ["Last labels", "r"], ["Overall", "r"], ...(isAccuracy ? [["Kappa", "r"], ["Log loss", "r"]] : [["RMSE", "r"], ["R²", "r"]]), ["Labels scored", "r"], ["Nodes", "r"], ["Depth", "r"], ["State", "r"]];
    const rows = models.map((model) => {
      const name = [modelKey(roles, model.role), model.role];
      const second = isAccuracy ? number(model.recent.kappa) : number(model.recent.rmse);
      if (short) return [[...name, h("span", { class: "note" }, ` ${model.learner}`)], score(model.score, metric), second, count(model.nodes || null)];
      const third = isAccuracy ? number(model.recent.log_loss) : number(model.recent.r2);
      return [name, model.learner, score(model.score, metric), score(model.overall[metric], metric), second, third, count(model.n), count(model.nodes || null), count(model.nodes ? model.depth : null), bytes(model.bytes)];
    });
    element.replaceChildren(table(heads, rows, "Models"));
    if (models.length === 1) element.append(h("p", { class: "empty" }, "No challengers. Name some in the stream file to hold the champion against them."));
  }];
}

function partitionTable(app, short) {
  const element = h("div");
  return [element, () => {
    const { partitions, tiles: { metric }, now } = app.status;
    const state = (row) => h("span", { class: `state ${row.state === "up to date" ? "" : row.state}` }, row.state);
    const drift = (row) => (row.last_drift ? ago(row.last_drift, now) : "none");
    const heads = short
      ? [["Partition"], ["State"], ["Worker"], [metricName(metric), "r"], ["Lag", "r"], ["Last drift", "r"]]
      : [["Partition"], ["State"], ["Worker"], ["Since"], ["Lag", "r"], ["Predicted/s", "r"], ["Learned/s", "r"], ["Waiting", "r"], ["Label delay", "r"], ["Latency p99", "r"], [metricName(metric), "r"], ["Unsaved", "r"], ["State", "r"], ["Last drift", "r"]];
    const rows = partitions.map((row) => short
      ? [String(row.partition), state(row), row.worker ?? dash, score(row.score, metric), count(row.lag), drift(row)]
      : [String(row.partition), state(row), row.worker ? `${row.worker} (${row.version})` : dash, row.since ? moment(row.since, now) : dash, count(row.lag), number(row.rate), number(row.learned), count(row.waiting), span(row.delay), span(row.p99), score(row.score, metric), span(row.checkpoint_age), bytes(row.bytes), drift(row)]);
    element.replaceChildren(table(heads, rows, "Partitions"));
  }];
}

// What was in the topics and is not shown.
const LEFT_OUT = { unreadable: "which no worker of this version writes so", foreign: "of a stream, partition or model that the stream file does not name", ahead: "stamped later than now" };
const leftOut = (rows) => rows.map(({ topic, why, n }) => h("p", { class: "note" }, `Left out: ${count(n)} record${n === 1 ? "" : "s"} of ${topic}, ${LEFT_OUT[why]}.`));

export function overview(app) {
  const shared = new Shared();
  const [said, sayIt] = verdict(app), [figures, setFigures] = tiles(app);
  const [models, setModels] = modelTable(app, true), [parts, setParts] = partitionTable(app, true);
  const newest = h("div"), events = [];
  const over = timed(app, "Over time", null, signs(app, shared, events, app.status.tiles.metric), ...charts(app, shared, ["score", "rate", "lag", "latency"]));
  const link = (title, tab) => h("a", { href: app.link({ tab }), onclick: (event) => app.follow(event) }, title);
  const halves = [card("", null, models), card("", null, parts)];
  halves[0].querySelector("h2").append(link("Models", "models"));
  halves[1].querySelector("h2").append(link("Partitions", "partitions"));
  halves.forEach((half) => half.classList.add("half"));
  const last = card("", null, newest);
  last.querySelector("h2").append(link("Newest", "timeline"));
  const elements = [said, figures, over, ...halves, last];
  return {
    elements,
    update() {
      const blank = !app.status.partitions.some((row) => row.worker) && app.status.newest === 0;
      for (const element of elements.slice(1)) element.hidden = blank;
      sayIt(); setFigures(); setModels(); setParts();
      const known = events.length ? events[events.length - 1].time : 0;
      newest.replaceChildren(timeline([...events, ...app.status.events.filter((event) => event.time > known)], app.status.now, app.status.tiles.metric, 10), ...leftOut(app.status.left_out));
    },
    history(found, all) {
      events.splice(0, events.length, ...all);
      shared.set(found, marksOf(all));
    },
  };
}

export function models(app) {
  const shared = new Shared();
  const [rows, setRows] = modelTable(app, false);
  const over = timed(app, "Over time", null, ...charts(app, shared, ["score", ...(app.status.tiles.metric === "accuracy" ? ["doubt"] : []), "nodes"]));
  const body = h("div"), note = h("span", { class: "note" }), steer = steering(app), beside = comparison(app);
  const role = h("select", { "aria-label": "Model", onchange: () => app.go({ model: role.value }) });
  role.append(...app.status.models.map((model) => h("option", { value: model.role, selected: model.role === app.model }, model.role)));
  const partition = app.partition ?? 0;
  const whole = card("What it has learned", null, body);
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
      requestAnimationFrame(() => {
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
      const most = found.importance[0][1];
      const bars = h("div", { class: "bars" }, found.importance.slice(0, 15).flatMap(([name, value], i) => {
        const bar = h("div", { class: "bar-line" });
        bar.style.width = `${(100 * value) / most}%`;
        return [h("span", {}, name), bar, h("span", { class: "r" }, percent(value, 0))];
      }));
      shown.push(h("h3", {}, "What it looks at"), h("p", { class: "note" }, "Each feature's share of what the model tells apart: of trees the mean decrease of impurity."), bars);
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
  const shared = new Shared();
  const [rows, setRows] = partitionTable(app, false);
  const over = timed(app, "Over time", app.partition === null ? "all partitions together" : `partition ${app.partition}`, ...charts(app, shared, ["rate", "lag", "waiting", "delay", "latency"]));
  return { elements: [card("Partitions", null, rows), over], update: setRows, history: (found, all) => shared.set(found, marksOf(all)) };
}

export function happened(app) {
  const body = h("div");
  const whole = timed(app, "Timeline", null, body);
  return { elements: [whole], update() {}, history: (_, all) => body.replaceChildren(timeline(all, Date.now(), app.status.tiles.metric, 500)) };
}

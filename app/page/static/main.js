// The frame of the page: where one is (in the address), what the server tells, and when it is silent.

import { rangeOf } from "./widgets.js";
import { ask } from "./actions.js";
import { count, h, moment, percent, pieces, valueOf } from "./format.js";
import { alerts } from "./alerts.js";
import { keys, predictions } from "./predictions.js";
import { quality } from "./quality.js";
import { deadletters } from "./deadletters.js";
import { drift } from "./drift.js";
import { happened, models, overview, partitions } from "./pages.js";

// The pages of a stream, in the order of the navigation: its name in the address, its label, what makes it. Further on,
// of the status: whether it is there (`when`), and the number beside its label (`badge`). own : what else the address
// says of it, which is gone on another page.
const VIEWS = [
  { name: "overview", label: "Overview", make: overview },
  { name: "alerts", label: "Alerts", make: alerts, own: ["only", "at"], badge: (status) => status.n_alerts },
  { name: "quality", label: "Quality", make: quality, own: ["early"] },
  { name: "models", label: "Models", make: models },
  { name: "drift", label: "Drift", make: drift },
  { name: "partitions", label: "Partitions", make: partitions },
  { name: "deadletters", label: "Dead letters", make: deadletters, badge: (status) => status.n_letters },
  { name: "predictions", label: "Predictions", make: predictions, own: ["id", "last"] },
  { name: "keys", label: "Keys", make: keys, own: ["key", "value", "last", "of"], when: (status) => status.keys.length },
  { name: "timeline", label: "Timeline", make: happened },
];
const HISTORY_MS = [10_000, 60_000], BUCKETS = 400, STEPS = 150, AGAIN_MS = 4_000, LEAST_MS = 60_000;
const SEVERITY = ["bad", "worse", "stale", "news", "good"];
const SIGN = { good: "✓", news: "i", worse: "▲", bad: "✕", stale: "○" };
const byId = (id) => document.getElementById(id);

// Where figures begin within the time that was asked for, so does the picture: a new stream fills it, too.
function begun({ from, to, start, width, series }) {
  const first = Math.min(...series.map(({ mean }) => { const at = mean.findIndex((value) => value !== null); return at < 0 ? Infinity : start + at * width; }));
  return first === Infinity ? {} : { from: Math.max(from, Math.min(first - 0.02 * (to - first), to - LEAST_MS)) };
}

const app = {
  status: null, page: null, lost: null,

  read() {
    const query = new URLSearchParams(location.search);
    this.stream = query.get("stream");
    this.tab = VIEWS.some(({ name }) => name === query.get("tab")) ? query.get("tab") : "overview";
    this.range = query.get("range") ?? "1h";
    [this.from, this.to] = ["from", "to"].map((name) => Number(query.get(name)) || null); // of a part that was zoomed into
    this.partition = /^\d+$/.test(query.get("partition") ?? "") ? Number(query.get("partition")) : null;
    this.model = query.get("model") ?? "champion";
    this.own = Object.fromEntries((VIEWS.find(({ name }) => name === this.tab).own ?? []).map((name) => [name, query.get(name)]));
  },

  link(changes) {
    const now = { stream: this.stream, tab: this.tab, range: this.range, from: this.from, to: this.to, partition: this.partition, model: this.model === "champion" ? null : this.model, ...("tab" in changes ? {} : this.own), ...changes };
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(now)) if (value !== null && value !== undefined && !(name === "range" && value === "1h") && !(name === "tab" && value === "overview")) query.set(name, value);
    return `/?${query}`;
  },

  go(changes) {
    history.pushState(null, "", this.link(changes));
    this.open();
  },

  follow(event) {
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
    event.preventDefault();
    history.pushState(null, "", event.currentTarget.getAttribute("href"));
    this.open().then(() => byId("main").focus());
  },

  async get(path, base = `/api/streams/${encodeURIComponent(this.stream)}`) {
    const answer = await fetch(base + path, { headers: { Accept: "application/json" } });
    if (!answer.ok) {
      const text = await answer.text();
      let said = text;
      try { said = JSON.parse(text).error ?? text; } catch { /* it is plain text */ }
      throw new Error(said);
    }
    return answer.json();
  },

  say(text) {
    byId("said").textContent = text;
  },

  // ---------------------------------------------------------------------------------------------

  async open() {
    const turn = (this.turn = {});
    this.read();
    document.querySelector("dialog")?.close(); // it asks about what was shown
    const all = await this.get("/streams", "/api").catch(() => null);
    if (turn !== this.turn) return; // one has gone on
    if (all === null) return this.silent();
    byId("version").textContent = `Riparian ${all.version}`;
    if (this.stream === null && all.streams.length === 1) this.stream = all.streams[0].name;
    this.menu(all.streams);
    if (this.stream === null) return this.board(all);
    if (!all.streams.some((each) => each.name === this.stream)) {
      this.blank(h("p", { class: "card" }, `There is no stream ${this.stream} on this page.`));
      return;
    }
    const of = `${this.stream} ${this.partition}`;
    if (of !== this.of || !this.status || !this.events) {
      const status = await this.get(`?partition=${this.partition ?? ""}`).catch((error) => turn === this.turn && this.blank(h("p", { class: "card" }, error.message)));
      if (turn !== this.turn || !status) return;
      Object.assign(this, { status, of });
      this.listen();
    }
    this.tabs();
    this.fields();
    this.first = null;
    this.page = VIEWS.find(({ name }) => name === this.tab).make(this);
    byId("main").replaceChildren(...this.page.elements);
    this.update();
    this.history();
  },

  blank(...elements) {
    this.page = null;
    this.status = null;
    this.events?.close();
    this.events = null;
    byId("tabs").replaceChildren();
    byId("partition-field").hidden = byId("verdict").hidden = true;
    byId("main").replaceChildren(...elements);
  },

  // Of several streams a card each, what is worst first. A card that is there stays, with the focus if it has it.
  board(all) {
    const shown = all.streams.toSorted((a, b) => SEVERITY.indexOf(a.verdict.level) - SEVERITY.indexOf(b.verdict.level));
    let list = document.querySelector(".streams-list");
    if (!list) this.blank(h("h1", {}, "Streams"), list = h("div", { class: "streams-list" }));
    const known = new Map([...list.children].map((card) => [card.dataset.stream, card])), focused = document.activeElement;
    const cards = shown.map(({ name, verdict, objective, tiles, n_letters: letters }) => {
      const card = known.get(name) ?? h("a", { class: "card stream", "data-stream": name, href: `/?stream=${encodeURIComponent(name)}`, onclick: (event) => this.follow(event) });
      card.replaceChildren(
        h("div", { class: `verdict ${verdict.level}` }, h("span", { class: "sign", "aria-hidden": "true" }, SIGN[verdict.level]),
          h("div", {}, h("h2", {}, name), h("p", {}, h("strong", { class: "word" }, `${verdict.state}: `), pieces(verdict.said, Date.now())))),
        h("div", { class: "in" }, h("p", { class: "note" }, objective.title), h("p", { class: "big" }, valueOf(objective.value, objective)),
          h("p", { class: "note" }, `${tiles.since ? `no figures since ${moment(tiles.since)}` : `${count(tiles.rate)} instances/s`} · ${count(letters)} dead letters in a day`)));
      return card;
    });
    if (cards.some((card, i) => card !== list.children[i])) {
      list.replaceChildren(...cards);
      if (cards.includes(focused)) focused.focus();
    }
    const idle = all.streams.filter((each) => !each.works).length;
    if (all.away) this.pill("lost", `Kafka does not answer since ${moment(all.away)}`);
    else if (idle) this.pill("lost", `${idle} of ${all.streams.length} without a worker`);
    else this.pill("live", "Live");
    document.title = "Riparian";
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.stream === null && this.open(), AGAIN_MS);
  },

  menu(streams) {
    const text = JSON.stringify([this.stream, streams.map((each) => each.name)]);
    if (text === this.listed) { // an open list stays open
      byId("streams").firstChild.value = this.stream ?? "";
      return;
    }
    this.listed = text;
    const menu = streams.length > 1
      ? h("select", { "aria-label": "Stream", onchange: (event) => this.go({ stream: event.target.value || null, partition: null, model: null }) },
        h("option", { value: "" }, "All streams"), streams.map((each) => h("option", { value: each.name, selected: each.name === this.stream }, each.name)))
      : h("strong", {}, streams[0]?.name ?? "");
    byId("streams").replaceChildren(menu);
  },

  tabs() {
    const shown = VIEWS.filter(({ when }) => !when || when(this.status));
    byId("tabs").replaceChildren(...shown.map(({ name, label }) => h("a", { href: this.link({ tab: name }), "aria-current": name === this.tab ? "page" : null, "data-tab": name, onclick: (event) => this.follow(event) }, label)));
  },

  badges() {
    for (const { name, label, badge } of VIEWS) {
      const n = badge?.(this.status), link = badge && document.querySelector(`[data-tab="${name}"]`);
      if (link && link.dataset.n !== String(n)) {
        link.dataset.n = n;
        link.replaceChildren(label, ...(n ? [h("span", { class: "n" }, count(n))] : []));
      }
    }
  },

  // One sentence over every page, with its state's colour, and what to do about it; beside other pages in one line.
  verdict() {
    const { verdict, now, progress, file_said: file } = this.status, band = byId("verdict");
    const { level, state, said, why, since, cure } = verdict;
    const text = JSON.stringify([verdict, progress, file, this.tab, since && moment(since, now)]);
    band.hidden = false;
    if (text === this.shown) return; // the button keeps the focus
    this.shown = text;
    band.className = `verdict ${level}${this.tab === "overview" ? "" : " slim"}`;
    const more = [...pieces(why, now)];
    if (file) more.push(` The stream file cannot be followed as it is now: ${file}. Start riparian ui again with it.`);
    if (progress !== null) more.push(` Reading the last 7 days: ${percent(progress, 0)}.`);
    band.replaceChildren(h("div", { class: "in" }, h("span", { class: "sign", "aria-hidden": "true" }, SIGN[level]),
      h("div", {}, h("p", { class: "word", "data-sign": SIGN[level] }, state, since ? h("span", {}, ` since ${moment(since, now)}`) : null),
        h("h1", {}, pieces(said, now)), h("p", { class: "why" }, more)),
      cure ? this.cure(cure) : null));
    if (verdict.kind !== this.kind) this.say(`${state}: ${band.querySelector("h1").textContent}`);
    this.kind = verdict.kind;
  },

  cure({ label, tab, command, give }) {
    if (give && this.status.actions) return h("button", { type: "button", class: "cure", onclick: () => ask(this, give, null) }, `${label}…`);
    if (tab) return tab === this.tab ? null : h("a", { class: "cure", href: this.link({ tab }), onclick: (event) => this.follow(event) }, label);
    const copy = async (event) => {
      const button = event.currentTarget;
      await navigator.clipboard?.writeText(command).then(() => { button.textContent = "Copied"; }, () => {});
    };
    return h("div", { class: "command" }, h("code", {}, command), h("button", { type: "button", class: "cure", onclick: copy }, give ? "Copy the command" : label));
  },

  fields() {
    const n = this.status.partitions.length;
    byId("partition-field").hidden = n < 2;
    byId("partition").replaceChildren(h("option", { value: "" }, "all"), ...this.status.partitions.map((row) => h("option", { value: row.partition, selected: row.partition === this.partition }, String(row.partition))));
  },

  // ---------------------------------------------------------------------------------------------

  // An open stream of events is closed while nobody looks: a browser keeps six for all tabs of a server.
  listen() {
    this.events?.close();
    this.events = null;
    if (document.hidden) return;
    const events = new EventSource(`/api/streams/${encodeURIComponent(this.stream)}/live?partition=${this.partition ?? ""}`);
    events.onmessage = (message) => {
      this.lost = null;
      this.status = JSON.parse(message.data);
      this.update();
    };
    events.onerror = () => this.silent();
    this.events = events;
  },

  silent() {
    this.lost ??= Date.now();
    this.pill("lost", `No contact since ${moment(this.lost)}`);
    document.title = `▲ no contact · ${this.stream ?? "Riparian"}`;
    if (!this.status) byId("main").replaceChildren(h("p", { class: "card" }, `No contact with riparian ui since ${moment(this.lost)}. Trying again.`));
    document.body.classList.add("stale");
    if (!this.events || this.events.readyState === EventSource.CLOSED) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => (this.status ? (this.listen(), this.history()) : this.open()), AGAIN_MS);
    }
  },

  pill(kind, text) {
    const pill = byId("pill");
    if (pill.textContent !== text) pill.textContent = text;
    pill.className = `pill ${kind}`;
  },

  update() {
    const { away, progress, now, newest, works, verdict, broker } = this.status;
    if (away) this.pill("lost", `Kafka at ${broker} does not answer since ${moment(away)}`);
    else if (progress !== null) this.pill("", `Loading: ${percent(progress, 0)}`);
    else if (!newest) this.pill("", "Waiting for a worker");
    else if (!works) this.pill("lost", `No worker since ${moment(newest, now)}`);
    else this.pill("live", "Live");
    document.body.classList.toggle("stale", away !== null || (newest > 0 && !works));
    const sign = { drift: "▲ drift · ", nobody: "▲ no worker · ", unread: "▲ not read · ", paused: "paused · ", behind: "behind · ", late: "no labels · " }[verdict.kind] ?? "";
    document.title = away ? `▲ Kafka · ${this.stream}` : `${sign}${this.stream} · Riparian`;
    this.badges();
    this.verdict();
    if (this.status.actions) byId("changes").textContent = "commands from this page need the token";
    this.page?.update();
    const latest = this.status.events.at(-1)?.time;
    if (latest !== this.latest && this.to === null && Date.now() - this.drawn > HISTORY_MS[0]) this.history();
    this.latest = latest;
  },

  async history() {
    clearTimeout(this.timer);
    const page = this.page;
    const to = this.to ?? Date.now();
    const ask = (from) => {
      const query = `from=${Math.round(from)}&to=${Math.round(to)}&partition=${this.partition ?? ""}${this.tab === "models" ? `&pool=${encodeURIComponent(this.model)}` : ""}`;
      return Promise.all([this.get(`/history?${query}&n=${BUCKETS}`), this.get(`/events?${query}`)]);
    };
    const from = this.from ?? Math.max(to - rangeOf(this.range), this.first ?? 0);
    try {
      let [found, happened_] = await ask(from);
      const first = begun(found).from ?? from;
      if (page === this.page && !this.from && first - from > 0.1 * (to - from) && this.status?.progress === null) { // a young stream: the same in finer steps
        this.first = first;
        [found, happened_] = await ask(first);
      }
      if (page === this.page && page) {
        page.history({ ...found, ...(this.from ? {} : begun(found)), series: new Map(found.series.map((each) => [each.name, each])) }, happened_.events);
      }
    } catch { /* the stream of events says so */ }
    // Drawing costs more than all else: as often as the charts move by a step one sees, and when something happens.
    this.drawn = Date.now();
    const often = Math.min(Math.max((to - Math.max(from, this.first ?? 0)) / STEPS, HISTORY_MS[0]), HISTORY_MS[1]);
    if (this.to === null && page === this.page) this.timer = setTimeout(() => (document.hidden ? null : this.history()), often);
  },
};

// ---------------------------------------------------------------------------------------------

const wanted = localStorage.getItem("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
document.documentElement.dataset.theme = wanted;
byId("theme").addEventListener("click", () => {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  localStorage.setItem("theme", theme);
  if (app.status) app.history(); // canvases alone keep the colours of when they were drawn
});
byId("partition").addEventListener("change", (event) => app.go({ partition: event.target.value === "" ? null : Number(event.target.value) }));
addEventListener("popstate", () => app.open());
document.addEventListener("visibilitychange", () => {
  if (!app.status) return;
  app.listen();
  if (!document.hidden) app.history();
});
app.open();

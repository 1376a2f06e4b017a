// Numbers, times and elements. Text from topics becomes text nodes alone, never HTML.

export function h(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "text", "circle", "g", "title", "rect"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const dash = "–";

export function count(value) {
  return value === null || value === undefined ? dash : Math.round(value).toLocaleString("en");
}

export function number(value) {
  if (value === null || value === undefined) return dash;
  if (value === 0) return "0";
  return Math.abs(value) >= 1000 ? count(value) : String(Number(value.toPrecision(3)));
}

// Round values between two, about n: counted, since where numbers lie far apart a step may lead nowhere.
export function nice(low, high, n) {
  const raw = (high - low) / n || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((k) => k * power).find((each) => each >= raw * 0.999);
  const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9), found = [];
  for (let i = 0; i <= last - first; i++) found.push((first + i) * step);
  return found;
}

// As many decimals as tell ticks that are `step` apart from each other.
function decimals(step) {
  for (let n = 0; n < 12; n++) if (Math.abs(step * 10 ** n - Math.round(step * 10 ** n)) < 1e-6 * step * 10 ** n) return n;
  return 12;
}

export function ticked(value, step) {
  const n = decimals(step);
  return value.toLocaleString("en", { minimumFractionDigits: n, maximumFractionDigits: n });
}

export function percent(value, digits = 1) {
  return value === null || value === undefined ? dash : `${(100 * value).toFixed(digits)} %`;
}

// The value of a figure as the server describes it: a share is a percentage.
export const valueText = (value, figure) => (figure.share ? percent(value) : number(value));

// The same with its unit apart, which is written smaller.
export function valueOf(value, figure) {
  const text = valueText(value, figure), at = text.endsWith(" %") ? text.length - 2 : text.length;
  return [text.slice(0, at), at < text.length ? h("span", { class: "unit" }, text.slice(at)) : null];
}

// A difference of two values: of shares in points.
export const change = (value, figure) => (figure.share ? `${Math.abs(100 * value).toFixed(1)} points` : number(Math.abs(value)));

export function bytes(value) {
  if (value === null || value === undefined) return dash;
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (value >= size) return `${(value / size).toPrecision(3)} ${unit}`;
  }
  return `${value} B`;
}

// Seconds, as people say them.
export function span(seconds) {
  if (seconds === null || seconds === undefined) return dash;
  if (seconds < 1) return `${Number((1000 * seconds).toPrecision(3))} ms`;
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= 1.5 * size) return `${Math.round(seconds / size)} ${unit}`;
  }
  return `${seconds < 10 ? Number(seconds.toPrecision(2)) : Math.round(seconds)} s`;
}

export function ago(ms, now) {
  const seconds = Math.max(0, (now - ms) / 1000);
  return seconds < 1.5 ? "just now" : `${span(Math.max(1, Math.round(seconds)))} ago`;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const seconds = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short" });

export function moment(ms, now = Date.now()) {
  const at = new Date(ms);
  return new Date(now).toDateString() === at.toDateString() ? seconds.format(at) : `${day.format(at)} ${clock.format(at)}`;
}

export function tick(ms, width) {
  const at = new Date(ms);
  if (width >= 86400e3 || (at.getHours() === 0 && at.getMinutes() === 0)) return day.format(at);
  return width < 60e3 ? seconds.format(at) : clock.format(at);
}

// A verdict is a list of pieces of text and times.
export function pieces(said, now) {
  return said.map((piece) => ("since" in piece ? h("strong", {}, moment(piece.since, now)) : document.createTextNode(piece.text)));
}

// Colour and dashes of a model, by the number that the server gives its name; of more than eight by both.
const DASHES = [[], [10, 3], [6, 3], [14, 3, 3, 3], [4, 2], [18, 3], [8, 2, 2, 2], [3, 2]];
export const style = (look) => ({ colour: `--m${look % 8}`, dash: DASHES[(look + Math.floor(look / 8)) % 8] });

// What stands for a line in words beside it.
export function keyOf({ colour: name, dash: dashes = [] }) {
  const key = h("span", { class: "key" });
  key.style.borderColor = `var(${name})`;
  key.style.borderTopStyle = dashes.length ? (dashes[0] < 5 ? "dotted" : "dashed") : "solid";
  return key;
}

// What a variable's colour is now, as a canvas takes it.
const COLOURS = new Map(), probe = document.body.appendChild(h("span", { hidden: true }));
export function colour(name) {
  const key = `${document.documentElement.dataset.theme} ${name}`;
  if (!COLOURS.has(key)) {
    probe.style.color = `var(${name})`;
    COLOURS.set(key, getComputedStyle(probe).color);
  }
  return COLOURS.get(key);
}

export const SIGNS = {
  drift: ["◆", "drift", "drift"],
  warning: ["◇", "warning", "warning"],
  improvement: ["▲", "improvement", "improvement"],
  "replace-started": ["◆", "drift", "drift, fresh model on trial"],
  replaced: ["⟳", "change", "replaced"],
  dropped: ["◌", "slate", "fresh model dropped"],
  reset: ["↺", "drift", "drift, model begun anew"],
  assigned: ["●", "slate", "assigned"],
  applied: ["★", "change", "command"],
  refused: ["✗", "slate", "command refused"],
  proposed: ["☆", "change", "promotion proposed"],
};

export const signalOf = (event) => (event.model ? `${event.signal === "prediction" ? "predictions" : "errors"} of ${event.model}` : event.signal);

// A value of what an event is about: of shares and of the errors of classes a percentage.
export const measured = (event, value, task, digits = 1) => (event.shift || (event.signal === "error" && task === "classification") ? percent(value, digits) : number(value));

export function worded(event, task) {
  const near = percent(event.before ?? 0, 0) === percent(event.after ?? 0, 0) ? 1 : 0; // "7 % → 7 %" says nothing
  const show = (value) => measured(event, value, task, near);
  const values = event.before !== undefined && event.after !== undefined ? `, ${show(event.before)} → ${show(event.after)}` : "";
  const of = signalOf(event);
  if (event.shift) return `${event.detector}: ${of} are distributed otherwise${values}`;
  switch (event.kind) {
    case "assigned": return `partition ${event.partition} given to ${event.worker}`;
    case "applied": return `${event.by || "a rule"}: ${event.action}: ${event.said}`;
    case "proposed": return `${event.by || "a rule"}: ${event.said}`;
    case "refused": return `${event.by || "a rule"}: ${event.action} refused: ${event.said}`;
    case "replaced": return `a fresh model took the place of ${event.model}${values}`;
    case "dropped": return `the fresh model beside ${event.model} was no better${values}`;
    case "improvement": return `${event.detector}: ${of} ${event.after > event.before ? "changed, and did not clearly rise" : "fell"}${values}`;
    case "warning": return `${event.detector}: ${of} near the bound${values}`;
    case "reset": return `${event.detector}: ${of} rose${values}; the model has begun anew`;
    case "replace-started": return `${event.detector}: ${of} rose${values}; a fresh model is on trial`;
    default: return `${event.detector}: ${of} ${event.model ? "rose" : "changed"}${values}`;
  }
}

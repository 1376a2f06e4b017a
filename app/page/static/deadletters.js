// Records that could not be read, why, and another try. Their contents are text of strangers: text nodes alone.

import { send, tokenField } from "./actions.js";
import { card, dialogOf, table } from "./widgets.js";
import { bytes, count, h, moment, percent } from "./format.js";

// Names between backticks as code.
const marked = (text) => text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
const letters = (n) => `${count(n)} letter${n === 1 ? "" : "s"}`;

function outcome({ retried, left, rejected }, verb) {
  const n = Object.values(retried).reduce((a, b) => a + b, 0);
  const why = Object.entries(rejected).map(([reason, m]) => `${reason} ${count(m)}`).join(", ");
  return [h("p", {}, n ? `${letters(n)} ${verb}: ${Object.entries(retried).map(([topic, m]) => `${count(m)} to ${topic}`).join(", ")}.` : `No letter ${verb}.`),
    ...Object.entries(left).map(([hindrance, m]) => h("p", { class: "note" }, `Left: ${letters(m)}, ${hindrance}${hindrance === "rejected still" ? ` (${why})` : ""}.`))];
}

// First what would happen, and only then, by a second button, it does.
function retry(app, title, wanted) {
  const said = h("p", { role: "status", class: "note" }), result = h("div");
  const [tokenLabel, tokenInput] = tokenField();
  const look = h("button", { type: "submit", class: "primary" }, "Say what would happen");
  const go = h("button", { type: "button", hidden: true, onclick: () => run(false) });
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const form = h("form", { onsubmit: (event) => { event.preventDefault(); run(true); } },
    h("p", {}, "Each record is written to the end of its topic once more, where workers read it anew: it is predicted, and learned with its label. A letter is retried once."),
    h("p", { class: "note" }, "The stream file is read anew, too. What it still rejects stays a dead letter: change the file first, and start the workers with it."),
    tokenLabel, h("div", { class: "choices" }, close, look, go));
  const dialog = dialogOf(title, form, said, result);

  async function run(dry) {
    look.disabled = go.disabled = true;
    said.textContent = dry ? "Looking; nothing is written." : "Writing.";
    try {
      for await (const line of send(app, "/deadletters/retry", tokenInput.value, { ...wanted, dry_run: dry })) {
        if (line.progress !== undefined) said.textContent = `${dry ? "Looking" : "Writing"}: ${percent(line.progress, 0)}`;
        if (line.done) {
          const n = Object.values(line.done.retried).reduce((a, b) => a + b, 0);
          said.textContent = dry ? "Nothing is written yet." : "Done.";
          result.replaceChildren(...outcome(line.done, dry ? "would be written again" : "written again"));
          look.hidden = dry && n > 0;
          go.hidden = !dry || !n;
          go.textContent = `Retry ${letters(n)}`;
          if (!go.hidden) setTimeout(() => go.focus());
        }
      }
    } catch (error) {
      said.textContent = String(error.message);
    }
    look.disabled = go.disabled = false;
  }
}

// All of a letter, as it was sent: JSON read and written again would have other numbers, and not all fields.
async function open(app, one) {
  const content = h("pre", { class: "whole", tabindex: 0 }, "…"), about = h("dl", { class: "facts" });
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = dialogOf(`${one.topic}, partition ${one.partition}, offset ${count(one.offset)}`, about,
    h("p", { class: "note" }, "Contents may be personal data, and are anybody's text."), content, h("div", { class: "choices" }, close));
  dialog.classList.add("wide");
  close.focus();
  try {
    const found = await app.get(`/deadletters/${one.home}/${one.at}`);
    const said = (name) => found[name] ?? (`${name}_base64` in found ? `${found[`${name}_base64`]} (base64)` : "none");
    const facts = [["Reason", found.reason], ["Detail", found.detail], ["Key", said("key")], ...Object.entries(found.headers).map(([name, text]) => [name, text ?? "none"]),
      ...(found.value_bytes ? [["Cut off", `it had ${bytes(found.value_bytes)}`]] : [])];
    about.replaceChildren(...facts.flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]));
    content.textContent = said("value");
  } catch (error) {
    content.textContent = String(error.message);
  }
}

export function deadletters(app) {
  const body = h("div"), list = h("div");
  const again = (title, wanted) => h("button", { type: "button", "aria-label": title, onclick: () => retry(app, title, wanted) }, "Retry…");
  let told = null, asked = false;
  async function update() {
    const { actions, n_letters, n_retried } = app.status, now = n_letters + n_retried;
    if (asked || now === told) return;
    asked = true;
    const found = await app.get("/deadletters").catch(() => null); // the stream of events says that nobody answers
    asked = false;
    if (found === null) return;
    told = now;
    const total = found.groups.reduce((a, { n }) => a + n, 0);
    const all = ({ reason, field, means, again: may }) => (may ? again(`Retry ${reason}${field ? ` of ${field}` : ""}`, { reason, field }) : h("span", { class: "note" }, means ? "no retry helps" : ""));
    const rows = found.groups.map((one) => [one.reason, one.field, count(one.n), percent(one.n / total, 0), one.means ? marked(`The record ${one.means}.`) : "", ...(actions ? [all(one)] : [])]);
    body.replaceChildren(rows.length ? table([["Reason"], ["Field"], ["Last 24 h", "r"], ["Share", "r"], ["It means", "wrap"], ...(actions ? [["All of these"]] : [])], rows, "Reasons of the last day")
      : h("p", { class: "empty" }, found.total ? `None in the last 24 h; ${count(found.total)} before.` : "None. All records could be read."));
    if (rows.length && !actions) body.append(h("p", { class: "note" }, "Where the stream file is changed so that they can be read: riparian deadletters retry, or buttons here with riparian ui --actions."));
    const retried = ({ n, n_retried: m, again: may, at, home }) => [m ? `${m === n ? "" : `${count(m)} `}retried` : "",
      may ? again(`Retry the letter ${home}/${at}`, { at: `${home}/${at}` }) : ""];
    const show = (one) => (one.at < 0 ? "" : h("button", { type: "button", "aria-label": `Open the letter ${one.home}/${one.at}`, onclick: () => open(app, one) }, "Open"));
    list.replaceChildren(found.letters.length ? table([["Last"], ["Alike", "r"], ["Topic"], ["Partition", "r"], ["Offset", "r"], ["Reason"], ["Detail", "wrap"], ["Size", "r"], ["Contents"], ...(actions ? [["Again"]] : [])],
      found.letters.map((one) => [moment(one.time), count(one.n), one.topic, String(one.partition), count(one.offset), one.reason, one.detail, bytes(one.size), show(one), ...(actions ? [retried(one)] : [])]), "The last dead letters")
      : h("p", { class: "empty" }, "Nothing to show."));
  }
  return {
    elements: [card("Why records were rejected", "last 24 hours", body), card("The last ones", "equal ones are one row, of the newest not retried", list)], history() {}, update,
  };
}

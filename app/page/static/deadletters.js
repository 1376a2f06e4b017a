// Records that could not be read, why, and another try. Their contents are text of strangers: text nodes alone.

import { send, tokenField } from "./actions.js";
import { card, dialogOf, table } from "./widgets.js";
import { bytes, count, h, moment, percent } from "./format.js";

const MEANINGS = {
  "not-json": "no JSON, or no object", "missing-id": "it has no id", "wrong-type": "a field has another type than the stream file says",
  "unknown-value": "a nominal value that the stream file does not list", "wrong-label": "the label is none", tombstone: "neither key nor value",
  "too-long": "longer than the stream file allows",
};

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

export function deadletters(app) {
  const body = h("div"), list = h("div");
  let opened = false;
  const again = (title, wanted) => h("button", { type: "button", "aria-label": title, onclick: () => retry(app, title, wanted) }, "Retry…");
  async function read() {
    const found = await app.get("/deadletters");
    const { actions } = app.status, total = Object.values(found.reasons).reduce((a, b) => a + b, 0);
    const rows = Object.entries(found.reasons).map(([reason, n]) => [reason, count(n), percent(n / total, 0), MEANINGS[reason] ?? "", ...(actions ? [again(`Retry ${reason}`, { reason })] : [])]);
    body.replaceChildren(rows.length ? table([["Reason"], ["Last 24 h", "r"], ["Share", "r"], ["It means"], ...(actions ? [["All of this reason"]] : [])], rows, "Reasons of the last day")
      : h("p", { class: "empty" }, found.total ? `None in the last 24 h; ${count(found.total)} before.` : "None. All records could be read."));
    if (rows.length && !actions) body.append(h("p", { class: "note" }, "Where the stream file is changed so that they can be read: riparian deadletters retry, or buttons here with riparian ui --actions."));
    const show = h("button", { type: "button", "aria-pressed": String(opened), onclick: () => { opened = !opened; read(); } }, opened ? "Hide the contents" : "Show the contents");
    const retried = (one) => (one.retried ? "retried" : one.at < 0 || !actions ? "" : again(`Retry the letter ${one.home}/${one.at}`, { at: `${one.home}/${one.at}` }));
    list.replaceChildren(...(found.letters.length ? [h("p", {}, show, h("span", { class: "note" }, " Contents may be personal data, and are anybody's text.")),
      table([["When"], ["Topic"], ["Partition", "r"], ["Offset", "r"], ["Reason"], ["Detail"], ["Size", "r"], ["Again"], ...(opened ? [["Begins with"]] : [])],
        found.letters.map((one) => [moment(one.time), one.topic, String(one.partition), count(one.offset), one.reason, one.detail, bytes(one.size), retried(one), ...(opened ? [one.value] : [])]), "The last dead letters")]
      : [h("p", { class: "empty" }, "Nothing to show.")]));
  }
  read();
  let told = app.status.n_retried + app.status.n_letters;
  return {
    elements: [card("Why records were rejected", "last 24 hours", body), card("The last 100", null, list)], history() {},
    update() {
      const now = app.status.n_retried + app.status.n_letters;
      if (now !== told) { told = now; read(); }
    },
  };
}

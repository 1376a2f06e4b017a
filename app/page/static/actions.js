// Buttons that give commands to a stream, where the server allows them. The token is kept by this page alone, until it is closed.

import { card, dialogOf, field, table } from "./widgets.js";
import { judgement } from "./judgement.js";
import { lines } from "./lines.js";
import { count, h } from "./format.js";

const WORDS = {
  promote: (model) => [`Promote ${model}`, `${model} becomes the champion, and the champion a challenger. Both keep what they have learned. Undo it by “Undo the promotion”.`],
  demote: () => ["Undo the promotion", "The champion of before becomes the champion again."],
  pause: () => ["Pause predictions", "Predictions go on coming as records, but without a value. Models go on learning and being scored. Undo it by “Resume predictions”."],
  resume: () => ["Resume predictions", "Predictions have their values again."],
  freeze: (model) => [`Freeze ${model}`, `${model} goes on predicting, and learns no more until it is thawed.`],
  thaw: (model) => [`Thaw ${model}`, `${model} learns again.`],
  reset: (model) => [`Reset ${model}`, `A new model takes the place of ${model}, and what it has learned is gone. This cannot be undone while the stream runs.`],
};
let token = "", by = "";

export const tokenField = () => field("Token, printed when riparian ui started", { type: "password", required: true, autocomplete: "off", value: token });

// Sends what needs the token, and yields the lines of the answer; an error becomes one of ours.
export async function* send(app, path, given, body) {
  token = given;
  const answer = await fetch(`/api/streams/${encodeURIComponent(app.stream)}${path}`, {
    method: "POST", headers: { "Content-Type": "application/json", "X-Riparian-Token": token }, body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(await answer.text());
  for await (const line of lines(answer)) {
    if (line.error) throw new Error(line.error);
    yield line;
  }
}

// A dialog that asks for what a command needs, gives it, and shows the answers.
export function ask(app, command, model) {
  const [title, text] = WORDS[command](model);
  const said = h("p", { role: "status", class: "note" }), answers = h("div", { class: "answers" }), judged = h("div");
  const { shared } = app.status.steered;
  if (command === "promote") judgement(app, model).then((words) => judged.replaceChildren(...words)).catch(() => {}); // the dialog does without
  const [tokenLabel, tokenInput] = tokenField();
  const [byLabel, byInput] = field("Who you are, for the timeline", { type: "text", maxlength: 200, value: by });
  const [nameLabel, nameInput] = field(`Type ${app.stream} to go on`, { type: "text", required: command === "reset", autocomplete: "off" });
  const go = h("button", { type: "submit", class: command === "reset" ? "danger" : "primary" }, title);
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const form = h("form", { onsubmit: (event) => { event.preventDefault(); give(); } },
    h("p", {}, text), judged, h("p", { class: "note" }, shared ? "All partitions learn one model: it is told to them together, and takes effect before each one's next prediction." : "It goes to every partition, and takes effect before its next prediction."),
    command === "reset" ? nameLabel : null, byLabel, tokenLabel, h("div", { class: "choices" }, close, go));
  const dialog = dialogOf(title, form, said, answers);

  async function give() {
    by = byInput.value;
    go.disabled = true;
    said.textContent = "Asked for; waiting for the partitions.";
    const rows = [];
    const body = { command, by, ...(model === null ? {} : { model }), ...(command === "reset" ? { stream: nameInput.value } : {}) };
    try {
      for await (const line of send(app, "/commands", tokenInput.value, body)) {
        if (line.answer) {
          rows.push([shared ? "all" : String(line.answer.partition), line.answer.event, count(line.answer.offset), line.answer.sentence]);
          answers.replaceChildren(table([["Partition"], ["Answer"], ["From offset", "r"], ["It says"]], rows, "Answers"));
        }
        if (line.done) {
          const { silent } = line.done;
          said.textContent = silent.length ? `No answer yet${shared ? "" : ` from partition ${silent.join(", ")}`}: it takes effect there before the next prediction.` : shared ? "The partitions have answered." : "All partitions have answered.";
        }
      }
    } catch (error) {
      said.textContent = String(error.message);
      go.disabled = false;
    }
  }
}

// The card with the buttons; null where there are none. Made anew only where the models are others: buttons keep the focus.
export function steering(app) {
  if (!app.status.actions) return null;
  const body = h("div");
  let shown = null;
  const button = (command, model) => h("button", { type: "button", onclick: () => ask(app, command, model) }, `${WORDS[command](model)[0]}…`);
  return {
    element: card("Steering", "promote, freeze, reset, pause", body),
    update() {
      const roles = app.status.models.map((model) => model.role), { frozen, partitions, paused, running, before, told } = app.status.steered, now = JSON.stringify([app.status.control, roles, app.status.steered]);
      if (now === shown) return;
      shown = now;
      if (!app.status.control) {
        body.replaceChildren(h("p", { class: "empty" }, "This stream takes no commands: write control: true in its stream file, and start its workers with it."));
        return;
      }
      body.replaceChildren(table([["Model"], ["Commands"]], roles.map((role) => [role, h("div", { class: "choices" },
        role === "champion" ? (before || !told ? button("demote", null) : null) : button("promote", role), (frozen[role] ?? 0) < partitions || !told ? button("freeze", role) : null,
        frozen[role] || !told ? button("thaw", role) : null, button("reset", role))]), "Commands to models"),
        h("div", { class: "choices" }, running || !told ? button("pause", null) : null, paused || !told ? button("resume", null) : null));
    },
  };
}

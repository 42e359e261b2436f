// Dialogs: one at a time. The focus goes in, stays in, and comes back.

import { state, toast, update } from "../state.js";
import { h } from "../lib/vdom.js";
import { button } from "./small.js";

let opener = null;

/** `dialog`: {title, body(): description, submit, submitWords, grave}. `submit(form)` may fail:
 *  then the dialog stays, and says why. */
export function openDialog(dialog) {
  opener = document.activeElement;
  update({ dialog: { ...dialog, busy: false, error: null } });
}

export function closeDialog() {
  update({ dialog: null });
  const back = opener;
  opener = null;
  // Behind the next drawing: a dialog that is still there would keep the focus.
  requestAnimationFrame(() => requestAnimationFrame(() => back?.isConnected && back.focus()));
}

export function drawnDialog(dialog) {
  if (!dialog) return null;
  return h(
    "dialog",
    { key: "dialog", made: show, "aria-labelledby": "dialog-title", on: { cancel: cancelled, click: besides } },
    h(
      "form",
      { class: "dialog-body", method: "dialog", on: { submit: (event) => submitted(event, dialog) } },
      h("h2", { id: "dialog-title" }, dialog.title),
      dialog.body(),
      dialog.error ? h("p", { class: "door-refused trouble small", role: "alert" }, h("strong", {}, dialog.error.message), dialog.error.remedy ? h("span", {}, dialog.error.remedy) : null) : null,
      h(
        "div",
        { class: "row-end" },
        button("Leave it", closeDialog),
        h("button", { type: "submit", class: `button is-main ${dialog.grave ? "is-grave" : ""}`, disabled: dialog.busy }, dialog.busy ? "One moment …" : dialog.submitWords),
      ),
    ),
  );
}

function show(element) {
  queueMicrotask(() => element.isConnected && element.showModal());
}

function cancelled(event) {
  event.preventDefault();
  closeDialog();
}

function besides(event) {
  if (event.target === event.currentTarget) closeDialog();
}

async function submitted(event, dialog) {
  event.preventDefault();
  if (state.dialog?.busy) return;
  const form = Object.fromEntries(new FormData(event.currentTarget));
  update({ dialog: { ...dialog, busy: true, error: null } });
  try {
    const said = await dialog.submit(form);
    if (state.dialog) closeDialog();
    if (said) toast("good", said);
  } catch (error) {
    if (state.dialog) update({ dialog: { ...dialog, busy: false, error } });
    else toast("bad", error.message, error.remedy);
  }
}

// Modal dialogs, one at a time. Focus returns to the element that opened the dialog.

import { state, toast, update } from "../state.js";
import { h } from "../lib/vdom.js";
import { button } from "./elements.js";

let opener = null;

/** Open a dialog {title, body(), submit, submitLabel, dismissLabel, destructive}. If `submit(form)` fails, the
 *  dialog stays open and shows the error. */
export function openDialog(dialog) {
  opener = document.activeElement;
  update({ dialog: { ...dialog, busy: false, error: null } });
}

export function closeDialog() {
  update({ dialog: null });
  const previous = opener;
  opener = null;
  // After the next render, because an open dialog keeps the focus.
  requestAnimationFrame(() => requestAnimationFrame(() => previous?.isConnected && previous.focus()));
}

export function renderDialog(dialog) {
  if (!dialog) return null;
  return h(
    "dialog",
    { key: "dialog", created: show, "aria-labelledby": "dialog-title", on: { cancel: onCancel, click: onBackdropClick } },
    h(
      "form",
      { class: "dialog-body", method: "dialog", on: { submit: (event) => onSubmit(event, dialog) } },
      h("h2", { id: "dialog-title" }, dialog.title),
      dialog.body(),
      dialog.error ? h("p", { class: "form-error error-panel small", role: "alert" }, h("strong", {}, dialog.error.message), dialog.error.remedy ? h("span", {}, dialog.error.remedy) : null) : null,
      h(
        "div",
        { class: "row-end" },
        button(dialog.dismissLabel ?? "Cancel", closeDialog),
        h("button", { type: "submit", class: `button is-primary ${dialog.destructive ? "is-destructive" : ""}`, disabled: dialog.busy }, dialog.busy ? "Please wait …" : dialog.submitLabel),
      ),
    ),
  );
}

function show(element) {
  queueMicrotask(() => element.isConnected && element.showModal());
}

function onCancel(event) {
  event.preventDefault();
  closeDialog();
}

function onBackdropClick(event) {
  if (event.target === event.currentTarget) closeDialog();
}

async function onSubmit(event, dialog) {
  event.preventDefault();
  if (state.dialog?.busy) return;
  const form = Object.fromEntries(new FormData(event.currentTarget));
  update({ dialog: { ...dialog, busy: true, error: null } });
  try {
    const message = await dialog.submit(form);
    if (state.dialog) closeDialog();
    if (message) toast("good", message);
  } catch (error) {
    if (state.dialog) update({ dialog: { ...dialog, busy: false, error } });
    else toast("bad", error.message, error.remedy);
  }
}

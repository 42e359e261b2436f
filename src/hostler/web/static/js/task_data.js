// Data of the task screen: details, waiting reason and bus messages, kept up to date.

import { api } from "./api.js";
import { openStream } from "./stream.js";
import { state, toast, update } from "./state.js";

const MAX_MESSAGES = 300;
let stream = null;
let reading = null;
let readAgain = false;

/** Open a task and close the previous one. */
export function openTask(id) {
  closeTask();
  update({ task: { id, detail: null, error: null, why: null, bus: null, busError: null, tab: "output", run: "", stream: "log", replyTo: null } });
  refreshTask();
  openBus(id);
}

export function closeTask() {
  stream?.close();
  stream = null;
  if (state.task) update({ task: null });
}

function change(id, changes) {
  if (state.task?.id !== id) return false;
  update({ task: { ...state.task, ...changes } });
  return true;
}

/** Read the task again. Calls during a read cause one more read. */
export async function refreshTask() {
  if (reading) {
    readAgain = true;
    return;
  }
  const id = state.task?.id;
  if (!id) return;
  reading = id;
  try {
    const [detail, why] = await Promise.all([api.task(id), api.why(id).catch(() => null)]);
    change(id, { detail, why, error: null, run: selectRun(detail) });
  } catch (error) {
    change(id, { error });
  }
  reading = null;
  if (readAgain || (state.task && state.task.id !== id)) {
    readAgain = false;
    refreshTask();
  }
}

/** Return the newest run, unless the user selected another one. */
function selectRun(detail) {
  const { run, detail: before } = state.task;
  const newest = (list) => list?.[list.length - 1]?.run ?? "";
  return !run || run === newest(before?.runs) ? newest(detail.runs) : run;
}

async function openBus(id) {
  let messages;
  try {
    messages = (await api.bus(id, { limit: 200 })).messages;
  } catch (error) {
    change(id, { busError: error });
    return;
  }
  if (!change(id, { bus: messages })) return;
  stream = openStream(api.paths.bus(id), {
    after: messages[messages.length - 1]?.id ?? "",
    onEvent: (event) => event.type === "message" && onEvent(id, JSON.parse(event.data)),
  });
}

function onEvent(id, message) {
  const known = state.task?.id === id ? (state.task.bus ?? []) : [];
  if (known.some((one) => one.id === message.id)) return;
  change(id, { bus: [...known, message].slice(-MAX_MESSAGES) });
}

// -- actions ----------------------------------------------------------------------------------

export async function answer(event, task) {
  event.preventDefault();
  const form = event.currentTarget;
  change(task.id, { answering: true, answerError: null });
  try {
    await api.act(task.id, "answer", { text: form.elements.text.value });
    form.reset();
    toast("good", "Answer sent. The task continues.");
  } catch (error) {
    change(task.id, { answerError: error });
  }
  change(task.id, { answering: false });
  refreshTask();
}

export async function postMessage(event) {
  event.preventDefault();
  const form = event.currentTarget;
  const { id, replyTo } = state.task;
  const message = { text: form.elements.text.value, type: form.elements.type.value };
  change(id, { posting: true });
  try {
    onEvent(id, await api.postMessage(id, replyTo ? { ...message, thread: replyTo.thread || replyTo.id } : message));
    form.reset();
    change(id, { replyTo: null });
  } catch (error) {
    toast("bad", error.message, error.remedy);
  }
  change(id, { posting: false });
}

export function reply(message) {
  update({ task: { ...state.task, replyTo: message } });
  document.getElementById("message")?.focus();
}

export const showRun = (run) => update({ task: { ...state.task, run, tab: "output" } });
export const showStream = (stream) => update({ task: { ...state.task, stream } });
export const showTab = (tab) => update({ task: { ...state.task, tab } });

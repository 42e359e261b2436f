// What the page of one task knows: its portrait, why it waits, its bus; and how it stays true.

import { api } from "./api.js";
import { follow } from "./live.js";
import { state, toast, update } from "./state.js";

const MOST_MESSAGES = 300;
let stream = null;
let asking = null;
let again = false;

/** Open the page of a task; leaves the one before. */
export function openTask(id) {
  leaveTask();
  update({ task: { id, detail: null, error: null, why: null, bus: null, busError: null, tab: "output", run: "", stream: "told", replyTo: null } });
  refreshTask();
  openBus(id);
}

export function leaveTask() {
  stream?.close();
  stream = null;
  if (state.task) update({ task: null });
}

function change(id, changes) {
  if (state.task?.id !== id) return false;
  update({ task: { ...state.task, ...changes } });
  return true;
}

/** Read it again; of several wishes at once, the last is enough. */
export async function refreshTask() {
  if (asking) {
    again = true;
    return;
  }
  const id = state.task?.id;
  if (!id) return;
  asking = id;
  try {
    const [detail, why] = await Promise.all([api.task(id), api.why(id).catch(() => null)]);
    change(id, { detail, why, error: null, run: shownRun(detail) });
  } catch (error) {
    change(id, { error });
  }
  asking = null;
  if (again || (state.task && state.task.id !== id)) {
    again = false;
    refreshTask();
  }
}

/** The newest run, as long as nobody chose another one. */
function shownRun(detail) {
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
  stream = follow(api.paths.bus(id), {
    after: messages[messages.length - 1]?.id ?? "",
    heard: (event) => event.type === "message" && heard(id, JSON.parse(event.data)),
  });
}

function heard(id, message) {
  const known = state.task?.id === id ? (state.task.bus ?? []) : [];
  if (known.some((one) => one.id === message.id)) return;
  change(id, { bus: [...known, message].slice(-MOST_MESSAGES) });
}

// -- what people do ---------------------------------------------------------------------------

export async function answer(event, task) {
  event.preventDefault();
  const form = event.currentTarget;
  change(task.id, { answering: true, answerError: null });
  try {
    await api.act(task.id, "answer", { text: form.elements.text.value });
    form.reset();
    toast("good", "It goes on with your answer.");
  } catch (error) {
    change(task.id, { answerError: error });
  }
  change(task.id, { answering: false });
  refreshTask();
}

export async function say(event) {
  event.preventDefault();
  const form = event.currentTarget;
  const { id, replyTo } = state.task;
  const message = { text: form.elements.text.value, type: form.elements.type.value };
  change(id, { saying: true });
  try {
    heard(id, await api.say(id, replyTo ? { ...message, thread: replyTo.thread || replyTo.id } : message));
    form.reset();
    change(id, { replyTo: null });
  } catch (error) {
    toast("bad", error.message, error.remedy);
  }
  change(id, { saying: false });
}

export function reply(message) {
  update({ task: { ...state.task, replyTo: message } });
  document.getElementById("say")?.focus();
}

export const showRun = (run) => update({ task: { ...state.task, run, tab: "output" } });
export const showStream = (stream) => update({ task: { ...state.task, stream } });
export const showTab = (tab) => update({ task: { ...state.task, tab } });

// Entry point: reads the snapshot, follows changes, renders the page, and defines the actions.

import { api } from "./api.js";
import { layout } from "./layout.js";
import { parseTimestamp } from "./lib/format.js";
import { parseRoute } from "./lib/routes.js";
import { addSnapshot, addGap } from "./lib/samples.js";
import { stateInfo, normalizeTask, applyChanges, withLinks } from "./lib/tasks.js";
import { h, render } from "./lib/vdom.js";
import { openStream } from "./stream.js";
import { openDialog } from "./components/dialogs.js";
import { submitDialog } from "./components/submit_dialog.js";
import { announce, setRenderer, state, toast, update } from "./state.js";
import * as page from "./task_data.js";

// Minimum milliseconds between two snapshots.
const MIN_REFRESH_MS = 1000;
// Refresh without events, because agent activity is read from files and causes no commit.
const REFRESH_RUNNING_MS = 10000;
const REFRESH_IDLE_MS = 30000;
const MAX_PAGES = 5;
const PAGE_SIZE = 200;
const MAX_FINISHED_TASKS = 60;

// -- the snapshot -----------------------------------------------------------------------------

let reading = false;
let dirty = false;
let lastRead = 0;
let timer = 0;

function scheduleRefresh() {
  if (reading || document.hidden) {
    dirty = true;
    return;
  }
  clearTimeout(timer);
  timer = setTimeout(refresh, Math.max(0, lastRead + MIN_REFRESH_MS - Date.now()));
}

async function refresh() {
  clearTimeout(timer);
  if (reading) {
    dirty = true;
    return;
  }
  reading = true;
  dirty = false;
  lastRead = Date.now();
  try {
    applySnapshot(await api.status());
  } catch (error) {
    update({ snapshotError: error });
  }
  reading = false;
  if (dirty) scheduleRefresh();
  else timer = setTimeout(scheduleRefresh, state.snapshot?.at_work_total ? REFRESH_RUNNING_MS : REFRESH_IDLE_MS);
}

function applySnapshot(snapshot) {
  const skew = parseTimestamp(snapshot.now) - Date.now();
  announceChanges(state.snapshot, snapshot);
  update({ snapshot, snapshotError: null, skew, now: Date.now() + skew, history: addSnapshot(state.history, snapshot) });
}

/** Announce tasks that newly need attention to screen readers. */
function announceChanges(before, after) {
  if (!before) return;
  const known = new Set(before.needs_person.map((one) => one.task));
  const fresh = after.needs_person.filter((one) => !known.has(one.task));
  if (fresh.length) announce(`Needs you: ${fresh[0].title}${fresh.length > 1 ? ` and ${fresh.length - 1} more` : ""}`);
  else if (before.at_work_total !== after.at_work_total) announce(`${after.at_work_total} running, ${after.queue_total} queued`);
}

// -- tasks ------------------------------------------------------------------------------------

const FINISHED_STATES = ["done", "stopped"];
const OPEN_STATES = ["queued", "running", "retrying", "parked", "awaiting_feedback", "needs_input", "blocked", "failed"];

async function loadTasks() {
  // Changes received while the list is loading are newer than the list.
  loading += 1;
  try {
    await loadConfig();
    const open = await fetchTasks(OPEN_STATES, MAX_PAGES, PAGE_SIZE);
    const finished = await fetchTasks(FINISHED_STATES, 1, MAX_FINISHED_TASKS);
    const tasks = new Map([...open.tasks, ...finished.tasks].map(withTaskLinks).map((task) => [task.id, task]));
    update({ tasks: applyChanges(tasks, changedTasks), tasksError: null, tasksCapped: open.more || finished.more });
  } catch (error) {
    update({ tasksError: error });
  }
  loading -= 1;
  if (!loading) changedTasks = new Map();
}

async function fetchTasks(states, pages, limit) {
  const tasks = [];
  let before = "";
  for (let number = 0; number < pages; number += 1) {
    const found = await api.tasks({ state: states, limit, before });
    tasks.push(...found.tasks);
    if (!found.next) return { tasks, more: false };
    before = found.next;
  }
  return { tasks, more: true };
}

function withTaskLinks(raw) {
  return withLinks(normalizeTask(raw), state.config?.github?.web_url);
}

/** Read the settings once. Without them the page has fewer links and choices. */
async function loadConfig() {
  if (!state.config) update({ config: await api.config().catch(() => null) });
}

/** Changes since the list was requested or last merged. */
let changedTasks = new Map();
let loading = 0;

function onTaskChange(raw) {
  const { id } = raw;
  if (state.task?.id === id) page.refreshTask();
  if (!state.tasks && !loading) return;
  // Copy the list once for changes that arrive together.
  if (!mergeScheduled) queueMicrotask(mergeChanges);
  mergeScheduled = true;
  changedTasks.set(id, raw.deleted ? null : withTaskLinks(raw));
}

let mergeScheduled = false;

function mergeChanges() {
  mergeScheduled = false;
  if (state.tasks) update({ tasks: applyChanges(state.tasks, changedTasks) });
  if (!loading) changedTasks = new Map();
}

// -- the stream -------------------------------------------------------------------------------

let stream = null;

function onEvent({ type, data }) {
  if (type === "task") {
    onTaskChange(JSON.parse(data));
    scheduleRefresh();
  } else if (type === "changed") scheduleRefresh();
  else if (type === "reset") {
    scheduleRefresh();
    if (state.tasks) loadTasks();
    page.refreshTask();
  }
}

function onConnectionChange(connection) {
  const disconnected = connection.state === "live" ? false : state.disconnected || connection.state === "away";
  if (connection.state === "away" && !state.disconnected) {
    announce("Connection lost.");
    update({ history: addGap(state.history, Date.now() + state.skew) });
  }
  if (connection.state === "live" && state.disconnected) announce("Connection restored.");
  update({ connection, disconnected });
  if (connection.state === "live") {
    scheduleRefresh();
    if (state.tasksError) loadTasks();
    if (state.task?.error) page.refreshTask();
    // Fetch what was recorded while the page was disconnected.
    if (state.poolHistory || state.poolHistoryError) loadPoolHistory();
  }
}

// -- actions ----------------------------------------------------------------------------------

const ACTION_DIALOGS = {
  stop: { title: "Stop this task?", text: "Stops the agent and all child tasks. The task stays stopped until you resume or retry it.", label: "Stop task", destructive: true, done: "Task stopped." },
  cancel: { title: "Cancel this task?", text: "Stops the task permanently. It cannot be resumed, only retried from scratch.", label: "Cancel task", dismissLabel: "Keep task", destructive: true, done: "Task cancelled." },
  retry: { title: "Retry this task?", text: "Resets all counters and queues the task again. Its branch and checkout are kept.", label: "Retry task", done: "Task queued again." },
  resume: { title: "Resume this task?", text: "The agent continues in its previous session.", label: "Resume task", done: "Task resumed." },
};

function openActionDialog(task, name) {
  const ask = ACTION_DIALOGS[name];
  openDialog({
    title: ask.title,
    destructive: ask.destructive,
    submitLabel: ask.label,
    dismissLabel: ask.dismissLabel,
    body: () => [
      h("p", {}, h("strong", {}, task.title), h("br", {}), h("span", { class: "soft small" }, stateInfo(task.state).label)),
      h("p", {}, ask.text),
      h("div", { class: "field" }, h("label", { for: "why" }, "Reason (optional)"), h("input", { id: "why", name: "why", maxlength: 1000 })),
    ],
    submit: async ({ why }) => {
      await api.act(task.id, name, { why });
      page.refreshTask();
      scheduleRefresh();
      return ask.done;
    },
  });
}

function setCap(pool) {
  openDialog({
    title: `Cap of ${pool.pool}`,
    submitLabel: "Set cap",
    body: () => h("div", { class: "field" }, h("label", { for: "cap" }, "Maximum agents at once"), h("input", { id: "cap", name: "cap", type: "number", min: 0, max: 1024, required: true, value: pool.max_global_agents }), h("p", { class: "soft tiny" }, "0 uses the value from the settings. Running agents continue.")),
    submit: async ({ cap }) => {
      await api.setCap(pool.pool, Number(cap));
      scheduleRefresh();
      return "Cap set.";
    },
  });
}

function park(pool) {
  openDialog({
    title: `Park ${pool.pool}?`,
    submitLabel: "Park pool",
    body: () => [
      h("p", {}, "No agent starts in this pool until then. Running agents continue."),
      h("div", { class: "fields" }, h("div", { class: "field" }, h("label", { for: "minutes" }, "Minutes"), h("input", { id: "minutes", name: "minutes", type: "number", min: 1, max: 44640, value: 30, required: true })), h("div", { class: "field" }, h("label", { for: "why" }, "Reason (optional)"), h("input", { id: "why", name: "why", maxlength: 1000 }))),
    ],
    submit: async ({ minutes, why }) => {
      await api.park(pool.pool, Number(minutes), why);
      scheduleRefresh();
      return "Pool parked.";
    },
  });
}

async function resumePool(pool) {
  try {
    await api.open(pool.pool);
    toast("good", "Pool reopened.");
  } catch (error) {
    toast("bad", error.message, error.remedy);
  }
  scheduleRefresh();
}

async function submit() {
  openDialog(submitDialog(state));
  if (state.config) return;
  await loadConfig();
  if (state.dialog?.title === "New task" && !state.dialog.busy) update({ dialog: { ...state.dialog, body: submitDialog(state).body } });
}

async function loadFindings() {
  update({ findings: null, findingsError: null });
  try {
    update({ findings: (await api.findings()).findings });
  } catch (error) {
    update({ findingsError: error });
  }
}

/** Read the pool history that the service recorded. */
async function loadPoolHistory() {
  try {
    update({ poolHistory: await api.poolHistory(), poolHistoryError: null });
  } catch (error) {
    update({ poolHistoryError: error });
  }
}

function pause(repo) {
  openDialog({
    title: `Pause ${repo.repo}?`,
    submitLabel: "Pause repository",
    body: () => [
      h("p", {}, "No new task starts on this repository until you unpause it. Running agents continue."),
      h("div", { class: "field" }, h("label", { for: "why" }, "Reason (optional)"), h("input", { id: "why", name: "why", maxlength: 1000 })),
    ],
    submit: async ({ why }) => {
      await api.pause(repo.project, why);
      scheduleRefresh();
      return "Repository paused.";
    },
  });
}

function unpause(repo) {
  openDialog({
    title: `Unpause ${repo.repo}?`,
    submitLabel: "Unpause repository",
    body: () => [h("p", {}, repo.paused), h("p", {}, "Queued tasks can start immediately.")],
    submit: async () => {
      const found = await api.unpause(repo.project);
      scheduleRefresh();
      return found.still_paused?.length ? `Still paused: ${[found.still_paused].flat().join(" ")}` : "Repository unpaused.";
    },
  });
}

const actions = {
  refresh: () => {
    update({ snapshotError: null });
    refresh();
  },
  loadTasks,
  loadFindings,
  openActionDialog,
  setCap,
  park,
  resumePool,
  pause,
  unpause,
  submit,
  openTask: page.openTask,
  answer: page.answer,
  postMessage: page.postMessage,
  reply: page.reply,
  showRun: page.showRun,
  stream: page.showStream,
  tab: page.showTab,
  filter: (changes) => update({ filter: { ...state.filter, ...changes } }),
  more: (name, rows) => update({ more: { ...state.more, [name]: rows } }),
  reconnectNow: () => stream.reconnectNow(),
  toggleTheme: () => {
    globalThis.hostlerTheme.toggle();
    update({});
  },
};

// -- screens ----------------------------------------------------------------------------------

const TITLES = { overview: "Overview", work: "Work", governor: "Governor", health: "Health", task: "Task" };

function onRouteChange(before) {
  const { route } = state;
  if (route.screen === "task") {
    if (state.task?.id !== route.task) page.openTask(route.task);
  } else page.closeTask();
  if (route.screen === "work" && !state.tasks) loadTasks();
  if (route.screen === "health" && !state.findings) loadFindings();
  if (route.screen === "governor") loadPoolHistory();
  if (before && (before.screen !== route.screen || before.task !== route.task)) {
    scrollTo(0, 0);
    announce(TITLES[route.screen]);
  }
}

addEventListener("hashchange", () => {
  // The skip link is not a screen.
  if (location.hash === "#content") {
    document.getElementById("content").focus();
    history.replaceState(null, "", routeHash(state.route));
    return;
  }
  const before = state.route;
  update({ route: parseRoute(location.hash) });
  onRouteChange(before);
});

function routeHash(route) {
  if (route.screen === "task") return `#/task/${encodeURIComponent(route.task)}`;
  return route.view === "graph" ? "#/work/graph" : `#/${route.screen}`;
}

function renderPage() {
  const needsYou = state.snapshot?.needs_person_total;
  const name = state.route.screen === "task" && state.task?.detail ? state.task.detail.title : TITLES[state.route.screen];
  document.title = `${needsYou ? `(${needsYou}) ` : ""}${name} – Hostler`;
  state.theme = globalThis.hostlerTheme.now();
  render(document.getElementById("page"), layout(state, actions));
}

// Advance the displayed times while the page is connected.
setInterval(() => {
  if (document.hidden) return;
  if (state.connection.state === "live") update({ now: Date.now() + state.skew });
  else if (state.connection.state === "away") update({});
}, 1000);

addEventListener("resize", () => update({ width: innerWidth }));

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && dirty) scheduleRefresh();
});

setRenderer(renderPage);
onRouteChange(null);
refresh();
stream = openStream(api.paths.tasks, { onEvent, onState: onConnectionChange });

// The page comes to life: one snapshot, one stream of changes, one drawing per frame.

import { api } from "./api.js";
import { frame } from "./frame.js";
import { moment } from "./lib/format.js";
import { routeOf } from "./lib/routes.js";
import { remember, unseen } from "./lib/samples.js";
import { stateOf, taskOf, withChanges, withPages } from "./lib/tasks.js";
import { h, render } from "./lib/vdom.js";
import { follow } from "./live.js";
import { openDialog } from "./parts/dialogs.js";
import { submitDialog } from "./screens/submit.js";
import { announce, drawWith, state, toast, update } from "./state.js";
import * as page from "./taskpage.js";

// Two snapshots are at least so far apart.
const GAP = 1000;
// Signs of life of agents are files, which no commit tells of.
const BUSY = 10000;
const IDLE = 30000;
const PAGES = 5;
const LISTED = 200;
const OVER_SHOWN = 60;

// -- the snapshot -----------------------------------------------------------------------------

let reading = false;
let dirty = false;
let lastRead = 0;
let timer = 0;

function refreshSoon() {
  if (reading || document.hidden) {
    dirty = true;
    return;
  }
  clearTimeout(timer);
  timer = setTimeout(refresh, Math.max(0, lastRead + GAP - Date.now()));
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
    took(await api.status());
  } catch (error) {
    update({ snapshotError: error });
  }
  reading = false;
  if (dirty) refreshSoon();
  else timer = setTimeout(refreshSoon, state.snapshot?.at_work_total ? BUSY : IDLE);
}

function took(snapshot) {
  const skew = moment(snapshot.now) - Date.now();
  tellChanges(state.snapshot, snapshot);
  update({ snapshot, snapshotError: null, skew, now: Date.now() + skew, history: remember(state.history, snapshot) });
}

/** For those who hear the page: what is new to be done. */
function tellChanges(before, after) {
  if (!before) return;
  const known = new Set(before.needs_person.map((one) => one.task));
  const fresh = after.needs_person.filter((one) => !known.has(one.task));
  if (fresh.length) announce(`Needs you: ${fresh[0].title}${fresh.length > 1 ? ` and ${fresh.length - 1} more` : ""}`);
  else if (before.at_work_total !== after.at_work_total) announce(`${after.at_work_total} at work, ${after.queue_total} waiting`);
}

// -- tasks ------------------------------------------------------------------------------------

const OVER_STATES = ["done", "stopped"];
const OPEN_STATES = ["queued", "running", "retrying", "parked", "awaiting_feedback", "needs_input", "blocked", "failed"];

async function loadTasks() {
  // What changes while the list is on its way is newer than the list.
  loading += 1;
  try {
    await configured();
    const open = await listed(OPEN_STATES, PAGES, LISTED);
    const over = await listed(OVER_STATES, 1, OVER_SHOWN);
    const tasks = new Map([...open.tasks, ...over.tasks].map(listedTask).map((task) => [task.id, task]));
    update({ tasks: withChanges(tasks, changedTasks), tasksError: null, tasksCapped: open.more || over.more });
  } catch (error) {
    update({ tasksError: error });
  }
  loading -= 1;
  if (!loading) changedTasks = new Map();
}

async function listed(states, pages, limit) {
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

function listedTask(raw) {
  return withPages(taskOf(raw), state.config?.github?.web_url);
}

/** The settings, read once. Without them a page only has fewer links and choices. */
async function configured() {
  if (!state.config) update({ config: await api.config().catch(() => null) });
}

/** What changed since the list was asked for, or since it was last drawn. */
let changedTasks = new Map();
let loading = 0;

function taskChanged(raw) {
  const { id } = raw;
  if (state.task?.id === id) page.refreshTask();
  if (!state.tasks && !loading) return;
  // Of many changes in one moment, the list is copied once.
  if (!mergeAsked) queueMicrotask(mergeNow);
  mergeAsked = true;
  changedTasks.set(id, raw.deleted ? null : listedTask(raw));
}

let mergeAsked = false;

function mergeNow() {
  mergeAsked = false;
  if (state.tasks) update({ tasks: withChanges(state.tasks, changedTasks) });
  if (!loading) changedTasks = new Map();
}

// -- the stream -------------------------------------------------------------------------------

let stream = null;

function heard({ type, data }) {
  if (type === "task") {
    taskChanged(JSON.parse(data));
    refreshSoon();
  } else if (type === "changed") refreshSoon();
  else if (type === "reset") {
    refreshSoon();
    if (state.tasks) loadTasks();
    page.refreshTask();
  }
}

function linked(link) {
  const cutOff = link.state === "live" ? false : state.cutOff || link.state === "away";
  if (link.state === "away" && !state.cutOff) {
    announce("The service is away.");
    update({ history: unseen(state.history, Date.now() + state.skew) });
  }
  if (link.state === "live" && state.cutOff) announce("The service is back.");
  update({ link, cutOff });
  if (link.state === "live") {
    refreshSoon();
    if (state.tasksError) loadTasks();
    if (state.task?.error) page.refreshTask();
    // What happened while nobody told us is noted there.
    if (state.past || state.pastError) loadPast();
  }
}

// -- what people do ---------------------------------------------------------------------------

const ASK = {
  stop: { title: "Stop this task?", text: "Its agent is ended, and what came from it is stopped too. Nothing starts again by itself.", words: "Stop it", grave: true, done: "Stopped." },
  cancel: { title: "Cancel this task?", text: "It is stopped for good: only a retry brings it back.", words: "Cancel it", grave: true, done: "Cancelled." },
  retry: { title: "Begin anew?", text: "All counters go back to zero, and it is queued again.", words: "Retry", done: "It is queued again." },
  resume: { title: "Let it go on?", text: "It goes on where it was, in its session.", words: "Resume", done: "It goes on." },
};

function act(task, name) {
  const ask = ASK[name];
  openDialog({
    title: ask.title,
    grave: ask.grave,
    submitWords: ask.words,
    body: () => [
      h("p", {}, h("strong", {}, task.title), h("br", {}), h("span", { class: "soft small" }, stateOf(task.state).word)),
      h("p", {}, ask.text),
      h("div", { class: "field" }, h("label", { for: "why" }, "Why (may stay empty)"), h("input", { id: "why", name: "why", maxlength: 1000 })),
    ],
    submit: async ({ why }) => {
      await api.act(task.id, name, { why });
      page.refreshTask();
      refreshSoon();
      return ask.done;
    },
  });
}

function setCap(pool) {
  openDialog({
    title: `Cap of ${pool.pool}`,
    submitWords: "Set",
    body: () => h("div", { class: "field" }, h("label", { for: "cap" }, "At most so many agents at once"), h("input", { id: "cap", name: "cap", type: "number", min: 0, max: 1024, required: true, value: pool.max_global_agents }), h("p", { class: "soft tiny" }, "0: as the settings say. Agents at work go on.")),
    submit: async ({ cap }) => {
      await api.setCap(pool.pool, Number(cap));
      refreshSoon();
      return "The cap is set.";
    },
  });
}

function park(pool) {
  openDialog({
    title: `Park ${pool.pool}?`,
    submitWords: "Park it",
    body: () => [
      h("p", {}, "Nothing starts in it until then. Agents at work go on."),
      h("div", { class: "fields" }, h("div", { class: "field" }, h("label", { for: "minutes" }, "Minutes"), h("input", { id: "minutes", name: "minutes", type: "number", min: 1, max: 44640, value: 30, required: true })), h("div", { class: "field" }, h("label", { for: "why" }, "Why"), h("input", { id: "why", name: "why", maxlength: 1000 }))),
    ],
    submit: async ({ minutes, why }) => {
      await api.park(pool.pool, Number(minutes), why);
      refreshSoon();
      return "It is parked.";
    },
  });
}

async function openPool(pool) {
  try {
    await api.open(pool.pool);
    toast("good", "It is open.");
  } catch (error) {
    toast("bad", error.message, error.remedy);
  }
  refreshSoon();
}

async function submit() {
  openDialog(submitDialog(state));
  if (state.config) return;
  await configured();
  if (state.dialog?.title === "New task" && !state.dialog.busy) update({ dialog: { ...state.dialog, body: submitDialog(state).body } });
}

async function examine() {
  update({ findings: null, findingsError: null });
  try {
    update({ findings: (await api.findings()).findings });
  } catch (error) {
    update({ findingsError: error });
  }
}

/** What the service has noted of pools. */
async function loadPast() {
  try {
    update({ past: await api.poolHistory(), pastError: null });
  } catch (error) {
    update({ pastError: error });
  }
}

function pause(repo) {
  openDialog({
    title: `Pause ${repo.repo}?`,
    submitWords: "Pause it",
    body: () => [
      h("p", {}, "Nothing new starts on it until somebody lets it go on. Agents at work go on."),
      h("div", { class: "field" }, h("label", { for: "why" }, "Why (may stay empty)"), h("input", { id: "why", name: "why", maxlength: 1000 })),
    ],
    submit: async ({ why }) => {
      await api.pause(repo.project, why);
      refreshSoon();
      return "It is paused.";
    },
  });
}

function unpause(repo) {
  openDialog({
    title: `Let ${repo.repo} go on?`,
    submitWords: "Let it go on",
    body: () => [h("p", {}, repo.paused), h("p", {}, "What waits on it may start at once.")],
    submit: async () => {
      const found = await api.unpause(repo.project);
      refreshSoon();
      return found.still_paused ? `It still waits: ${found.still_paused}` : "It goes on.";
    },
  });
}

const acts = {
  refresh: () => {
    update({ snapshotError: null });
    refresh();
  },
  loadTasks,
  examine,
  act,
  setCap,
  park,
  openPool,
  pause,
  unpause,
  submit,
  openTask: page.openTask,
  answer: page.answer,
  say: page.say,
  reply: page.reply,
  showRun: page.showRun,
  stream: page.showStream,
  tab: page.showTab,
  filter: (changes) => update({ filter: { ...state.filter, ...changes } }),
  more: (name, rows) => update({ more: { ...state.more, [name]: rows } }),
  tryNow: () => stream.now(),
  turnTheme: () => {
    globalThis.hostlerTheme.turn();
    update({});
  },
};

// -- screens ----------------------------------------------------------------------------------

const TITLES = { stable: "Stable", work: "Work", governor: "Governor", health: "Health", task: "Task" };

function entered(before) {
  const { route } = state;
  if (route.screen === "task") {
    if (state.task?.id !== route.task) page.openTask(route.task);
  } else page.leaveTask();
  if (route.screen === "work" && !state.tasks) loadTasks();
  if (route.screen === "health" && !state.findings) examine();
  if (route.screen === "governor") loadPast();
  if (before && (before.screen !== route.screen || before.task !== route.task)) {
    scrollTo(0, 0);
    announce(TITLES[route.screen]);
  }
}

addEventListener("hashchange", () => {
  // The link past the head is no screen.
  if (location.hash === "#room") {
    document.getElementById("room").focus();
    history.replaceState(null, "", addressOf(state.route));
    return;
  }
  const before = state.route;
  update({ route: routeOf(location.hash) });
  entered(before);
});

function addressOf(route) {
  if (route.screen === "task") return `#/task/${encodeURIComponent(route.task)}`;
  return route.view === "graph" ? "#/work/graph" : `#/${route.screen}`;
}

function draw() {
  const needy = state.snapshot?.needs_person_total;
  const name = state.route.screen === "task" && state.task?.detail ? state.task.detail.title : TITLES[state.route.screen];
  document.title = `${needy ? `(${needy}) ` : ""}${name} – Hostler`;
  state.theme = globalThis.hostlerTheme.now();
  render(document.getElementById("page"), frame(state, acts));
}

// Clocks go on while what they measure does.
setInterval(() => {
  if (document.hidden) return;
  if (state.link.state === "live") update({ now: Date.now() + state.skew });
  else if (state.link.state === "away") update({});
}, 1000);

addEventListener("resize", () => update({ width: innerWidth }));

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && dirty) refreshSoon();
});

drawWith(draw);
entered(null);
refresh();
stream = follow(api.paths.tasks, { heard, changed: linked });

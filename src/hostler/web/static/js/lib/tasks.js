// Normalise tasks of the API; their states, board columns, available actions and dependencies.

import { timeUntil, timeOfDay } from "./format.js";

const FINISHED = new Set(["done", "stopped", "failed"]);

/** Label, tone and board column of each task state. */
export const STATES = {
  queued: { label: "queued", tone: "wait", column: "queued" },
  retrying: { label: "retrying", tone: "wait", column: "queued" },
  parked: { label: "parked", tone: "wait", column: "queued" },
  running: { label: "running", tone: "work", column: "running" },
  needs_input: { label: "needs input", tone: "ask", column: "person" },
  blocked: { label: "blocked", tone: "bad", column: "person" },
  failed: { label: "failed", tone: "bad", column: "person" },
  awaiting_feedback: { label: "in review", tone: "review", column: "review" },
  done: { label: "done", tone: "good", column: "done" },
  stopped: { label: "stopped", tone: "idle", column: "done" },
};

export const COLUMNS = [
  { name: "queued", title: "Queued", none: "The queue is empty." },
  { name: "running", title: "Running", none: "No agent is running." },
  { name: "person", title: "Needs you", none: "Nothing needs you." },
  { name: "review", title: "In review", none: "No pull request is in review." },
  { name: "done", title: "Done", none: "No finished tasks yet." },
];

/** Return when a queued task starts as text; empty if it is not known. */
export function startText(raw, now) {
  if (raw?.would_start) return "now";
  if (!raw?.starts_at) return "";
  const text = timeUntil(raw.starts_at, now);
  return raw.starts_about ? text.replace("in ", "in about ") : `${text} (${timeOfDay(raw.starts_at, now)})`;
}

export function stateInfo(name) {
  return STATES[name] ?? { label: String(name ?? "unknown").replaceAll("_", " "), tone: "idle", column: "queued" };
}

/** Convert a task of the list, the snapshot, a live event or the details to one shape. */
export function normalizeTask(raw) {
  return {
    id: raw.task ?? raw.id,
    title: raw.title || raw.task || raw.id,
    project: raw.project ?? "",
    repo: raw.repo ?? raw.repo_full_name ?? null,
    issue: raw.issue ?? raw.issue_number ?? null,
    issueUrl: raw.issue_url ?? null,
    pull: raw.pull ?? raw.pr_number ?? null,
    pullUrl: raw.pull_url ?? null,
    flow: raw.flow ?? "",
    state: raw.state ?? "",
    since: raw.state_since ?? raw.since ?? null,
    needs: raw.depends_on ?? [],
    parent: raw.parent_task ?? null,
    attempt: raw.attempt ?? null,
    gate: raw.gate ?? null,
    agent: raw.agent ?? "",
    created: raw.created_at ?? null,
  };
}

/** Add the URLs of the issue and pull request if only their numbers are known. */
export function withLinks(task, web) {
  const page = (kind, number) => (web && task.repo && number ? `${web.replace(/\/+$/, "")}/${task.repo}/${kind}/${number}` : null);
  return { ...task, issueUrl: task.issueUrl ?? page("issues", task.issue), pullUrl: task.pullUrl ?? page("pull", task.pull) };
}

/** Apply changes to tasks; null removes a task. */
export function applyChanges(tasks, changes) {
  const all = new Map(tasks);
  for (const [id, one] of changes) {
    if (one) all.set(id, { ...all.get(id), ...one });
    else all.delete(id);
  }
  return all;
}

/** Return where a task comes from: "octo/stable#12", or its project. */
export function origin(task) {
  if (!task.repo) return task.project;
  return task.issue ? `${task.repo}#${task.issue}` : task.repo;
}

/** Return the actions that a task in this state allows. */
export function availableActions(state, { byHand = true } = {}) {
  const allowed = [];
  if (state === "needs_input" && byHand) allowed.push("answer");
  if (["stopped", "needs_input", "parked", "blocked"].includes(state)) allowed.push("resume");
  if (["failed", "stopped", "blocked", "needs_input"].includes(state)) allowed.push("retry");
  if (!FINISHED.has(state)) allowed.push("stop", "cancel");
  return allowed;
}

const RUN_LABELS = { admitted: "starting", starting: "starting", running: "running", exited: "finishing", finishing: "finishing" };

/** Return the label of a run's state. */
export function runLabel(state) {
  return RUN_LABELS[state] ?? String(state ?? "").replaceAll("_", " ");
}

/** Group tasks by column: first in queue order, then newest first. */
export function board(tasks, queue = []) {
  const position = new Map(queue.map((one, at) => [one.task, at]));
  const columns = Object.fromEntries(COLUMNS.map((column) => [column.name, []]));
  for (const task of tasks) columns[stateInfo(task.state).column].push(task);
  const newest = (a, b) => (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
  const first = (task) => position.get(task.id) ?? Infinity;
  for (const list of Object.values(columns)) {
    list.sort((a, b) => (first(a) === first(b) ? newest(a, b) : first(a) - first(b)));
  }
  return columns;
}

/** Return the tasks that contain a text and belong to a project. */
export function filterTasks(tasks, { text = "", project = "" } = {}) {
  const wanted = text.trim().toLowerCase();
  return tasks.filter(
    (task) =>
      (!project || task.project === project) &&
      (!wanted || `${task.title} ${origin(task)} ${task.id} ${task.agent}`.toLowerCase().includes(wanted)),
  );
}

/** Return the dependency and parent graph: {nodes: [id], edges, externals: Map id → name}.
 *  A dependency that is not a known task is an external node. */
export function buildGraph(tasks) {
  const known = new Map(tasks.map((task) => [task.id, task]));
  // An issue with several tasks stands for its newest task.
  const byIssue = new Map([...tasks].sort((a, b) => (a.id < b.id ? -1 : 1)).map((task) => [origin(task), task.id]));
  const externals = new Map();
  const edges = [];
  for (const task of tasks) {
    for (const need of task.needs) edges.push({ from: resolveNeed(need, known, byIssue, externals), to: task.id, kind: "needs" });
    if (task.parent && known.has(task.parent)) edges.push({ from: task.parent, to: task.id, kind: "child" });
  }
  return { nodes: [...known.keys(), ...externals.keys()], edges, externals };
}

function resolveNeed(need, known, byIssue, externals) {
  if (known.has(need)) return need;
  if (byIssue.has(need)) return byIssue.get(need);
  const id = `? ${need}`;
  externals.set(id, need);
  return id;
}

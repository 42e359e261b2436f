// The API's shapes of tasks as one, the columns of the board, and what may be done with a task.

import { ahead, clock } from "./format.js";

const OVER = new Set(["done", "stopped", "failed"]);

/** A state in words, how it looks, and in which column it stands. */
export const STATES = {
  queued: { word: "waiting", tone: "wait", column: "waiting" },
  retrying: { word: "tried again soon", tone: "wait", column: "waiting" },
  parked: { word: "parked", tone: "wait", column: "waiting" },
  running: { word: "at work", tone: "work", column: "running" },
  needs_input: { word: "asks you", tone: "ask", column: "person" },
  blocked: { word: "blocked", tone: "bad", column: "person" },
  failed: { word: "failed", tone: "bad", column: "person" },
  awaiting_feedback: { word: "in review", tone: "review", column: "review" },
  done: { word: "done", tone: "good", column: "over" },
  stopped: { word: "stopped", tone: "idle", column: "over" },
};

export const COLUMNS = [
  { name: "waiting", title: "Waiting", none: "Nothing waits for a place." },
  { name: "running", title: "At work", none: "No agent is at work." },
  { name: "person", title: "Needs you", none: "Nothing is blocked on a person." },
  { name: "review", title: "In review", none: "No pull request waits for review." },
  { name: "over", title: "Over", none: "Nothing has ended yet." },
];

/** When a task of the queue starts, in words; empty: nothing is known of it. */
export function startWords(raw, now) {
  if (raw?.would_start) return "now";
  if (!raw?.starts_at) return "";
  const words = ahead(raw.starts_at, now);
  return raw.starts_about ? words.replace("in ", "in about ") : `${words} (${clock(raw.starts_at, now)})`;
}

export function stateOf(name) {
  return STATES[name] ?? { word: String(name ?? "unknown").replaceAll("_", " "), tone: "idle", column: "waiting" };
}

/** One shape for what the list, the snapshot, a live event and a task's own page say. */
export function taskOf(raw) {
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

/** A task with the pages of its issue and pull request, where only their numbers were told. */
export function withPages(task, web) {
  const page = (kind, number) => (web && task.repo && number ? `${web.replace(/\/+$/, "")}/${task.repo}/${kind}/${number}` : null);
  return { ...task, issueUrl: task.issueUrl ?? page("issues", task.issue), pullUrl: task.pullUrl ?? page("pull", task.pull) };
}

/** Tasks with what has changed; a change to null is a task that is gone. */
export function withChanges(tasks, changes) {
  const all = new Map(tasks);
  for (const [id, one] of changes) {
    if (one) all.set(id, { ...all.get(id), ...one });
    else all.delete(id);
  }
  return all;
}

/** Where a task comes from: "octo/stable#12", or its project. */
export function origin(task) {
  if (!task.repo) return task.project;
  return task.issue ? `${task.repo}#${task.issue}` : task.repo;
}

/** What a person can do with a task in this state. */
export function actions(state, { byHand = true } = {}) {
  const may = [];
  if (state === "needs_input" && byHand) may.push("answer");
  if (["stopped", "needs_input", "parked", "blocked"].includes(state)) may.push("resume");
  if (["failed", "stopped", "blocked", "needs_input"].includes(state)) may.push("retry");
  if (!OVER.has(state)) may.push("stop", "cancel");
  return may;
}

const RUN_WORDS = { admitted: "starting", starting: "starting", running: "at work", exited: "finishing", finishing: "finishing" };

/** The state of a run in words. */
export function runWord(state) {
  return RUN_WORDS[state] ?? String(state ?? "").replaceAll("_", " ");
}

/** Tasks by column. Within one: as the queue has them, then newest first. */
export function board(tasks, queue = []) {
  const place = new Map(queue.map((one, at) => [one.task, at]));
  const columns = Object.fromEntries(COLUMNS.map((column) => [column.name, []]));
  for (const task of tasks) columns[stateOf(task.state).column].push(task);
  const newest = (a, b) => (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);
  const first = (task) => place.get(task.id) ?? Infinity;
  for (const list of Object.values(columns)) {
    list.sort((a, b) => (first(a) === first(b) ? newest(a, b) : first(a) - first(b)));
  }
  return columns;
}

/** Those in which a word stands, and of one project. */
export function filtered(tasks, { word = "", project = "" } = {}) {
  const wanted = word.trim().toLowerCase();
  return tasks.filter(
    (task) =>
      (!project || task.project === project) &&
      (!wanted || `${task.title} ${origin(task)} ${task.id} ${task.agent}`.toLowerCase().includes(wanted)),
  );
}

/** Who waits for whom, and who came from whom: {nodes: [id], edges, strangers: Map id → name}.
 *  A need that names no task that we know is a stranger. */
export function graphOf(tasks) {
  const known = new Map(tasks.map((task) => [task.id, task]));
  // Of several tasks of one issue, the newest is meant.
  const byIssue = new Map([...tasks].sort((a, b) => (a.id < b.id ? -1 : 1)).map((task) => [origin(task), task.id]));
  const strangers = new Map();
  const edges = [];
  for (const task of tasks) {
    for (const need of task.needs) edges.push({ from: met(need, known, byIssue, strangers), to: task.id, kind: "needs" });
    if (task.parent && known.has(task.parent)) edges.push({ from: task.parent, to: task.id, kind: "child" });
  }
  return { nodes: [...known.keys(), ...strangers.keys()], edges, strangers };
}

function met(need, known, byIssue, strangers) {
  if (known.has(need)) return need;
  if (byIssue.has(need)) return byIssue.get(need);
  const id = `? ${need}`;
  strangers.set(id, need);
  return id;
}

import { availableActions, board, COLUMNS, filterTasks, buildGraph, runLabel, startText, STATES, stateInfo, normalizeTask, applyChanges, withLinks } from "/static/js/lib/tasks.js";
import { timeline } from "/static/js/lib/timeline.js";
import { equal, holds, test } from "./harness.js";
export { run } from "./harness.js";

const brief = (id, more = {}) => normalizeTask({ id, title: id, project: "p", state: "queued", repo_full_name: "o/r", issue_number: 1, ...more });

test("tasks of the snapshot and of the list have the same shape", () => {
  const short = normalizeTask({ task: "t", repo: "o/r", issue: 3, pull: 4, issue_url: "https://x/1", title: "T", project: "p", state: "done" });
  const long = normalizeTask({ id: "t", repo_full_name: "o/r", issue_number: 3, pr_number: 4, issue_url: "https://x/1", title: "T", project: "p", state: "done" });
  equal(short, long);
});

test("a task without a title shows its id", () => equal(normalizeTask({ id: "t", title: "" }).title, "t"));

test("every state has a label and a column, also unknown ones", () => {
  const names = COLUMNS.map((one) => one.name);
  for (const name of [...Object.keys(STATES), "odd_new_state", undefined]) holds(names.includes(stateInfo(name).column) && stateInfo(name).label, String(name));
  equal(stateInfo("odd_new_state").label, "odd new state");
});

test("every task is on the board once: the queue in its order, others newest first", () => {
  const tasks = [brief("1"), brief("2"), brief("3"), brief("4", { state: "done" }), brief("5", { state: "done" }), brief("6", { state: "odd" })];
  const columns = board(tasks, [{ task: "2" }, { task: "1" }]);
  equal(columns.queued.map((one) => one.id), ["2", "1", "6", "3"]);
  equal(columns.done.map((one) => one.id), ["5", "4"]);
  equal(Object.values(columns).flat().length, tasks.length);
});

test("start times show whether they are estimates, and unknown ones are empty", () => {
  const now = Date.parse("2026-03-01T12:00:00.000Z");
  const at = "2026-03-01T12:06:00.000Z";
  equal(startText({ would_start: true }, now), "now");
  equal(startText({ starts_at: at, starts_about: true }, now), "in about 6m");
  holds(startText({ starts_at: at, starts_about: false }, now).startsWith("in 6m ("));
  equal(startText({ starts_at: null, until: at }, now), "");
  equal(startText(undefined, now), "");
});

test("text and project filter tasks", () => {
  const tasks = [brief("1", { title: "Leap years" }), brief("2", { project: "q" })];
  equal(filterTasks(tasks, { text: " LEAP " }).map((one) => one.id), ["1"]);
  equal(filterTasks(tasks, { project: "q" }).map((one) => one.id), ["2"]);
  equal(filterTasks(tasks, { text: "o/r#1" }).length, 2);
});

test("dependencies are task ids or issues; an issue stands for its newest task; unknown ones are external nodes", () => {
  const tasks = [brief("1"), brief("2"), brief("3", { issue_number: 9, depends_on: ["o/r#1", "1", "x/y#5"], parent_task: "2" })];
  const found = buildGraph(tasks);
  equal(found.edges.map((one) => [one.from, one.to, one.kind]), [["2", "3", "needs"], ["1", "3", "needs"], ["? x/y#5", "3", "needs"], ["2", "3", "child"]]);
  equal([...found.externals.values()], ["x/y#5"]);
});

test("run states have labels, also unknown ones", () => equal(["admitted", "running", "odd_one"].map(runLabel), ["starting", "running", "odd one"]));

test("available actions follow the state", () => {
  equal(availableActions("running"), ["stop", "cancel"]);
  equal(availableActions("done"), []);
  equal(availableActions("failed"), ["retry"]);
  equal(availableActions("stopped"), ["resume", "retry"]);
  equal(availableActions("needs_input"), ["answer", "resume", "retry", "stop", "cancel"]);
  equal(availableActions("needs_input", { byHand: false }).includes("answer"), false);
  equal(availableActions("parked"), ["resume", "stop", "cancel"]);
});

test("missing links are built from numbers", () => {
  equal(withLinks(brief("1", { pr_number: 7 }), "https://g/").pullUrl, "https://g/o/r/pull/7");
  equal(withLinks(brief("1", { issue_url: "https://other/1" }), "https://g").issueUrl, "https://other/1");
  equal(withLinks(brief("1", { repo_full_name: null }), "https://g").issueUrl, null);
  equal(withLinks(brief("1"), undefined).issueUrl, null);
});

const RUN = { run: "r1", attempt: 1, agent: "claude", kind: "direct", running_at: "2026-03-01T10:05:00.000Z", admitted_at: "2026-03-01T10:04:00.000Z" };

test("the timeline is newest first, without events that have no time", () => {
  const task = { created_at: "2026-03-01T10:00:00.000Z", author: "ada", state: "done", state_since: "2026-03-01T10:20:00.000Z", runs: [{ ...RUN, outcome: "success", exited_at: "2026-03-01T10:20:00.000Z", seconds: 900, usd: 0.5 }] };
  const message = { at: "2026-03-01T10:07:00.000Z", type: "QUESTION", sender: { kind: "agent" }, body: "Why?" };
  const found = timeline(task, [message, { ...message, type: "RUN_START" }, { ...message, at: "nonsense" }]);
  equal(found.map((one) => one.what), ["Done", "Attempt 1 succeeded", "The agent asked", "Attempt 1 started", "Submitted"]);
  equal(found[1].more, "after 15m 00s · $0.50");
});

test("an answer follows its question, and a stop is shown once with its author", () => {
  const asked_at = "2026-03-01T10:10:00.000Z";
  const at = "2026-03-01T10:20:00.000Z";
  const answered = { at, by: "ann", what: "answered", text: "Blue.", asked: "Which colour?", asked_at };
  const task = { created_at: "2026-03-01T10:00:00.000Z", state: "queued", state_since: at, audit_entries: [answered] };
  const found = timeline(task);
  equal(found.map((one) => [one.what, one.more]), [["ann answered the question", "Blue."], ["Question asked", "Which colour?"], ["Submitted", ""]]);
  const later = "2026-03-01T10:30:00.000Z";
  const stopped = { at: later, by: "bob", what: "stopped", text: "too dear", asked: "", asked_at: null };
  const over = { ...task, state: "stopped", state_since: later, reason: "Stopped by bob: too dear", audit_entries: [answered, stopped] };
  equal(timeline(over).map((one) => one.what), ["bob stopped the task", "ann answered the question", "Question asked", "Submitted"]);
  equal(timeline({ ...over, audit_entries: [] })[0].what, "Stopped");
});

test("a live run has no end; an unknown outcome is shown as it is", () => {
  const result = (run) => timeline({ created_at: "2026-03-01T10:00:00.000Z", state: "running", runs: [run] }).map((one) => one.what);
  equal(result(RUN), ["Attempt 1 started", "Submitted"]);
  equal(result({ ...RUN, outcome: "rate_limited", ended_at: "2026-03-01T10:06:00.000Z" })[0], "Attempt 1 ended: rate limited");
});

test("changes update known tasks, and deleted tasks are removed", () => {
  const known = new Map([["a", { id: "a", state: "queued", title: "A" }], ["b", { id: "b" }]]);
  const found = applyChanges(known, new Map([["a", { state: "done" }], ["b", null], ["c", { id: "c" }], ["d", null]]));
  equal([...found], [["a", { id: "a", state: "done", title: "A" }], ["c", { id: "c" }]]);
  equal(known.size, 2);
});

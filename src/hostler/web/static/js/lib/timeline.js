// Build the timeline of a task.

import { duration, plural, parseTimestamp, money } from "./format.js";

const RUN_OUTCOMES = {
  success: ["good", "succeeded"],
  needs_input: ["ask", "asked a question"],
  blocked: ["bad", "was blocked"],
  interrupted: ["idle", "was stopped"],
};

/** Return events `{at, tone, what, more, run}`, newest first. */
export function timeline(task, messages = []) {
  const found = [{ at: task.created_at, tone: "idle", what: "Submitted", more: task.author ? `by ${task.author}` : "" }];
  for (const run of task.runs ?? []) found.push(...runEvents(run));
  for (const action of task.audit_entries ?? []) found.push(...operatorEvents(action));
  for (const message of messages) if (!message.type.startsWith("RUN_")) found.push(messageEvent(message));
  const last = stateEvent(task);
  if (last) found.push(last);
  const known = found.filter((event) => !Number.isNaN(parseTimestamp(event.at)));
  // Events with the same timestamp keep the order of this list.
  return known.map((event, order) => ({ ...event, order })).sort((a, b) => parseTimestamp(b.at) - parseTimestamp(a.at) || b.order - a.order);
}

function runEvents(run) {
  const found = [{ at: run.running_at ?? run.admitted_at, tone: "work", run: run.run, what: `Attempt ${run.attempt} started`, more: `${run.agent}, ${run.kind}` }];
  const endedAt = run.exited_at ?? run.ended_at;
  if (endedAt) found.push({ at: endedAt, run: run.run, ...runEnd(run) });
  return found;
}

function runEnd(run) {
  const [tone, label] = RUN_OUTCOMES[run.outcome] ?? ["bad", run.outcome ? `ended: ${run.outcome.replaceAll("_", " ")}` : "ended"];
  const facts = [run.why, run.seconds ? `after ${duration(run.seconds)}` : "", run.usd ? money(run.usd) : ""];
  return { tone, what: `Attempt ${run.attempt} ${label}`, more: facts.filter(Boolean).join(" · ") };
}

const ACTION_TONES = { answered: "work", resumed: "work", retried: "work" };

/** Return the events of an operator action; an answer follows its question. */
function operatorEvents(action) {
  const found = action.asked ? [{ at: action.asked_at, tone: "ask", what: "Question asked", more: action.asked }] : [];
  return [...found, { at: action.at, tone: ACTION_TONES[action.what] ?? "idle", what: `${action.by} ${action.what} ${action.what === "answered" ? "the question" : "the task"}`, more: action.text }];
}

const MESSAGE_VERBS = {
  QUESTION: ["ask", "asked"],
  ERROR: ["bad", "reported an error"],
  WARNING: ["ask", "warned"],
  DECISION: ["review", "decided"],
  PROGRESS: ["note", "reported"],
  REVIEW: ["review", "reviewed"],
};

function messageEvent(message) {
  const who = message.sender?.name || (message.sender?.kind === "agent" ? "the agent" : message.sender?.kind) || "unknown sender";
  const [tone, verb] = MESSAGE_VERBS[message.type] ?? ["note", "wrote"];
  const what = `${who} ${verb}`;
  return { at: message.at, tone, what: what[0].toUpperCase() + what.slice(1), more: message.body };
}

const STATE_EVENTS = {
  needs_input: ["ask", "Needs input"],
  blocked: ["bad", "Blocked"],
  failed: ["bad", "Failed"],
  stopped: ["idle", "Stopped"],
  done: ["good", "Done"],
  awaiting_feedback: ["review", "In review"],
  parked: ["wait", "Parked"],
  retrying: ["wait", "Retrying"],
};

function stateEvent(task) {
  const found = STATE_EVENTS[task.state];
  // An operator action with the same timestamp already shows this change.
  if (!found || task.audit_entries?.some((action) => action.at === task.state_since)) return null;
  const more = task.question || task.reason || task.note || (task.turn ? plural(task.turn, "turn") : "");
  return { at: task.state_since, tone: found[0], what: found[1], more };
}

// What happened to a task, and when.

import { duration, many, moment, money } from "./format.js";

const RUN_WORDS = {
  success: ["good", "ended well"],
  needs_input: ["ask", "asked a question"],
  blocked: ["bad", "could not go on"],
  interrupted: ["idle", "was stopped"],
};

/** Events `{at, tone, what, more, run}`, newest first. */
export function timeline(task, messages = []) {
  const found = [{ at: task.created_at, tone: "idle", what: "Submitted", more: task.author ? `by ${task.author}` : "" }];
  for (const run of task.runs ?? []) found.push(...runEvents(run));
  for (const deed of task.deeds ?? []) found.push(...deedEvents(deed));
  for (const message of messages) if (!message.type.startsWith("RUN_")) found.push(said(message));
  const last = stateEvent(task);
  if (last) found.push(last);
  const known = found.filter((event) => !Number.isNaN(moment(event.at)));
  // Of events of one moment, what came later in this list happened later.
  return known.map((event, order) => ({ ...event, order })).sort((a, b) => moment(b.at) - moment(a.at) || b.order - a.order);
}

function runEvents(run) {
  const found = [{ at: run.running_at ?? run.admitted_at, tone: "work", run: run.run, what: `Attempt ${run.attempt} began`, more: `${run.agent}, ${run.kind}` }];
  const over = run.exited_at ?? run.ended_at;
  if (over) found.push({ at: over, run: run.run, ...ended(run) });
  return found;
}

function ended(run) {
  const [tone, words] = RUN_WORDS[run.outcome] ?? ["bad", run.outcome ? `ended: ${run.outcome.replaceAll("_", " ")}` : "ended"];
  const facts = [run.why, run.seconds ? `after ${duration(run.seconds)}` : "", run.usd ? money(run.usd) : ""];
  return { tone, what: `Attempt ${run.attempt} ${words}`, more: facts.filter(Boolean).join(" · ") };
}

const DEED_TONES = { answered: "work", resumed: "work", retried: "work" };

/** What a person did; an answer stands behind its question. */
function deedEvents(deed) {
  const found = deed.asked ? [{ at: deed.asked_at, tone: "ask", what: "Asked a person", more: deed.asked }] : [];
  return [...found, { at: deed.at, tone: DEED_TONES[deed.what] ?? "idle", what: `${deed.by} ${deed.what} it`, more: deed.text }];
}

const SAID = {
  QUESTION: ["ask", "asked"],
  ERROR: ["bad", "met an error"],
  WARNING: ["ask", "warned"],
  DECISION: ["review", "decided"],
  PROGRESS: ["note", "reported"],
  REVIEW: ["review", "judged"],
};

function said(message) {
  const who = message.sender?.name || (message.sender?.kind === "agent" ? "the agent" : message.sender?.kind) || "somebody";
  const [tone, verb] = SAID[message.type] ?? ["note", "said"];
  const what = `${who} ${verb}`;
  return { at: message.at, tone, what: what[0].toUpperCase() + what.slice(1), more: message.body };
}

const STATE_EVENTS = {
  needs_input: ["ask", "Asks a person"],
  blocked: ["bad", "Blocked"],
  failed: ["bad", "Failed"],
  stopped: ["idle", "Stopped"],
  done: ["good", "Done"],
  awaiting_feedback: ["review", "Awaits review"],
  parked: ["wait", "Parked"],
  retrying: ["wait", "Is tried again soon"],
};

function stateEvent(task) {
  const found = STATE_EVENTS[task.state];
  // What somebody did at that very moment says it already, and who.
  if (!found || task.deeds?.some((deed) => deed.at === task.state_since)) return null;
  const more = task.question || task.reason || task.note || (task.turn ? many(task.turn, "turn") : "");
  return { at: task.state_since, tone: found[0], what: found[1], more };
}

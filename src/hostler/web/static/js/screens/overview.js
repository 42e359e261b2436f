// Overview: tasks that need you, running agents, the queue, pools and repositories.

import { secondsSince, count, duration, plural, megabytes, money, shortDuration, UNKNOWN } from "../lib/format.js";
import { runLabel, startText, normalizeTask } from "../lib/tasks.js";
import { h } from "../lib/vdom.js";
import { gauge } from "../components/gauge.js";
import { skeleton, button, chip, empty, originLink, pullLink, sectionHeader, stateChip, taskLink, errorPanel, limitedList, withCode } from "../components/elements.js";

// Seconds without activity after which the last activity is highlighted.
const INACTIVE_SECONDS = 300;
export const ROWS = 100;

export function overview(state, actions) {
  if (!state.snapshot) return state.snapshotError ? errorPanel(state.snapshotError, actions.refresh) : loading();
  const { snapshot, now } = state;
  return h(
    "div",
    { class: "stack" },
    h("h1", { class: "visually-hidden" }, "Overview"),
    figures(snapshot),
    h(
      "div",
      { class: "columns" },
      h("div", { class: "stack" }, needsYou(snapshot, now, state, actions), runningAgents(snapshot, now), queue(snapshot, now, state, actions)),
      h("div", { class: "stack" }, pools(snapshot, now), repositories(snapshot, actions)),
    ),
  );
}

function loading() {
  return h(
    "div",
    { class: "stack", "aria-busy": "true" },
    h("div", { class: "figures" }, skeleton(5, "panel figure")),
    h("div", { class: "columns" }, h("div", { class: "stack" }, h("div", { class: "cards" }, skeleton(3)), skeleton(4)), h("div", { class: "stack" }, skeleton(2))),
  );
}

// -- figures ----------------------------------------------------------------------------------

function figures(snapshot) {
  const limit = snapshot.cost.per_day_usd;
  return h(
    "dl",
    { class: "figures" },
    figure("Running", snapshot.at_work_total, snapshot.governor.machine.max_agents ? `of ${snapshot.governor.machine.max_agents} on this machine` : plural(snapshot.at_work_total, "agent")),
    figure("Queued", snapshot.queue_total, plural(snapshot.queue_total, "task")),
    figure("Needs you", snapshot.needs_person_total, snapshot.needs_person_total ? plural(snapshot.needs_person_total, "task") : "nothing"),
    figure("In review", snapshot.pulls_total, plural(snapshot.pulls_total, "pull request")),
    figure("Cost today", money(snapshot.cost.today_usd), limit ? `of ${money(limit)} per day` : "no daily limit"),
  );
}

function figure(title, number, more) {
  return h("div", { class: "panel figure", key: title }, h("dt", {}, title), h("dd", {}, h("strong", { class: "number" }, number), h("span", { class: "soft tiny one-line" }, more)));
}

// -- what needs a person ----------------------------------------------------------------------

function needsYou(snapshot, now, state, actions) {
  if (!snapshot.needs_person.length) return null;
  const rows = snapshot.needs_person.map((raw) => needsYouRow(raw, now));
  return h(
    "section",
    { key: "needsYou", "aria-label": "Needs you" },
    sectionHeader("Needs you", snapshot.needs_person_total),
    h("ul", { class: "panel rows" }, limitedList(rows, state.more.needsYou ?? 6, () => actions.more("needsYou", ROWS))),
  );
}

function needsYouRow(raw, now) {
  const task = normalizeTask(raw);
  return h(
    "li",
    { class: "needs-you-row", key: task.id },
    h("div", { class: "needs-you-state" }, stateChip(task.state), h("span", { class: "soft tiny number" }, shortDuration(raw.seconds))),
    h(
      "div",
      { class: "needs-you-text" },
      h("div", { class: "title-line" }, taskLink(task, { class: "title" }), originLink(task, { class: "soft small" }), pullLink(task)),
      h("p", { class: raw.question ? "question" : "small" }, raw.question || raw.what),
      raw.then ? h("p", { class: "soft small" }, raw.then) : null,
    ),
    raw.question && raw.by_hand ? h("a", { class: "button", href: `#/task/${encodeURIComponent(task.id)}` }, "Answer") : null,
  );
}

// -- running agents ---------------------------------------------------------------------------

function runningAgents(snapshot, now) {
  const cards = snapshot.at_work.map((raw) => card(raw, snapshot, now));
  return h(
    "section",
    { key: "running", "aria-label": "Running" },
    sectionHeader("Running", snapshot.at_work_total),
    cards.length ? h("ul", { class: "cards" }, cards) : empty("No agent is running.", snapshot.queue_total ? "The queue below shows what each task is waiting for." : "Label an issue or submit a task."),
  );
}

function card(raw, snapshot, now) {
  const task = normalizeTask(raw);
  // Add the time since the snapshot was taken.
  const passed = secondsSince(snapshot.now, now);
  const idle = Number.isFinite(raw.idle_seconds) ? secondsSince(raw.active_at, now) : NaN;
  return h(
    "li",
    { class: "panel card", key: raw.run },
    h("div", { class: "card-top" }, chip(raw.stopping ? "stopping" : raw.lent ? "waiting for child task" : runLabel(raw.state), raw.stopping ? "bad" : "work", { class: raw.stopping ? "" : "has-dot" }), h("span", { class: "soft small number card-time" }, duration(raw.seconds + passed))),
    h("h3", { class: "two-lines card-title" }, taskLink(task)),
    h("p", { class: "one-line small" }, originLink(task, { class: "soft" })),
    h(
      "dl",
      { class: "card-facts" },
      fact("Agent", raw.agent),
      fact("Attempt", raw.attempt),
      fact("Cost", money(raw.usd)),
      fact("Last activity", Number.isNaN(idle) ? UNKNOWN : idle < 1 ? "now" : `${shortDuration(idle)} ago`, idle > INACTIVE_SECONDS ? "is-quiet" : ""),
      fact("Tokens", `${count(raw.input_tokens)} in, ${count(raw.output_tokens)} out`, "is-wide"),
    ),
  );
}

function fact(name, value, variant = "") {
  return h("div", { key: name, class: variant }, h("dt", {}, name), h("dd", { class: "number one-line" }, value));
}

// -- the queue --------------------------------------------------------------------------------

function queue(snapshot, now, state, actions) {
  const rows = snapshot.queue.map((raw) => queueRow(raw, snapshot, now));
  return h(
    "section",
    { key: "queue", "aria-label": "Queue" },
    sectionHeader("Queue", snapshot.queue_total, h("span", { class: "soft small" }, "in priority order")),
    rows.length ? h("ol", { class: "panel rows queue" }, limitedList(rows, state.more.queue ?? ROWS, () => actions.more("queue", 500))) : empty("The queue is empty.", "No task is waiting to start."),
  );
}

function queueRow(raw, snapshot, now) {
  const task = normalizeTask(raw);
  // Total waiting time; `since` covers only the current gate.
  const waited = raw.seconds + secondsSince(snapshot.now, now);
  return h(
    "li",
    { class: "queue-row", key: task.id },
    h("span", { class: "queue-position number soft" }, raw.position),
    h("div", { class: "queue-task" }, h("div", { class: "title-line" }, taskLink(task, { class: "title" }), originLink(task, { class: "soft small" }), pullLink(task))),
    h("div", { class: "queue-reason small" }, raw.would_start ? chip("next", "good", { class: "has-dot" }) : chip(gateLabel(raw.gate), "wait", { title: raw.remedy ?? "" }), h("span", {}, raw.would_start ? "Starts next." : raw.why)),
    h("dl", { class: "queue-times tiny soft number" }, h("div", {}, h("dt", {}, "waiting"), h("dd", {}, shortDuration(waited))), h("div", {}, h("dt", {}, "starts"), h("dd", {}, startText(raw, now) || "not known"))),
  );
}

export function gateLabel(gate) {
  return String(gate ?? "").replaceAll("_", " ");
}

// -- the side ---------------------------------------------------------------------------------

function pools(snapshot, now) {
  const { machine, memory } = snapshot.governor;
  const facts = [
    machine.max_agents ? `${machine.active} of ${machine.max_agents} agents on this machine` : "",
    Number.isFinite(memory.free_mb) ? `${megabytes(memory.free_mb)} memory free${memory.floor_mb ? ` (minimum ${megabytes(memory.floor_mb)})` : ""}` : "",
  ].filter(Boolean);
  return h(
    "section",
    { key: "pools", "aria-label": "Pools" },
    sectionHeader("Pools", snapshot.governor.pools.length),
    h("ul", { class: "gauges" }, snapshot.governor.pools.map((pool) => gauge(pool, now))),
    facts.length ? h("p", { class: "soft tiny under" }, facts.join(" · ")) : null,
  );
}

function repositories(snapshot, actions) {
  return h(
    "section",
    { key: "repositories", "aria-label": "Repositories" },
    sectionHeader("Repositories", snapshot.repositories.length),
    snapshot.repositories.length ? h("ul", { class: "panel rows" }, snapshot.repositories.map((one) => repository(one, actions))) : empty("No repositories yet.", withCode("Add one with `hostler repo add owner/name`.")),
  );
}

function repository(one, actions) {
  return h(
    "li",
    { class: "repo", key: one.project },
    h("div", { class: "title-line" }, h("span", { class: "title one-line" }, one.repo), one.paused ? chip("paused", "ask", { title: one.paused }) : null, pauseButton(one, actions)),
    h("p", { class: "soft tiny number" }, `${one.at_work} running · ${one.queued} queued · ${plural(one.pulls, "pull request")}`),
    one.paused ? h("p", { class: "small" }, one.paused) : null,
  );
}

/** Pause or unpause a repository. A pause in the settings has no button. */
function pauseButton(one, actions) {
  if (one.paused_in_settings) return null;
  const [label, action] = one.paused ? ["Unpause …", actions.unpause] : ["Pause …", actions.pause];
  return button(label, () => action(one), { variant: "is-plain is-small", "aria-label": `${label.replace(" …", "")}: ${one.repo}` });
}

// The stable: what needs you, who is at work, which pools there are, what waits and why.

import { age, count, duration, many, megabytes, money, roughly, UNKNOWN } from "../lib/format.js";
import { runWord, startWords, taskOf } from "../lib/tasks.js";
import { h } from "../lib/vdom.js";
import { gauge } from "../parts/gauge.js";
import { bones, button, chip, empty, originLink, pullLink, sectionHead, stateChip, taskLink, trouble, upTo } from "../parts/small.js";

// Who writes nothing for so long is looked at twice.
const QUIET = 300;
export const ROWS = 100;

export function stable(state, acts) {
  if (!state.snapshot) return state.snapshotError ? trouble(state.snapshotError, acts.refresh) : loading();
  const { snapshot: seen, now } = state;
  return h(
    "div",
    { class: "stack" },
    h("h1", { class: "quiet-voice" }, "Stable"),
    figures(seen),
    h(
      "div",
      { class: "columns" },
      h("div", { class: "stack" }, needy(seen, now, state, acts), atWork(seen, now), queue(seen, now, state, acts)),
      h("div", { class: "stack" }, pools(seen, now), repositories(seen, acts)),
    ),
  );
}

function loading() {
  return h(
    "div",
    { class: "stack", "aria-busy": "true" },
    h("div", { class: "figures" }, bones(5, "panel figure")),
    h("div", { class: "columns" }, h("div", { class: "stack" }, h("div", { class: "cards" }, bones(3)), bones(4)), h("div", { class: "stack" }, bones(2))),
  );
}

// -- figures ----------------------------------------------------------------------------------

function figures(seen) {
  const limit = seen.cost.per_day_usd;
  return h(
    "dl",
    { class: "figures" },
    figure("At work", seen.at_work_total, seen.governor.machine.max_agents ? `of at most ${seen.governor.machine.max_agents} on this machine` : "agents"),
    figure("Waiting", seen.queue_total, many(seen.queue_total, "task")),
    figure("Needs you", seen.needs_person_total, seen.needs_person_total ? "see below" : "nothing"),
    figure("In review", seen.pulls_total, many(seen.pulls_total, "pull request")),
    figure("Today", money(seen.cost.today_usd), limit ? `of ${money(limit)} a day` : "no daily limit"),
  );
}

function figure(title, number, more) {
  return h("div", { class: "panel figure", key: title }, h("dt", {}, title), h("dd", {}, h("strong", { class: "number" }, number), h("span", { class: "soft tiny one-line" }, more)));
}

// -- what needs a person ----------------------------------------------------------------------

function needy(seen, now, state, acts) {
  if (!seen.needs_person.length) return null;
  const rows = seen.needs_person.map((raw) => need(raw, now));
  return h(
    "section",
    { key: "needy", "aria-label": "Needs you" },
    sectionHead("Needs you", seen.needs_person_total),
    h("ul", { class: "panel rows" }, upTo(rows, state.more.needy ?? 6, () => acts.more("needy", ROWS))),
  );
}

function need(raw, now) {
  const task = taskOf(raw);
  return h(
    "li",
    { class: "need", key: task.id },
    h("div", { class: "need-state" }, stateChip(task.state), h("span", { class: "soft tiny number" }, roughly(raw.seconds))),
    h(
      "div",
      { class: "need-text" },
      h("div", { class: "title-line" }, taskLink(task, { class: "title" }), originLink(task, { class: "soft small" }), pullLink(task)),
      h("p", { class: raw.question ? "question" : "small" }, raw.question || raw.what),
      raw.then ? h("p", { class: "soft small" }, raw.then) : null,
    ),
    raw.question && raw.by_hand ? h("a", { class: "button", href: `#/task/${encodeURIComponent(task.id)}` }, "Answer") : null,
  );
}

// -- agents at work ---------------------------------------------------------------------------

function atWork(seen, now) {
  const cards = seen.at_work.map((raw) => card(raw, seen, now));
  return h(
    "section",
    { key: "at work", "aria-label": "At work" },
    sectionHead("At work", seen.at_work_total),
    cards.length ? h("ul", { class: "cards" }, cards) : empty("No agent is at work.", seen.queue_total ? "The queue below says what holds each task." : "Label an issue, or submit a task."),
  );
}

function card(raw, seen, now) {
  const task = taskOf(raw);
  // The snapshot's own seconds, and what has passed since it was taken.
  const passed = age(seen.now, now);
  const idle = Number.isFinite(raw.idle_seconds) ? age(raw.active_at, now) : NaN;
  return h(
    "li",
    { class: "panel card", key: raw.run },
    h("div", { class: "card-top" }, chip(raw.stopping ? "being stopped" : raw.lent ? "waits for a child" : runWord(raw.state), raw.stopping ? "bad" : "work", { class: raw.stopping ? "" : "has-dot" }), h("span", { class: "soft small number card-time" }, duration(raw.seconds + passed))),
    h("h3", { class: "two-lines card-title" }, taskLink(task)),
    h("p", { class: "one-line small" }, originLink(task, { class: "soft" })),
    h(
      "dl",
      { class: "card-facts" },
      fact("Agent", raw.agent),
      fact("Attempt", raw.attempt),
      fact("Cost", money(raw.usd)),
      fact("Last sign", Number.isNaN(idle) ? UNKNOWN : idle < 1 ? "now" : `${roughly(idle)} ago`, idle > QUIET ? "is-quiet" : ""),
      fact("Tokens", `${count(raw.input_tokens)} in, ${count(raw.output_tokens)} out`, "is-wide"),
    ),
  );
}

function fact(name, value, look = "") {
  return h("div", { key: name, class: look }, h("dt", {}, name), h("dd", { class: "number one-line" }, value));
}

// -- the queue --------------------------------------------------------------------------------

function queue(seen, now, state, acts) {
  const rows = seen.queue.map((raw) => waiting(raw, seen, now));
  return h(
    "section",
    { key: "queue", "aria-label": "Queue" },
    sectionHead("Queue", seen.queue_total, h("span", { class: "soft small" }, "in the order in which they are looked at")),
    rows.length ? h("ol", { class: "panel rows queue" }, upTo(rows, state.more.queue ?? ROWS, () => acts.more("queue", 500))) : empty("Nothing waits.", "Every task is at work, in review, or over."),
  );
}

function waiting(raw, seen, now) {
  const task = taskOf(raw);
  // How long the task waits, at whatever gates; its own `since` is that of the last one alone.
  const waited = raw.seconds + age(seen.now, now);
  return h(
    "li",
    { class: "wait", key: task.id },
    h("span", { class: "wait-place number soft" }, raw.position),
    h("div", { class: "wait-task" }, h("div", { class: "title-line" }, taskLink(task, { class: "title" }), originLink(task, { class: "soft small" }), pullLink(task))),
    h("div", { class: "wait-why small" }, raw.would_start ? chip("next", "good", { class: "has-dot" }) : chip(gateWord(raw.gate), "wait", { title: raw.remedy ?? "" }), h("span", {}, raw.would_start ? "Starts with the next look." : raw.why)),
    h("dl", { class: "wait-times tiny soft number" }, h("div", {}, h("dt", {}, "waits"), h("dd", {}, roughly(waited))), h("div", {}, h("dt", {}, "starts"), h("dd", {}, startWords(raw, now) || "not known"))),
  );
}

export function gateWord(gate) {
  return String(gate ?? "").replaceAll("_", " ");
}

// -- the side ---------------------------------------------------------------------------------

function pools(seen, now) {
  const { machine, memory } = seen.governor;
  const facts = [
    machine.max_agents ? `${machine.active} of ${machine.max_agents} on this machine` : "",
    Number.isFinite(memory.free_mb) ? `${megabytes(memory.free_mb)} of memory free${memory.floor_mb ? `, ${megabytes(memory.floor_mb)} kept` : ""}` : "",
  ].filter(Boolean);
  return h(
    "section",
    { key: "pools", "aria-label": "Pools" },
    sectionHead("Pools", seen.governor.pools.length),
    h("ul", { class: "gauges" }, seen.governor.pools.map((pool) => gauge(pool, now))),
    facts.length ? h("p", { class: "soft tiny under" }, facts.join(" · ")) : null,
  );
}

function repositories(seen, acts) {
  return h(
    "section",
    { key: "repositories", "aria-label": "Repositories" },
    sectionHead("Repositories", seen.repositories.length),
    seen.repositories.length ? h("ul", { class: "panel rows" }, seen.repositories.map((one) => repository(one, acts))) : empty("No repository is watched.", "`hostler repo add owner/name` adds one.".replaceAll("`", "")),
  );
}

function repository(one, acts) {
  return h(
    "li",
    { class: "repo", key: one.project },
    h("div", { class: "title-line" }, h("span", { class: "title one-line" }, one.repo), one.paused ? chip("paused", "ask", { title: one.paused }) : null, pauseButton(one, acts)),
    h("p", { class: "soft tiny number" }, `${one.at_work} at work · ${one.queued} waiting · ${many(one.pulls, "pull request")}`),
    one.paused ? h("p", { class: "small" }, one.paused) : null,
  );
}

/** What the settings hold back, no button lets go on. */
function pauseButton(one, acts) {
  if (one.paused_in_settings) return null;
  const [words, act] = one.paused ? ["Let it go on …", acts.unpause] : ["Pause …", acts.pause];
  return button(words, () => act(one), { look: "is-plain is-small", "aria-label": `${words.replace(" …", "")}: ${one.repo}` });
}

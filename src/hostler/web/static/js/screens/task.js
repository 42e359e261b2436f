// Task: state, actions, output, bus, prompt, timeline, runs and children.

import { secondsSince, timeUntil, timeOfDay, count, duration, money, shortDuration, UNKNOWN } from "../lib/format.js";
import { taskAddress } from "../lib/routes.js";
import { availableActions, runLabel, startText, normalizeTask } from "../lib/tasks.js";
import { timeline } from "../lib/timeline.js";
import { h } from "../lib/vdom.js";
import { showOutput } from "../components/output.js";
import { skeleton, button, chip, empty, originLink, externalLink, sectionHeader, stateChip, errorPanel, withCode } from "../components/elements.js";
import { gateLabel } from "./overview.js";

const ACTION_LABELS = { stop: "Stop", cancel: "Cancel task", resume: "Resume", retry: "Retry" };

export function taskScreen(state, actions) {
  const page = state.task;
  if (!page || (!page.detail && !page.error)) return h("div", { class: "stack", "aria-busy": "true" }, skeleton(1, "panel figure"), h("div", { class: "task-grid" }, h("div", {}, skeleton(1, "panel chart-skeleton")), h("div", {}, skeleton(3))));
  if (!page.detail) return errorPanel(page.error, () => actions.openTask(page.id));
  const task = normalizeTask(page.detail);
  return h(
    "div",
    { class: "stack" },
    header(task, page, state, actions),
    h(
      "div",
      { class: "task-grid" },
      h("div", { class: "stack task-main" }, question(task, page, actions), why(page, state), tabs(page, state, actions)),
      h("div", { class: "stack" }, runsAndChildren(page, state, actions), timelineSection(page, state.now), about(page, state.now)),
    ),
  );
}

// -- the head ---------------------------------------------------------------------------------

function header(task, page, state, actions) {
  const detail = page.detail;
  return h(
    "header",
    { class: "task-head" },
    h("div", { class: "task-names" }, h("p", { class: "small soft title-line" }, originLink(task), task.pull ? externalLink(task.pullUrl, `PR #${task.pull}`) : null, h("span", { class: "mono tiny" }, task.id)), h("h1", { tabindex: -1 }, task.title)),
    h(
      "div",
      { class: "task-state" },
      stateChip(task.state),
      h("span", { class: "soft small number" }, `for ${shortDuration(secondsSince(task.since, state.now))}`),
      h("span", { class: "soft small number" }, `${money(detail.usd)} spent`),
      h("div", { class: "row task-actions" }, availableActions(task.state, { byHand: !task.issue }).filter((name) => name !== "answer").map((name) => button(ACTION_LABELS[name], () => actions.openActionDialog(task, name), { key: name, variant: name === "stop" || name === "cancel" ? "is-destructive" : "" }))),
    ),
  );
}

// -- question and waiting reason --------------------------------------------------------------

function question(task, page, actions) {
  if (task.state !== "needs_input") return null;
  const asked = page.detail.question || page.detail.reason;
  const byHand = availableActions(task.state, { byHand: !task.issue }).includes("answer");
  return h(
    "section",
    { class: "panel ask", key: "ask", "aria-label": "Question" },
    h("h2", {}, "The agent asks"),
    h("p", { class: "question" }, asked || "Waiting for your reply."),
    byHand
      ? h(
          "form",
          { class: "stack-tight", on: { submit: (event) => actions.answer(event, task) } },
          h("label", { for: "answer" }, "Your answer"),
          h("textarea", { id: "answer", name: "text", required: true, maxlength: 20000 }),
          page.answerError ? h("p", { class: "form-error error-panel small", role: "alert" }, page.answerError.message) : null,
          h("div", { class: "row" }, h("button", { type: "submit", class: "button is-primary", disabled: page.answering }, page.answering ? "Please wait …" : "Answer")),
        )
      : h("p", {}, "Answer with a comment on ", originLink(task), ". The task continues when Hostler reads your comment."),
  );
}

function why(page, { snapshot, now }) {
  const found = page.why;
  // A question or a running agent explains itself.
  if (!found || ["needs_input", "running"].includes(page.detail.state) || !(found.waits || found.why)) return null;
  return h(
    "section",
    { class: "panel pad", key: "why", "aria-label": "Waiting reason" },
    h("div", { class: "title-line" }, found.waits ? (found.would_start ? chip("next", "good", { class: "has-dot" }) : chip(gateLabel(found.gate), "wait")) : null, h("strong", {}, found.would_start ? "Starts next." : found.why ?? "")),
    found.remedy ? h("p", { class: "small soft" }, withCode(found.remedy)) : null,
    found.waits && !found.would_start ? h("p", { class: "tiny soft number" }, [`since ${timeOfDay(found.since, now)} (${shortDuration(secondsSince(found.since, now))})`, startOrOpening(page, snapshot, now)].filter(Boolean).join(", ")) : null,
    found.waits && !found.service ? h("p", { class: "small" }, "The service is not running. Start it with ", h("code", {}, "hostler service"), ".") : null,
  );
}

/** Return when the task starts (as in the queue), else when its gate opens, else nothing. */
function startOrOpening({ detail, why: found }, snapshot, now) {
  const starts = startText(snapshot?.queue.find((one) => one.task === detail.id), now);
  if (starts) return `starts ${starts}`;
  return found.until ? `gate opens ${timeUntil(found.until, now)}` : "";
}

// -- tabs -------------------------------------------------------------------------------------

const TABS = [
  ["output", "Output"],
  ["bus", "Bus"],
  ["prompt", "Prompt"],
];

function tabs(page, state, actions) {
  return h(
    "section",
    { class: "panel tabs", key: "tabs" },
    h(
      "div",
      { class: "tabs-head", role: "tablist", "aria-label": "About this task", on: { keydown: (event) => onTabKey(event, actions) } },
      TABS.map(([name, label]) =>
        h(
          "button",
          { type: "button", role: "tab", id: `tab-${name}`, key: name, class: "tab", "aria-selected": String(page.tab === name), "aria-controls": "tab-panel", tabindex: page.tab === name ? 0 : -1, on: { click: () => actions.tab(name) } },
          label,
          name === "bus" && page.bus?.length ? h("span", { class: "count" }, page.bus.length) : null,
        ),
      ),
    ),
    h("div", { class: "tab-panel", role: "tabpanel", id: "tab-panel", "aria-labelledby": `tab-${page.tab}` }, { output: outputTab, bus: busTab, prompt: promptTab }[page.tab](page, state, actions)),
  );
}

// Start from the focused tab, because the rendered state can lag behind quick key presses.
function onTabKey(event, actions) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const names = TABS.map(([name]) => name);
  const here = names.indexOf(event.target.id.replace("tab-", ""));
  if (!step || here < 0) return;
  event.preventDefault();
  const next = names[(here + step + names.length) % names.length];
  actions.tab(next);
  document.getElementById(`tab-${next}`).focus();
}

// The log shows the agent's events as text; `stdout` is what it printed.
const STREAMS = [
  ["log", "Log"],
  ["stdout", "stdout"],
  ["stderr", "stderr"],
];

function outputTab(page, state, actions) {
  const run = page.detail.runs.find((one) => one.run === page.run);
  if (!run) return h("div", { class: "pad" }, empty("No runs yet.", "Agent output appears here while it runs."));
  return h(
    "div",
    { class: "output-tab", key: "output" },
    h(
      "div",
      { class: "output-selector" },
      h("select", { "aria-label": "Run", value: page.run, on: { change: (event) => actions.showRun(event.target.value) } }, page.detail.runs.map((one) => h("option", { key: one.run, value: one.run }, `Attempt ${one.attempt}, ${one.agent}, ${timeOfDay(one.running_at ?? one.admitted_at, state.now)}`)).reverse()),
      h("div", { class: "choice", role: "group", "aria-label": "Stream" }, STREAMS.map(([name, label]) => h("button", { type: "button", key: name, "aria-pressed": String(page.stream === name), on: { click: () => actions.stream(name) } }, label))),
    ),
    h("div", { class: "output", key: `${page.run} ${page.stream}`, mount: (element) => showOutput(element, page.run, page.stream) }),
  );
}

function busTab(page, state, actions) {
  return h(
    "div",
    { class: "bus", key: "bus" },
    page.busError ? h("div", { class: "pad" }, errorPanel(page.busError)) : null,
    page.bus === null && !page.busError ? h("div", { class: "pad", "aria-busy": "true" }, skeleton(3)) : null,
    page.bus?.length === 0 ? h("div", { class: "pad" }, empty("No messages yet.", withCode("Agents see messages only if they run `hostler bus read`."))) : null,
    page.bus?.length ? h("ol", { class: "messages", "aria-label": "Messages" }, page.bus.map((one) => message(one, page, state, actions))) : null,
    compose(page, actions),
  );
}

const MESSAGE_TONES = { QUESTION: "ask", ERROR: "bad", WARNING: "ask", USER: "work", DECISION: "review", RUN_CRASH: "bad", RUN_START: "idle", RUN_STOP: "idle" };

function message(one, page, state, actions) {
  const sender = one.sender.name || (one.sender.kind === "agent" ? "agent" : "hostler");
  return h(
    "li",
    { class: `message is-${one.sender.kind} ${one.thread ? "is-answer" : ""}`, key: one.id },
    h("div", { class: "message-head" }, chip(one.type.toLowerCase().replaceAll("_", " "), MESSAGE_TONES[one.type] ?? "note"), h("strong", { class: "small" }, sender), h("span", { class: "soft tiny number" }, timeOfDay(one.at, state.now)), button("Reply", () => actions.reply(one), { variant: "is-plain is-small", "aria-label": `Reply to ${sender}` })),
    h("p", { class: "message-body" }, one.body),
  );
}

function compose(page, actions) {
  const to = page.replyTo;
  return h(
    "form",
    { class: "compose", on: { submit: actions.postMessage } },
    to ? h("p", { class: "small soft compose-to" }, h("span", { class: "one-line" }, `Reply to: ${to.body}`), button("×", () => actions.reply(null), { variant: "is-plain is-small", "aria-label": "Cancel reply" })) : null,
    h("label", { class: "visually-hidden", for: "message" }, "Message"),
    h("textarea", { id: "message", name: "text", required: true, rows: 2, maxlength: 60000, placeholder: "Note for this task" }),
    h(
      "div",
      { class: "row" },
      h("select", { name: "type", "aria-label": "Message type" }, ["USER", "FACT", "DECISION", "QUESTION", "REVIEW", "INFO"].map((name) => h("option", { value: name, key: name }, name.toLowerCase()))),
      h("button", { type: "submit", class: "button is-primary", disabled: page.posting }, "Post"),
      h("span", { class: "soft tiny" }, withCode("The agent sees it only if it runs `hostler bus read`.")),
    ),
  );
}

function promptTab(page) {
  return h("pre", { class: "prompt", key: "prompt", tabindex: 0, role: "region", "aria-label": "Prompt" }, page.detail.prompt || "This task has no prompt of its own. Its prompt is built from the issue.");
}

// -- the side ---------------------------------------------------------------------------------

function runsAndChildren(page, state, actions) {
  const runs = [...page.detail.runs].reverse();
  return h(
    "section",
    { key: "tree", "aria-label": "Runs and children" },
    sectionHeader("Runs", runs.length),
    runs.length ? h("ul", { class: "panel rows" }, runs.map((run) => runRow(run, page, state.now, actions))) : empty("No runs yet."),
    page.detail.children.length ? [h("div", { class: "section-head section-gap", key: "children" }, h("h2", {}, "Child tasks")), h("div", { class: "panel pad", key: "kids" }, children(page.detail.children))] : null,
  );
}

const RUN_TONES = { success: "good", needs_input: "ask", blocked: "bad", interrupted: "idle" };

function runRow(run, page, now, actions) {
  const live = !run.ended_at && !run.exited_at;
  const label = live ? (run.stop_why ? "stopping" : runLabel(run.state)) : (run.outcome ?? run.state).replaceAll("_", " ");
  const passed = live && run.running_at ? secondsSince(run.running_at, now) : run.seconds;
  return h(
    "li",
    { key: run.run },
    h(
      "button",
      { type: "button", class: "run", "aria-pressed": String(page.run === run.run), on: { click: () => actions.showRun(run.run) } },
      h("span", { class: "run-top" }, h("strong", { class: "small" }, `Attempt ${run.attempt}`), chip(label, live ? "work" : (RUN_TONES[run.outcome] ?? "bad"), { class: "has-dot" })),
      h("span", { class: "soft tiny number" }, `${run.agent} · ${run.kind} · ${duration(passed)} · ${count(run.input_tokens)} in, ${count(run.output_tokens)} out · ${money(run.usd)}`),
      run.why ? h("span", { class: "tiny" }, run.why) : null,
    ),
  );
}

function children(list) {
  return h("ul", { class: "tree" }, list.map((one) => h("li", { key: one.id }, h("div", { class: "title-line" }, h("a", { class: "mono tiny", href: taskAddress(one.id) }, one.id), stateChip(one.state)), one.children.length ? children(one.children) : null)));
}

function timelineSection(page, now) {
  const events = timeline(page.detail, page.bus ?? []).slice(0, 60);
  return h(
    "section",
    { key: "timeline", "aria-label": "Timeline" },
    sectionHeader("Timeline"),
    h(
      "ol",
      { class: "panel timeline" },
      events.map((one) => h("li", { class: `tone-${one.tone}`, key: `${one.at} ${one.what} ${one.order}` }, h("time", { class: "soft tiny number", datetime: one.at }, timeOfDay(one.at, now)), h("div", {}, h("strong", { class: "small" }, one.what), one.more ? h("p", { class: "soft small two-lines" }, one.more) : null))),
    ),
  );
}

function about(page, now) {
  const detail = page.detail;
  const facts = [
    ["Agent", detail.agent || detail.runs[detail.runs.length - 1]?.agent || UNKNOWN],
    ["Flow", String(detail.flow ?? "").replaceAll("_", " ")],
    ["Branch", detail.branch || UNKNOWN],
    ["Submitted", `${timeOfDay(detail.created_at, now)}${detail.author ? ` by ${detail.author}` : ""}`],
    ["Parent", detail.parent_task ? h("a", { href: taskAddress(detail.parent_task), class: "mono tiny" }, detail.parent_task) : null],
    ["Depends on", detail.depends_on?.length ? detail.depends_on.join(", ") : null],
    ["Folder", h("span", { class: "mono tiny" }, detail.folder ?? "")],
    ["Checkout", detail.checkout ? h("span", { class: "mono tiny" }, detail.checkout) : null],
  ].filter(([, value]) => value);
  return h("section", { key: "about", "aria-label": "About" }, sectionHeader("About"), h("dl", { class: "panel pad facts" }, facts.map(([name, value]) => [h("dt", { key: `t ${name}` }, name), h("dd", { key: `d ${name}` }, value)])));
}

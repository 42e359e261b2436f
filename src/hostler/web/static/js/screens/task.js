// One task: what it does, what you can do, its output, its bus, what happened, its runs and children.

import { age, ahead, clock, count, duration, money, roughly, UNKNOWN } from "../lib/format.js";
import { taskAddress } from "../lib/routes.js";
import { actions, runWord, startWords, taskOf } from "../lib/tasks.js";
import { timeline } from "../lib/timeline.js";
import { h } from "../lib/vdom.js";
import { showOutput } from "../parts/output.js";
import { bones, button, chip, empty, originLink, outLink, sectionHead, stateChip, trouble, withCode } from "../parts/small.js";
import { gateWord } from "./stable.js";

const WORDS = { stop: "Stop", cancel: "Cancel", resume: "Resume", retry: "Retry" };

export function taskScreen(state, acts) {
  const page = state.task;
  if (!page || (!page.detail && !page.error)) return h("div", { class: "stack", "aria-busy": "true" }, bones(1, "panel figure"), h("div", { class: "task-grid" }, h("div", {}, bones(1, "panel chart-bone")), h("div", {}, bones(3))));
  if (!page.detail) return trouble(page.error, () => acts.openTask(page.id));
  const task = taskOf(page.detail);
  return h(
    "div",
    { class: "stack" },
    head(task, page, state, acts),
    h(
      "div",
      { class: "task-grid" },
      h("div", { class: "stack task-main" }, question(task, page, acts), why(page, state), tabs(page, state, acts)),
      h("div", { class: "stack" }, tree(page, state, acts), history(page, state.now), about(page, state.now)),
    ),
  );
}

// -- the head ---------------------------------------------------------------------------------

function head(task, page, state, acts) {
  const detail = page.detail;
  return h(
    "header",
    { class: "task-head" },
    h("div", { class: "task-names" }, h("p", { class: "small soft title-line" }, originLink(task), task.pull ? outLink(task.pullUrl, `PR #${task.pull}`) : null, h("span", { class: "mono tiny" }, task.id)), h("h1", { tabindex: -1 }, task.title)),
    h(
      "div",
      { class: "task-state" },
      stateChip(task.state),
      h("span", { class: "soft small number" }, `for ${roughly(age(task.since, state.now))}`),
      h("span", { class: "soft small number" }, `${money(detail.usd)} so far`),
      h("div", { class: "row task-acts" }, actions(task.state, { byHand: !task.issue }).filter((name) => name !== "answer").map((name) => button(WORDS[name], () => acts.act(task, name), { key: name, look: name === "stop" || name === "cancel" ? "is-grave" : "" }))),
    ),
  );
}

// -- what it asks, what holds it --------------------------------------------------------------

function question(task, page, acts) {
  if (task.state !== "needs_input") return null;
  const asked = page.detail.question || page.detail.reason;
  const byHand = actions(task.state, { byHand: !task.issue }).includes("answer");
  return h(
    "section",
    { class: "panel ask", key: "ask", "aria-label": "Its question" },
    h("h2", {}, "It asks"),
    h("p", { class: "question" }, asked || "It waits for a word of yours."),
    byHand
      ? h(
          "form",
          { class: "stack-tight", on: { submit: (event) => acts.answer(event, task) } },
          h("label", { for: "answer" }, "Your answer"),
          h("textarea", { id: "answer", name: "text", required: true, maxlength: 20000 }),
          page.answerError ? h("p", { class: "door-refused trouble small", role: "alert" }, page.answerError.message) : null,
          h("div", { class: "row" }, h("button", { type: "submit", class: "button is-main", disabled: page.answering }, page.answering ? "One moment …" : "Answer")),
        )
      : h("p", {}, "Answer with a comment on ", originLink(task), "; it goes on when the comment is read."),
  );
}

function why(page, { snapshot, now }) {
  const found = page.why;
  // A question says why by itself, and so does an agent at work.
  if (!found || ["needs_input", "running"].includes(page.detail.state) || !(found.waits || found.why)) return null;
  return h(
    "section",
    { class: "panel pad", key: "why", "aria-label": "Why" },
    h("div", { class: "title-line" }, found.waits ? (found.would_start ? chip("next", "good", { class: "has-dot" }) : chip(gateWord(found.gate), "wait")) : null, h("strong", {}, found.would_start ? "Starts with the next look." : found.why ?? "")),
    found.remedy ? h("p", { class: "small soft" }, withCode(found.remedy)) : null,
    found.waits && !found.would_start ? h("p", { class: "tiny soft number" }, [`since ${clock(found.since, now)} (${roughly(age(found.since, now))})`, opening(page, snapshot, now)].filter(Boolean).join(", ")) : null,
    found.waits && !found.service ? h("p", { class: "small" }, "Nobody works on this home: ", h("code", {}, "hostler service")) : null,
  );
}

/** When it starts, as its row in the queue says; else when its gate opens; else nothing. */
function opening({ detail, why: found }, snapshot, now) {
  const starts = startWords(snapshot?.queue.find((one) => one.task === detail.id), now);
  if (starts) return `starts ${starts}`;
  return found.until ? `opens ${ahead(found.until, now)}` : "";
}

// -- tabs -------------------------------------------------------------------------------------

const TABS = [
  ["output", "Output"],
  ["bus", "Bus"],
  ["prompt", "Prompt"],
];

function tabs(page, state, acts) {
  return h(
    "section",
    { class: "panel tabs", key: "tabs" },
    h(
      "div",
      { class: "tabs-head", role: "tablist", "aria-label": "About this task", on: { keydown: (event) => turned(event, acts) } },
      TABS.map(([name, words]) =>
        h(
          "button",
          { type: "button", role: "tab", id: `tab-${name}`, key: name, class: "tab", "aria-selected": String(page.tab === name), "aria-controls": "tab-panel", tabindex: page.tab === name ? 0 : -1, on: { click: () => acts.tab(name) } },
          words,
          name === "bus" && page.bus?.length ? h("span", { class: "tally" }, page.bus.length) : null,
        ),
      ),
    ),
    h("div", { class: "tab-panel", role: "tabpanel", id: "tab-panel", "aria-labelledby": `tab-${page.tab}` }, { output: outputTab, bus: busTab, prompt: promptTab }[page.tab](page, state, acts)),
  );
}

// From the tab that has the focus: what was drawn may be a key behind a quick hand.
function turned(event, acts) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const names = TABS.map(([name]) => name);
  const here = names.indexOf(event.target.id.replace("tab-", ""));
  if (!step || here < 0) return;
  event.preventDefault();
  const next = names[(here + step + names.length) % names.length];
  acts.tab(next);
  document.getElementById(`tab-${next}`).focus();
}

// What an agent says in events is told in words; `stdout` is what it really printed.
const STREAMS = [
  ["told", "told"],
  ["stdout", "stdout"],
  ["stderr", "stderr"],
];

function outputTab(page, state, acts) {
  const run = page.detail.runs.find((one) => one.run === page.run);
  if (!run) return h("div", { class: "pad" }, empty("No agent has begun.", "What it prints is shown here as it comes."));
  return h(
    "div",
    { class: "output-tab", key: "output" },
    h(
      "div",
      { class: "output-which" },
      h("select", { "aria-label": "Which run", value: page.run, on: { change: (event) => acts.showRun(event.target.value) } }, page.detail.runs.map((one) => h("option", { key: one.run, value: one.run }, `Attempt ${one.attempt}, ${one.agent}, ${clock(one.running_at ?? one.admitted_at, state.now)}`)).reverse()),
      h("div", { class: "choice", role: "group", "aria-label": "Which stream" }, STREAMS.map(([name, words]) => h("button", { type: "button", key: name, "aria-pressed": String(page.stream === name), on: { click: () => acts.stream(name) } }, words))),
    ),
    h("div", { class: "output", key: `${page.run} ${page.stream}`, island: (element) => showOutput(element, page.run, page.stream) }),
  );
}

function busTab(page, state, acts) {
  return h(
    "div",
    { class: "bus", key: "bus" },
    page.busError ? h("div", { class: "pad" }, trouble(page.busError)) : null,
    page.bus === null && !page.busError ? h("div", { class: "pad", "aria-busy": "true" }, bones(3)) : null,
    page.bus?.length === 0 ? h("div", { class: "pad" }, empty("Nobody has said anything.", "What you say here is read by the task's agent.")) : null,
    page.bus?.length ? h("ol", { class: "messages", "aria-label": "Messages" }, page.bus.map((one) => message(one, page, state, acts))) : null,
    compose(page, acts),
  );
}

const MESSAGE_TONES = { QUESTION: "ask", ERROR: "bad", WARNING: "ask", USER: "work", DECISION: "review", RUN_CRASH: "bad", RUN_START: "idle", RUN_STOP: "idle" };

function message(one, page, state, acts) {
  const who = one.sender.name || (one.sender.kind === "agent" ? "agent" : "hostler");
  return h(
    "li",
    { class: `message is-${one.sender.kind} ${one.thread ? "is-answer" : ""}`, key: one.id },
    h("div", { class: "message-head" }, chip(one.type.toLowerCase().replaceAll("_", " "), MESSAGE_TONES[one.type] ?? "note"), h("strong", { class: "small" }, who), h("span", { class: "soft tiny number" }, clock(one.at, state.now)), button("Reply", () => acts.reply(one), { look: "is-plain is-small", "aria-label": `Reply to ${who}` })),
    h("p", { class: "message-body" }, one.body),
  );
}

function compose(page, acts) {
  const to = page.replyTo;
  return h(
    "form",
    { class: "compose", on: { submit: acts.say } },
    to ? h("p", { class: "small soft compose-to" }, h("span", { class: "one-line" }, `In reply to: ${to.body}`), button("×", () => acts.reply(null), { look: "is-plain is-small", "aria-label": "Do not reply" })) : null,
    h("label", { class: "quiet-voice", for: "say" }, "Message"),
    h("textarea", { id: "say", name: "text", required: true, rows: 2, maxlength: 60000, placeholder: "Say something to its agent" }),
    h(
      "div",
      { class: "row" },
      h("select", { name: "type", "aria-label": "What it is for" }, ["USER", "FACT", "DECISION", "QUESTION", "REVIEW", "INFO"].map((name) => h("option", { value: name, key: name }, name.toLowerCase()))),
      h("button", { type: "submit", class: "button is-main", disabled: page.saying }, "Post"),
    ),
  );
}

function promptTab(page) {
  return h("pre", { class: "prompt", key: "prompt", tabindex: 0, role: "region", "aria-label": "Prompt" }, page.detail.prompt || "It has no prompt of its own: it comes from its issue.");
}

// -- the side ---------------------------------------------------------------------------------

function tree(page, state, acts) {
  const runs = [...page.detail.runs].reverse();
  return h(
    "section",
    { key: "tree", "aria-label": "Runs and children" },
    sectionHead("Runs", runs.length),
    runs.length ? h("ul", { class: "panel rows" }, runs.map((run) => runRow(run, page, state.now, acts))) : empty("No agent has begun."),
    page.detail.children.length ? [h("div", { class: "section-head section-gap", key: "children" }, h("h2", {}, "Came from it")), h("div", { class: "panel pad", key: "kids" }, children(page.detail.children))] : null,
  );
}

const RUN_TONES = { success: "good", needs_input: "ask", blocked: "bad", interrupted: "idle" };

function runRow(run, page, now, acts) {
  const live = !run.ended_at && !run.exited_at;
  const words = live ? (run.stop_why ? "being stopped" : runWord(run.state)) : (run.outcome ?? run.state).replaceAll("_", " ");
  const passed = live && run.running_at ? age(run.running_at, now) : run.seconds;
  return h(
    "li",
    { key: run.run },
    h(
      "button",
      { type: "button", class: "run", "aria-pressed": String(page.run === run.run), on: { click: () => acts.showRun(run.run) } },
      h("span", { class: "run-top" }, h("strong", { class: "small" }, `Attempt ${run.attempt}`), chip(words, live ? "work" : (RUN_TONES[run.outcome] ?? "bad"), { class: "has-dot" })),
      h("span", { class: "soft tiny number" }, `${run.agent} · ${run.kind} · ${duration(passed)} · ${count(run.input_tokens)} in, ${count(run.output_tokens)} out · ${money(run.usd)}`),
      run.why ? h("span", { class: "tiny" }, run.why) : null,
    ),
  );
}

function children(list) {
  return h("ul", { class: "tree" }, list.map((one) => h("li", { key: one.id }, h("div", { class: "title-line" }, h("a", { class: "mono tiny", href: taskAddress(one.id) }, one.id), stateChip(one.state)), one.children.length ? children(one.children) : null)));
}

function history(page, now) {
  const events = timeline(page.detail, page.bus ?? []).slice(0, 60);
  return h(
    "section",
    { key: "timeline", "aria-label": "Timeline" },
    sectionHead("Timeline"),
    h(
      "ol",
      { class: "panel timeline" },
      events.map((one) => h("li", { class: `tone-${one.tone}`, key: `${one.at} ${one.what} ${one.order}` }, h("time", { class: "soft tiny number", datetime: one.at }, clock(one.at, now)), h("div", {}, h("strong", { class: "small" }, one.what), one.more ? h("p", { class: "soft small two-lines" }, one.more) : null))),
    ),
  );
}

function about(page, now) {
  const detail = page.detail;
  const facts = [
    ["Agent", detail.agent || UNKNOWN],
    ["Flow", String(detail.flow ?? "").replaceAll("_", " ")],
    ["Branch", detail.branch || UNKNOWN],
    ["Submitted", `${clock(detail.created_at, now)}${detail.author ? ` by ${detail.author}` : ""}`],
    ["Parent", detail.parent_task ? h("a", { href: taskAddress(detail.parent_task), class: "mono tiny" }, detail.parent_task) : null],
    ["Waits for", detail.depends_on?.length ? detail.depends_on.join(", ") : null],
    ["Folder", h("span", { class: "mono tiny" }, detail.folder ?? "")],
    ["Checkout", detail.checkout ? h("span", { class: "mono tiny" }, detail.checkout) : null],
  ].filter(([, value]) => value);
  return h("section", { key: "about", "aria-label": "About" }, sectionHead("About"), h("dl", { class: "panel pad facts" }, facts.map(([name, value]) => [h("dt", { key: `t ${name}` }, name), h("dd", { key: `d ${name}` }, value)])));
}

// The work: tasks as a board by state, or as a graph of what waits for what.

import { age, roughly } from "../lib/format.js";
import { layered, path } from "../lib/layers.js";
import { taskAddress } from "../lib/routes.js";
import { board, COLUMNS, filtered, graphOf, origin, stateOf } from "../lib/tasks.js";
import { h } from "../lib/vdom.js";
import { bones, empty, originLink, pullLink, stateChip, taskLink, trouble, upTo } from "../parts/small.js";

const ROWS = 40;
// More than this in one picture is no picture.
const NODES = 150;

export function work(state, acts) {
  return h("div", { class: "stack work" }, head(state, acts), body(state, acts));
}

function head(state, acts) {
  const projects = [...new Set([...(state.tasks?.values() ?? [])].map((task) => task.project))].sort();
  return h(
    "div",
    { class: "room-head" },
    h("h1", {}, "Work"),
    h("nav", { class: "choice", "aria-label": "View" }, view("board", "Board", "#/work", state), view("graph", "Graph", "#/work/graph", state)),
    h(
      "div",
      { class: "end filters" },
      h("input", { type: "search", placeholder: "Filter by words", "aria-label": "Filter by words", value: state.filter.word, on: { input: (event) => acts.filter({ word: event.target.value }) } }),
      h(
        "select",
        { "aria-label": "Project", on: { change: (event) => acts.filter({ project: event.target.value }) } },
        h("option", { value: "", key: "all" }, "All projects"),
        projects.map((name) => h("option", { value: name, key: `p ${name}` }, name)),
      ),
    ),
  );
}

function view(name, words, href, state) {
  return h("a", { href, "aria-current": state.route.view === name ? "page" : null }, words);
}

function body(state, acts) {
  if (!state.tasks) return state.tasksError ? trouble(state.tasksError, acts.loadTasks) : h("div", { class: "board", "aria-busy": "true" }, COLUMNS.map((column) => h("section", { class: "column", key: column.name }, h("h2", {}, column.title), bones(2))));
  const shown = filtered([...state.tasks.values()], state.filter);
  const drawn = state.route.view === "graph" ? graph(shown, state) : boardOf(shown, state, acts);
  if (shown.length || !state.tasks.size) return drawn;
  return empty("No task has these words.", "Change the filter above.");
}

// -- the board --------------------------------------------------------------------------------

function boardOf(tasks, state, acts) {
  const columns = board(tasks, state.snapshot?.queue);
  return h(
    "div",
    { class: "board" },
    COLUMNS.map((column) => {
      const rows = columns[column.name].map((task) => card(task, state.now));
      return h(
        "section",
        { class: `column tone-${toneOf(column.name)}`, key: column.name, "aria-label": column.title },
        h("div", { class: "section-head" }, h("h2", {}, column.title), h("span", { class: "tally" }, rows.length)),
        rows.length ? h("ul", { class: "column-rows" }, upTo(rows, state.more[column.name] ?? ROWS, () => acts.more(column.name, 1000))) : h("p", { class: "column-none soft small" }, column.none),
      );
    }),
  );
}

function toneOf(column) {
  return { waiting: "wait", running: "work", person: "ask", review: "review", over: "good" }[column];
}

function card(task, now) {
  return h(
    "li",
    { class: "panel board-card", key: task.id },
    h("div", { class: "board-top" }, originLink(task, { class: "soft tiny one-line" }), pullLink(task)),
    h("h3", { class: "two-lines" }, taskLink(task)),
    h("div", { class: "board-foot" }, stateChip(task.state), task.since ? h("span", { class: "soft tiny number" }, roughly(age(task.since, now))) : null, task.flow ? h("span", { class: "soft tiny" }, task.flow.replaceAll("_", " ")) : null),
  );
}

// -- the graph --------------------------------------------------------------------------------

const SIZE = { width: 226, height: 58, gapX: 64, gapY: 18 };
const MARGIN = 12;

function graph(tasks, state) {
  const known = graphOf(tasks);
  if (!known.nodes.length) return empty("There are no tasks.", "Label an issue, or submit a task.");
  const linked = new Set(known.edges.flatMap((edge) => [edge.from, edge.to]));
  // What has edges first: it is what the picture is for.
  const nodes = [...known.nodes].sort((a, b) => linked.has(b) - linked.has(a)).slice(0, NODES);
  const drawn = layered(nodes, known.edges, SIZE, Math.max(1, Math.floor((Math.min(state.width, 1480) - 60) / (SIZE.width + SIZE.gapX))));
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const [width, height] = [drawn.width + 2 * MARGIN, drawn.height + 2 * MARGIN];
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "panel graph scroll-x", tabindex: 0, role: "region", "aria-label": "Dependency graph; scrolls sideways" },
      h(
        "svg",
        { width, height, viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}`, role: "group", "aria-label": `${nodes.length} tasks and what they wait for` },
        h("defs", {}, h("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, h("path", { d: "M0 0L8 4 0 8z", class: "graph-tip" }))),
        drawn.edges.map((edge) => h("path", { key: `${edge.from} ${edge.to}`, class: `graph-edge is-${edge.kind}`, d: path(edge.points), "marker-end": "url(#tip)" })),
        nodes.map((id) => node(id, drawn.places.get(id), byId.get(id), known.strangers.get(id))),
      ),
    ),
    h(
      "p",
      { class: "soft small graph-key" },
      h("span", { class: "key-line is-needs" }),
      "must be ready first",
      h("span", { class: "key-line is-child" }),
      "came from it",
      known.nodes.length > NODES ? h("span", {}, `Only ${NODES} of ${known.nodes.length} tasks are drawn; filter for the others.`) : null,
    ),
    state.tasksCapped ? h("p", { class: "soft small" }, "Older tasks that are over are not shown.") : null,
  );
}

function node(id, place, task, name) {
  const inside = h("rect", { width: SIZE.width, height: SIZE.height, rx: 8 });
  const at = { transform: `translate(${place.x} ${place.y})`, key: id };
  if (!task) return h("g", { ...at, class: "graph-node is-stranger" }, inside, line(name, 14, 26, 26, "graph-title"), line("not a task that is known here", 14, 44, 32, "graph-sub"));
  const { word, tone } = stateOf(task.state);
  const sub = [origin(task), task.pull ? `PR #${task.pull}` : ""].filter(Boolean).join(" · ");
  return h(
    "a",
    { ...at, href: taskAddress(id), class: `graph-node tone-${tone}`, "aria-label": `${task.title}, ${word}, ${sub}` },
    inside,
    h("rect", { width: 4, height: SIZE.height, rx: 2, class: "graph-side" }),
    line(task.title, 14, 19, 26, "graph-title"),
    line(sub, 14, 35, 32, "graph-sub"),
    line(word, 14, 50, 32, "graph-state"),
    h("title", {}, `${task.title} (${word})`),
  );
}

function line(text, x, y, most, look) {
  const cut = [...String(text)];
  return h("text", { x, y, class: look }, cut.length > most ? `${cut.slice(0, most - 1).join("")}…` : cut.join(""));
}

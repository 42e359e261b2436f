// Work: tasks on a board by state, or as a dependency graph.

import { secondsSince, shortDuration } from "../lib/format.js";
import { layoutGraph, path } from "../lib/graph_layout.js";
import { taskAddress } from "../lib/routes.js";
import { board, COLUMNS, filterTasks, buildGraph, origin, stateInfo } from "../lib/tasks.js";
import { h } from "../lib/vdom.js";
import { skeleton, empty, originLink, pullLink, stateChip, taskLink, errorPanel, limitedList } from "../components/elements.js";

const ROWS = 40;
// More nodes than this are unreadable.
const NODES = 150;

export function work(state, actions) {
  return h("div", { class: "stack work" }, header(state, actions), body(state, actions));
}

function header(state, actions) {
  const projects = [...new Set([...(state.tasks?.values() ?? [])].map((task) => task.project))].sort();
  return h(
    "div",
    { class: "content-head" },
    h("h1", {}, "Work"),
    h("nav", { class: "choice", "aria-label": "View" }, view("board", "Board", "#/work", state), view("graph", "Graph", "#/work/graph", state)),
    h(
      "div",
      { class: "end filters" },
      h("input", { type: "search", placeholder: "Filter tasks", "aria-label": "Filter tasks", value: state.filter.text, on: { input: (event) => actions.filter({ text: event.target.value }) } }),
      h(
        "select",
        { "aria-label": "Project", on: { change: (event) => actions.filter({ project: event.target.value }) } },
        h("option", { value: "", key: "all" }, "All projects"),
        projects.map((name) => h("option", { value: name, key: `p ${name}` }, name)),
      ),
    ),
  );
}

function view(name, label, href, state) {
  return h("a", { href, "aria-current": state.route.view === name ? "page" : null }, label);
}

function body(state, actions) {
  if (!state.tasks) return state.tasksError ? errorPanel(state.tasksError, actions.loadTasks) : h("div", { class: "board", "aria-busy": "true" }, COLUMNS.map((column) => h("section", { class: "column", key: column.name }, h("h2", {}, column.title), skeleton(2))));
  const shown = filterTasks([...state.tasks.values()], state.filter);
  const layout = state.route.view === "graph" ? graph(shown, state) : boardOf(shown, state, actions);
  if (shown.length || !state.tasks.size) return layout;
  return empty("No task matches this filter.", "Change the filter above.");
}

// -- the board --------------------------------------------------------------------------------

function boardOf(tasks, state, actions) {
  const columns = board(tasks, state.snapshot?.queue);
  return h(
    "div",
    { class: "board" },
    COLUMNS.map((column) => {
      const rows = columns[column.name].map((task) => card(task, state.now));
      return h(
        "section",
        { class: `column tone-${toneOf(column.name)}`, key: column.name, "aria-label": column.title },
        h("div", { class: "section-head" }, h("h2", {}, column.title), h("span", { class: "count" }, rows.length)),
        rows.length ? h("ul", { class: "column-rows" }, limitedList(rows, state.more[column.name] ?? ROWS, () => actions.more(column.name, 1000))) : h("p", { class: "column-empty soft small" }, column.none),
      );
    }),
  );
}

function toneOf(column) {
  return { queued: "wait", running: "work", person: "ask", review: "review", done: "good" }[column];
}

function card(task, now) {
  return h(
    "li",
    { class: "panel board-card", key: task.id },
    h("div", { class: "board-top" }, originLink(task, { class: "soft tiny one-line" }), pullLink(task)),
    h("h3", { class: "two-lines" }, taskLink(task)),
    h("div", { class: "board-foot" }, stateChip(task.state), task.since ? h("span", { class: "soft tiny number" }, shortDuration(secondsSince(task.since, now))) : null, task.flow ? h("span", { class: "soft tiny" }, task.flow.replaceAll("_", " ")) : null),
  );
}

// -- the graph --------------------------------------------------------------------------------

const SIZE = { width: 226, height: 58, gapX: 64, gapY: 18 };
const MARGIN = 12;

function graph(tasks, state) {
  const known = buildGraph(tasks);
  if (!known.nodes.length) return empty("No tasks yet.", "Label an issue or submit a task.");
  const linked = new Set(known.edges.flatMap((edge) => [edge.from, edge.to]));
  // Nodes with edges first, because the graph is about dependencies.
  const nodes = [...known.nodes].sort((a, b) => linked.has(b) - linked.has(a)).slice(0, NODES);
  const layout = layoutGraph(nodes, known.edges, SIZE, Math.max(1, Math.floor((Math.min(state.width, 1480) - 60) / (SIZE.width + SIZE.gapX))));
  const byId = new Map(tasks.map((task) => [task.id, task]));
  const [width, height] = [layout.width + 2 * MARGIN, layout.height + 2 * MARGIN];
  return h(
    "div",
    { class: "stack" },
    h(
      "div",
      { class: "panel graph scroll-x", tabindex: 0, role: "region", "aria-label": "Dependency graph; scrolls sideways" },
      h(
        "svg",
        { width, height, viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}`, role: "group", "aria-label": `${nodes.length} tasks and their dependencies` },
        h("defs", {}, h("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, h("path", { d: "M0 0L8 4 0 8z", class: "graph-tip" }))),
        layout.edges.map((edge) => h("path", { key: `${edge.from} ${edge.to}`, class: `graph-edge is-${edge.kind}`, d: path(edge.points), "marker-end": "url(#tip)" })),
        nodes.map((id) => node(id, layout.positions.get(id), byId.get(id), known.externals.get(id))),
      ),
    ),
    h(
      "p",
      { class: "soft small graph-key" },
      h("span", { class: "key-line is-needs" }),
      "dependency",
      h("span", { class: "key-line is-child" }),
      "child task",
      known.nodes.length > NODES ? h("span", {}, `Showing ${NODES} of ${known.nodes.length} tasks. Use the filter to see others.`) : null,
    ),
    state.tasksCapped ? h("p", { class: "soft small" }, "Older finished tasks are not shown.") : null,
  );
}

function node(id, position, task, name) {
  const inside = h("rect", { width: SIZE.width, height: SIZE.height, rx: 8 });
  const at = { transform: `translate(${position.x} ${position.y})`, key: id };
  if (!task) return h("g", { ...at, class: "graph-node is-external" }, inside, line(name, 14, 26, 26, "graph-title"), line("not a task of this service", 14, 44, 32, "graph-sub"));
  const { label, tone } = stateInfo(task.state);
  const sub = [origin(task), task.pull ? `PR #${task.pull}` : ""].filter(Boolean).join(" · ");
  return h(
    "a",
    { ...at, href: taskAddress(id), class: `graph-node tone-${tone}`, "aria-label": `${task.title}, ${label}, ${sub}` },
    inside,
    h("rect", { width: 4, height: SIZE.height, rx: 2, class: "graph-side" }),
    line(task.title, 14, 19, 26, "graph-title"),
    line(sub, 14, 35, 32, "graph-sub"),
    line(label, 14, 50, 32, "graph-state"),
    h("title", {}, `${task.title} (${label})`),
  );
}

function line(text, x, y, maximum, variant) {
  const cut = [...String(text)];
  return h("text", { x, y, class: variant }, cut.length > maximum ? `${cut.slice(0, maximum - 1).join("")}…` : cut.join(""));
}

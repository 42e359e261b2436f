// Governor: each pool's slots over time, and the share of each project.

import { timeAgo, timeUntil, timeOfDay, timeOfDayWithSeconds, plural, UNKNOWN } from "../lib/format.js";
import { bands, countTicks, scale, stepArea, stepPath, timeTicks } from "../lib/charts.js";
import { mergeHistory } from "../lib/samples.js";
import { h } from "../lib/vdom.js";
import { gauge } from "../components/gauge.js";
import { skeleton, button, chip, empty, sectionHeader, errorPanel } from "../components/elements.js";

export function governor(state, actions) {
  const snapshot = state.snapshot;
  if (!snapshot) return state.snapshotError ? errorPanel(state.snapshotError, actions.refresh) : h("div", { class: "stack", "aria-busy": "true" }, skeleton(3, "panel chart-skeleton"));
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "content-head" }, h("h1", {}, "Governor"), h("p", { class: "soft small" }, since(state))),
    snapshot.governor.pools.map((pool) => poolSection(pool, { ...state, opened: state.history.since, history: mergedHistory(state.history, state.poolHistory) }, actions)),
  );
}

/** Merge both histories, and cache the result until one of them changes. */
let merged = { history: null, poolHistory: null, result: null };

function mergedHistory(history, poolHistory) {
  if (merged.history !== history || merged.poolHistory !== poolHistory) merged = { history, poolHistory, result: mergeHistory(history, poolHistory) };
  return merged.result;
}

function since({ history, poolHistory, poolHistoryError, now }) {
  if (history.since === null) return "";
  const at = (timestamp) => timeOfDay(timestamp, now);
  if (poolHistory) return `Recorded by the service since ${at(new Date(mergedHistory(history, poolHistory).since).toISOString())} (kept for 24 h). Gaps in a line: the service was not running.`;
  return `Recorded by this page since ${at(new Date(history.since).toISOString())}${poolHistoryError ? "; earlier data cannot be read" : ""}.`;
}

function poolSection(pool, state, actions) {
  return h(
    "section",
    { key: pool.pool, class: "pool", "aria-label": `Pool ${pool.pool}` },
    h(
      "div",
      { class: "pool-grid" },
      h("div", { class: "stack pool-side" }, h("ul", { class: "gauges" }, gauge(pool, state.now)), adaptiveState(pool, state.now), controls(pool, actions)),
      h("div", { class: "stack" }, h("div", {}, chart(pool, state), resolutionNote(state)), shares(pool)),
    ),
  );
}

/** Say that data from before the page was opened has a lower resolution. */
function resolutionNote({ poolHistory, opened, now }) {
  if (!poolHistory || opened === null) return null;
  return h("p", { class: "soft tiny under" }, `Before ${timeOfDay(new Date(opened).toISOString(), now)}, when this page was opened: one sample per minute.`);
}

function adaptiveState(pool, now) {
  const overlay = pool.overlay;
  const rows = [["Hard max", overlay?.hard_max || pool.max_global_agents]];
  if (overlay) {
    rows.push(
      ["Policy", pool.policy],
      ["Rate limits hit", plural(overlay.rate_limit_events, "time")],
      ["Last rate limit", overlay.last_rate_limit_at ? timeAgo(overlay.last_rate_limit_at, now) : "never"],
      ["Last decrease", overlay.last_decrease_at ? timeAgo(overlay.last_decrease_at, now) : "never"],
      ["Settle window", overlay.settle_until ? `ends ${timeUntil(overlay.settle_until, now)}` : "not active"],
      ["Breaker", overlay.breaker.state.replace("_", "-") + (overlay.breaker.open_until ? `, probes ${timeUntil(overlay.breaker.open_until, now)}` : "")],
    );
  } else rows.push(["Cap", "fixed"]);
  return h("dl", { class: "facts panel pad" }, rows.map(([name, value]) => [h("dt", { key: `t ${name}` }, name), h("dd", { key: `d ${name}`, class: "number" }, value ?? UNKNOWN)]));
}

function controls(pool, actions) {
  return h(
    "div",
    { class: "row" },
    button("Set cap …", () => actions.setCap(pool)),
    pool.parked ? button("Resume pool", () => actions.resumePool(pool)) : button("Park …", () => actions.park(pool)),
  );
}

// -- the chart --------------------------------------------------------------------------------

const MARGINS = { left: 30, right: 34, top: 14, bottom: 24 };

/** Fit the chart to the page width, so that its text has the usual size. */
function chartBox(width) {
  const available = width > 1020 ? Math.min(width, 1480) - 412 : width - 66;
  return { ...MARGINS, width: Math.max(240, available), height: width > 720 ? 240 : 190 };
}
// Minimum milliseconds that a chart covers.
const MIN_CHART_MS = 60000;

function chart(pool, { history, now, width }) {
  const box = chartBox(width);
  const recorded = history.pools[pool.pool] ?? { samples: [], limits: [] };
  const samples = recorded.samples;
  const from = history.since;
  // The last sample holds until now while the page is connected.
  const end = Math.max(history.until, now);
  const until = Math.max(end, from + MIN_CHART_MS);
  const ticks = countTicks(samples.reduce((maximum, one) => Math.max(maximum, one.ceiling || 0, one.active || 0, one.cap || 0), 1));
  const x = scale([from, until], [box.left, box.width - box.right]);
  const y = scale([0, ticks[ticks.length - 1]], [box.height - box.bottom, box.top]);
  const points = (name) => samples.map((one) => ({ at: one.at, value: one[name] }));
  const last = samples[samples.length - 1];
  return h(
    "figure",
    { class: "panel chart" },
    h(
      "figcaption",
      { class: "chart-key small" },
      key("active", "running agents"),
      key("cap", "cap"),
      key("ceiling", "hard max"),
      key("limit", "rate limit hit"),
      key("breaker", "breaker open"),
      key("parked", "parked"),
    ),
    h(
      "svg",
      { viewBox: `0 0 ${box.width} ${box.height}`, role: "img", "aria-label": last ? `Pool ${pool.pool}: ${plural(last.active, "running agent")}, cap ${last.cap}, hard max ${last.ceiling}, ${plural(recorded.limits.length, "rate limit")} hit` : `Pool ${pool.pool}: no data yet` },
      band(bands(samples.map((one) => ({ at: one.at, value: one.breaker === "closed" ? "" : one.breaker })), end), x, "breaker", box),
      band(bands(samples.map((one) => ({ at: one.at, value: one.parked ? "parked" : "" })), end), x, "parked", box),
      ticks.map((tick) => h("g", { key: `y ${tick}`, class: "chart-grid" }, h("line", { x1: box.left, x2: box.width - box.right, y1: y(tick), y2: y(tick) }), h("text", { x: box.left - 8, y: y(tick) + 4, "text-anchor": "end" }, tick))),
      timeTicks(from, until, Math.max(2, Math.floor(box.width / 90))).map((tick) => h("g", { key: `x ${tick}`, class: "chart-grid" }, h("line", { x1: x(tick), x2: x(tick), y1: box.height - box.bottom, y2: box.height - box.bottom + 4 }), h("text", { x: x(tick), y: box.height - 6, "text-anchor": "middle" }, timeLabel(tick, until - from)))),
      h("path", { class: "chart-area", d: stepArea(points("active"), x, y, end) }),
      h("path", { class: "chart-line is-ceiling", d: stepPath(points("ceiling"), x, y, end) }),
      h("path", { class: "chart-line is-cap", d: stepPath(points("cap"), x, y, end) }),
      h("path", { class: "chart-line is-active", d: stepPath(points("active"), x, y, end) }),
      last ? [h("circle", { key: "cap now", class: "chart-now is-cap", cx: x(end), cy: y(last.cap), r: 3 }), h("circle", { key: "active now", class: "chart-now", cx: x(end), cy: y(last.active), r: 4 })] : null,
      recorded.limits.map((one, at) => h("path", { key: `limit ${at}`, class: "chart-limit", d: `M${x(one.at)} ${box.top - 8}l5 9h-10z` }, h("title", {}, `${plural(one.count, "rate limit")} hit`))),
    ),
  );
}

function band(found, x, name, box) {
  return found.map((one) => h("rect", { key: `${name} ${one.from}`, class: `chart-band is-${name} is-${one.value}`, x: x(one.from), width: Math.max(2, x(one.to) - x(one.from)), y: box.top, height: box.height - box.top - box.bottom }, h("title", {}, name === "parked" ? "parked" : `breaker ${one.value.replace("_", "-")}`)));
}

function timeLabel(at, span) {
  const timestamp = new Date(at).toISOString();
  return span < 600000 ? timeOfDayWithSeconds(timestamp, at) : timeOfDay(timestamp, at);
}

function key(name, label) {
  return h("span", { class: `chart-key-item is-${name}`, key: name }, label);
}

// -- shares -----------------------------------------------------------------------------------

function shares(pool) {
  const rows = projectsOf(pool);
  return h(
    "div",
    { class: "panel pad" },
    sectionHeader("Share per project", rows.length),
    rows.length
      ? h(
          "div",
          { class: "scroll-x" },
          h(
            "table",
            { class: "shares" },
            h("thead", {}, h("tr", {}, ["Project", "Share in use", "Running", "Share", "Wanted", "Waiting for"].map((name) => h("th", { key: name, scope: "col" }, name)))),
            h("tbody", {}, rows.map(shareRow)),
          ),
        )
      : empty("No project is using this pool.", "Shares are divided among projects that have work."),
  );
}

/** Return a pool's projects; older services report only shares and leases. */
export function projectsOf(pool) {
  if (pool.projects) return pool.projects;
  const running = new Map();
  for (const lease of pool.leases) if (!lease.released) running.set(lease.project, (running.get(lease.project) ?? 0) + 1);
  return [...new Set([...Object.keys(pool.shares), ...running.keys()])].sort().map((project) => ({
    project,
    holds: running.get(project) ?? 0,
    share: pool.shares[project] ?? 0,
    wants: pool.demand.find((demand) => demand.project === project)?.wanted ?? null,
    waits: null,
  }));
}

const BAR = { width: 180, height: 14 };

function shareRow(one) {
  // The whole bar is the share; a project above its share fills it.
  const part = Math.min(1, one.holds / Math.max(1, one.share));
  return h(
    "tr",
    { key: one.project },
    h("th", { scope: "row" }, one.project),
    h(
      "td",
      {},
      h(
        "svg",
        { class: "share-bar", viewBox: `0 0 ${BAR.width} ${BAR.height}`, role: "img", "aria-label": `${one.holds} running of a share of ${one.share}` },
        h("rect", { class: "share-all", width: BAR.width, height: BAR.height, rx: 4 }),
        h("rect", { class: "share-used", width: part * BAR.width, height: BAR.height, rx: 4 }),
      ),
    ),
    h("td", { class: "number" }, one.holds),
    h("td", { class: "number" }, one.share),
    h("td", { class: "number" }, one.wants ?? UNKNOWN),
    h("td", { class: "small" }, one.waits ? [chip(String(one.waits.gate ?? one.waits.reason ?? "held"), "wait"), " ", one.waits.why ?? ""] : h("span", { class: "soft" }, "nothing")),
  );
}

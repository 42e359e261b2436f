// The governor: what each pool takes, over time, and who has which share.

import { ago, ahead, clock, clockSeconds, many, UNKNOWN } from "../lib/format.js";
import { bands, countTicks, scale, stepArea, stepPath, timeTicks } from "../lib/charts.js";
import { withPast } from "../lib/samples.js";
import { h } from "../lib/vdom.js";
import { gauge } from "../parts/gauge.js";
import { bones, button, chip, empty, sectionHead, trouble } from "../parts/small.js";

export function governor(state, acts) {
  const seen = state.snapshot;
  if (!seen) return state.snapshotError ? trouble(state.snapshotError, acts.refresh) : h("div", { class: "stack", "aria-busy": "true" }, bones(3, "panel chart-bone"));
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "room-head" }, h("h1", {}, "Governor"), h("p", { class: "soft small" }, since(state))),
    seen.governor.pools.map((pool) => poolPart(pool, { ...state, opened: state.history.since, history: known(state.history, state.past) }, acts)),
  );
}

/** Both together, joined anew only when one of them has changed. */
let joined = { history: null, past: null, found: null };

function known(history, past) {
  if (joined.history !== history || joined.past !== past) joined = { history, past, found: withPast(history, past) };
  return joined.found;
}

function since({ history, past, pastError, now }) {
  if (history.since === null) return "";
  const at = (stamp) => clock(stamp, now);
  if (past) return `Charts show what the service has noted since ${at(new Date(known(history, past).since).toISOString())}; a day is kept. Where a line is broken, no service was at work.`;
  return `Charts show what this page has seen since ${at(new Date(history.since).toISOString())}${pastError ? "; what was before cannot be read" : ""}.`;
}

function poolPart(pool, state, acts) {
  return h(
    "section",
    { key: pool.pool, class: "pool", "aria-label": `Pool ${pool.pool}` },
    h(
      "div",
      { class: "pool-grid" },
      h("div", { class: "stack pool-side" }, h("ul", { class: "gauges" }, gauge(pool, state.now)), learned(pool, state.now), controls(pool, acts)),
      h("div", { class: "stack" }, h("div", {}, chart(pool, state), grain(state)), shares(pool)),
    ),
  );
}

/** How fine a chart is, from where to where. */
function grain({ past, opened, now }) {
  if (!past || opened === null) return null;
  return h("p", { class: "soft tiny under" }, `What was before ${clock(new Date(opened).toISOString(), now)}, when this page was opened, is noted once a minute.`);
}

function learned(pool, now) {
  const overlay = pool.overlay;
  const rows = [["Hard max", overlay?.hard_max || pool.max_global_agents]];
  if (overlay) {
    rows.push(
      ["Policy", pool.policy],
      ["Limits met", many(overlay.rate_limit_events, "time")],
      ["Last limit", overlay.last_rate_limit_at ? ago(overlay.last_rate_limit_at, now) : "never"],
      ["Last decrease", overlay.last_decrease_at ? ago(overlay.last_decrease_at, now) : "never"],
      ["Settles", overlay.settle_until ? ahead(overlay.settle_until, now) : "settled"],
      ["Breaker", overlay.breaker.state.replace("_", "-") + (overlay.breaker.open_until ? `, tries ${ahead(overlay.breaker.open_until, now)}` : "")],
    );
  } else rows.push(["Cap", "fixed by the operator"]);
  return h("dl", { class: "facts panel pad" }, rows.map(([name, value]) => [h("dt", { key: `t ${name}` }, name), h("dd", { key: `d ${name}`, class: "number" }, value ?? UNKNOWN)]));
}

function controls(pool, acts) {
  return h(
    "div",
    { class: "row" },
    button("Set cap …", () => acts.setCap(pool)),
    pool.parked ? button("Open it", () => acts.openPool(pool)) : button("Park …", () => acts.park(pool)),
  );
}

// -- the chart --------------------------------------------------------------------------------

const MARGINS = { left: 30, right: 34, top: 14, bottom: 24 };

/** As wide as there is room for, so that words in it are as large as others. */
function boxFor(width) {
  const room = width > 1020 ? Math.min(width, 1480) - 412 : width - 66;
  return { ...MARGINS, width: Math.max(240, room), height: width > 720 ? 240 : 190 };
}
// A chart of a page that was just opened shows at least so much.
const SHORTEST = 60000;

function chart(pool, { history, now, width }) {
  const box = boxFor(width);
  const known = history.pools[pool.pool] ?? { samples: [], limits: [] };
  const samples = known.samples;
  const from = history.since;
  // What was seen last holds until now, as long as the page is told of changes.
  const end = Math.max(history.until, now);
  const until = Math.max(end, from + SHORTEST);
  const ticks = countTicks(samples.reduce((most, one) => Math.max(most, one.ceiling || 0, one.active || 0, one.cap || 0), 1));
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
      key("active", "agents at work"),
      key("cap", "cap"),
      key("ceiling", "hard max"),
      key("limit", "limit met"),
      key("breaker", "breaker open"),
      key("parked", "parked"),
    ),
    h(
      "svg",
      { viewBox: `0 0 ${box.width} ${box.height}`, role: "img", "aria-label": last ? `Pool ${pool.pool}: ${many(last.active, "agent")} at work, cap ${last.cap}, hard max ${last.ceiling}, ${many(known.limits.length, "limit")} met so far` : `Pool ${pool.pool}: nothing seen yet` },
      band(bands(samples.map((one) => ({ at: one.at, value: one.breaker === "closed" ? "" : one.breaker })), end), x, "breaker", box),
      band(bands(samples.map((one) => ({ at: one.at, value: one.parked ? "parked" : "" })), end), x, "parked", box),
      ticks.map((tick) => h("g", { key: `y ${tick}`, class: "chart-grid" }, h("line", { x1: box.left, x2: box.width - box.right, y1: y(tick), y2: y(tick) }), h("text", { x: box.left - 8, y: y(tick) + 4, "text-anchor": "end" }, tick))),
      timeTicks(from, until, Math.max(2, Math.floor(box.width / 90))).map((tick) => h("g", { key: `x ${tick}`, class: "chart-grid" }, h("line", { x1: x(tick), x2: x(tick), y1: box.height - box.bottom, y2: box.height - box.bottom + 4 }), h("text", { x: x(tick), y: box.height - 6, "text-anchor": "middle" }, timeWords(tick, until - from)))),
      h("path", { class: "chart-area", d: stepArea(points("active"), x, y, end) }),
      h("path", { class: "chart-line is-ceiling", d: stepPath(points("ceiling"), x, y, end) }),
      h("path", { class: "chart-line is-cap", d: stepPath(points("cap"), x, y, end) }),
      h("path", { class: "chart-line is-active", d: stepPath(points("active"), x, y, end) }),
      last ? [h("circle", { key: "cap now", class: "chart-now is-cap", cx: x(end), cy: y(last.cap), r: 3 }), h("circle", { key: "active now", class: "chart-now", cx: x(end), cy: y(last.active), r: 4 })] : null,
      known.limits.map((one, at) => h("path", { key: `limit ${at}`, class: "chart-limit", d: `M${x(one.at)} ${box.top - 8}l5 9h-10z` }, h("title", {}, `${many(one.count, "limit")} met`))),
    ),
  );
}

function band(found, x, name, box) {
  return found.map((one) => h("rect", { key: `${name} ${one.from}`, class: `chart-band is-${name} is-${one.value}`, x: x(one.from), width: Math.max(2, x(one.to) - x(one.from)), y: box.top, height: box.height - box.top - box.bottom }, h("title", {}, name === "parked" ? "parked" : `breaker ${one.value.replace("_", "-")}`)));
}

function timeWords(at, span) {
  const stamp = new Date(at).toISOString();
  return span < 600000 ? clockSeconds(stamp, at) : clock(stamp, at);
}

function key(name, words) {
  return h("span", { class: `chart-key-item is-${name}`, key: name }, words);
}

// -- shares -----------------------------------------------------------------------------------

function shares(pool) {
  const rows = projectsOf(pool);
  return h(
    "div",
    { class: "panel pad" },
    sectionHead("Share per project", rows.length),
    rows.length
      ? h(
          "div",
          { class: "scroll-x" },
          h(
            "table",
            { class: "shares" },
            h("thead", {}, h("tr", {}, ["Project", "Holds, of its share", "Holds", "Share", "Wants", "Waits for"].map((name) => h("th", { key: name, scope: "col" }, name)))),
            h("tbody", {}, rows.map(shareRow)),
          ),
        )
      : empty("Nobody asks for a place in this pool.", "Shares are dealt among projects that have work."),
  );
}

/** What older and newer services tell of the projects of a pool. */
export function projectsOf(pool) {
  if (pool.projects) return pool.projects;
  const holds = new Map();
  for (const lease of pool.leases) if (!lease.lent) holds.set(lease.project, (holds.get(lease.project) ?? 0) + 1);
  return [...new Set([...Object.keys(pool.shares), ...holds.keys()])].sort().map((project) => ({
    project,
    holds: holds.get(project) ?? 0,
    share: pool.shares[project] ?? 0,
    wants: pool.demand.find((wish) => wish.project === project)?.wanted ?? null,
    waits: null,
  }));
}

const BAR = { width: 180, height: 14 };

function shareRow(one) {
  // The whole bar is the share; who holds more than that fills it.
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
        { class: "share-bar", viewBox: `0 0 ${BAR.width} ${BAR.height}`, role: "img", "aria-label": `holds ${one.holds} of a share of ${one.share}` },
        h("rect", { class: "share-all", width: BAR.width, height: BAR.height, rx: 4 }),
        h("rect", { class: "share-held", width: part * BAR.width, height: BAR.height, rx: 4 }),
      ),
    ),
    h("td", { class: "number" }, one.holds),
    h("td", { class: "number" }, one.share),
    h("td", { class: "number" }, one.wants ?? UNKNOWN),
    h("td", { class: "small" }, one.waits ? [chip(String(one.waits.gate ?? one.waits.reason ?? "held"), "wait"), " ", one.waits.why ?? ""] : h("span", { class: "soft" }, "nothing")),
  );
}

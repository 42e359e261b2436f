import { bands, countTicks, scale, stepArea, stepPath, timeTicks } from "/static/js/lib/charts.js";
import { layoutGraph, path } from "/static/js/lib/graph_layout.js";
import { MAX_SAMPLES, EMPTY_HISTORY, addSnapshot, sampleOf, addGap, mergeHistory } from "/static/js/lib/samples.js";
import { parkedText } from "/static/js/components/gauge.js";
import { any, dice, equal, holds, test } from "./harness.js";
export { run } from "./harness.js";

const SIZE = { width: 100, height: 40, gapX: 50, gapY: 10 };

test("dependencies stand left of their dependents", () => {
  const found = layoutGraph(["c", "b", "a"], [{ from: "a", to: "b" }, { from: "b", to: "c" }, { from: "a", to: "c" }], SIZE);
  equal(["a", "b", "c"].map((id) => found.positions.get(id).layer), [0, 1, 2]);
  equal(found.edges.length, 3);
});

test("without edges nodes stand in rows", () => {
  const found = layoutGraph(["a", "b", "c"], [], SIZE, 2);
  equal(["a", "b", "c"].map((id) => [found.positions.get(id).x, found.positions.get(id).y]), [[0, 0], [150, 0], [0, 50]]);
  equal([found.width, found.height], [250, 90]);
  equal(layoutGraph([], [], SIZE).positions.size, 0);
});

function randomGraph(roll) {
  const nodes = Array.from({ length: 1 + Math.floor(roll() * 14) }, (_, at) => `n${at}`);
  const edges = Array.from({ length: Math.floor(roll() * 22) }, () => ({ from: any(roll, [...nodes, "nobody"]), to: any(roll, nodes), kind: "needs" }));
  return [nodes, edges];
}

function overlap(a, b) {
  return Math.abs(a.x - b.x) < SIZE.width && Math.abs(a.y - b.y) < SIZE.height - 0.01;
}

test("any graph, also with cycles: every node has its own position inside the drawing", () => {
  const roll = dice(21);
  for (let round = 0; round < 400; round += 1) {
    const [nodes, edges] = randomGraph(roll);
    const found = layoutGraph(nodes, edges, SIZE, 3);
    equal(found.positions.size, nodes.length);
    const all = [...found.positions.values()];
    for (const one of all) {
      holds(one.x >= 0 && one.y >= -0.01 && one.x + SIZE.width <= found.width && one.y + SIZE.height <= found.height + 0.01, `outside: ${JSON.stringify(one)}`);
      for (const other of all) holds(one === other || !overlap(one, other), `overlapping nodes: ${JSON.stringify([nodes, edges])}`);
    }
    for (const edge of found.edges) {
      holds(!path(edge.points).includes("NaN"), "a path to nowhere");
      const [from, to] = [found.positions.get(edge.from), found.positions.get(edge.to)];
      holds(from.layer !== to.layer, "an edge inside a layer");
    }
  }
});

test("without cycles every edge goes to the right", () => {
  const roll = dice(22);
  for (let round = 0; round < 200; round += 1) {
    const nodes = Array.from({ length: 8 }, (_, at) => `n${at}`);
    const edges = Array.from({ length: 12 }, () => [Math.floor(roll() * 8), Math.floor(roll() * 8)]).filter(([a, b]) => a < b).map(([a, b]) => ({ from: `n${a}`, to: `n${b}` }));
    for (const edge of layoutGraph(nodes, edges, SIZE).edges) {
      const found = layoutGraph(nodes, edges, SIZE);
      holds(found.positions.get(edge.from).x < found.positions.get(edge.to).x, "an edge to the left");
      equal(edge.points[0][0] < edge.points[edge.points.length - 1][0], true);
    }
  }
});

test("the same graph looks the same", () => {
  const [nodes, edges] = randomGraph(dice(4));
  equal([...layoutGraph(nodes, edges, SIZE).positions], [...layoutGraph(nodes, edges, SIZE).positions]);
});

test("ticks are whole, few, and reach the top", () => {
  for (let most = 0; most < 500; most += 1) {
    const ticks = countTicks(most);
    holds(ticks.every(Number.isInteger) && ticks.length <= 7 && ticks[ticks.length - 1] >= most && ticks[0] === 0, `${most}: ${ticks}`);
  }
});

test("times of ticks are round and inside", () => {
  const from = Date.parse("2026-03-01T12:00:07.000Z");
  for (const span of [1000, 60000, 600000, 3600000, 86400000, 40 * 86400000]) {
    const ticks = timeTicks(from, from + span);
    holds(ticks.every((tick) => tick >= from && tick <= from + span && tick % 5000 === 0), `${span}`);
  }
});

test("a value holds until the next one, and unknown values leave a gap", () => {
  const same = (value) => value;
  equal(stepPath([{ at: 0, value: 1 }, { at: 5, value: 3 }], same, same, 9), "M0 1H5V3H9");
  equal(stepPath([{ at: 0, value: 1 }, { at: 5, value: NaN }, { at: 7, value: 2 }], same, same, 9), "M0 1H5M7 2H9");
  equal(stepArea([{ at: 0, value: 2 }, { at: 5, value: 0 }], same, same, 9), "M0 0V2H5V0Z");
  equal(bands([{ at: 0, value: "" }, { at: 2, value: "open" }, { at: 4, value: "open" }, { at: 6, value: "" }], 9), [{ from: 2, to: 6, value: "open" }]);
  equal(scale([5, 5], [1, 2])(5), 1);
});

const pool = (more = {}) => ({ pool: "p", max_global_agents: 8, active: 1, parked: null, ...more });
const seen = (second, one) => ({ now: new Date(1772366400000 + second * 1000).toISOString(), governor: { pools: [one] } });

test("an unchanged pool adds no sample, and the history is bounded", () => {
  let history = addSnapshot(EMPTY_HISTORY, seen(0, pool()));
  history = addSnapshot(history, seen(1, pool()));
  equal(history.pools.p.samples.length, 1);
  equal((history.until - history.since) / 1000, 1);
  for (let second = 2; second < MAX_SAMPLES + 50; second += 1) history = addSnapshot(history, seen(second, pool({ active: second % 7 })));
  holds(history.pools.p.samples.length <= MAX_SAMPLES, "it grows without end");
});

test("rate limits are counted from the first sample on, at their reported time", () => {
  const overlay = (events, at) => ({ hard_max: 8, rate_limit_events: events, last_rate_limit_at: at, breaker: { state: "closed" } });
  let history = addSnapshot(EMPTY_HISTORY, seen(0, pool({ cap: 4, overlay: overlay(5, null) })));
  equal(history.pools.p.limits, []);
  history = addSnapshot(history, seen(10, pool({ cap: 2, overlay: overlay(7, seen(8, null).now) })));
  equal(history.pools.p.limits, [{ at: Date.parse(seen(8, null).now), count: 2 }]);
});

test("a pool with a fixed cap has no breaker", () => {
  equal(sampleOf(pool(), 5), { at: 5, ceiling: 8, cap: 8, active: 1, breaker: "closed", parked: false, events: 0 });
});

const at = (second) => seen(second, null).now;
const noted = (second, more = {}) => ({ at: at(second), ceiling: 8, cap: 4, active: 1, breaker: "closed", parked: false, ...more });

const result = (one) => one.samples.map((sample) => [(sample.at - Date.parse(at(0))) / 1000, Number.isFinite(sample.cap) ? sample.active : null]);

test("recorded samples come before the page's own samples", () => {
  let history = addSnapshot(EMPTY_HISTORY, seen(100, pool({ active: 1 })));
  history = addSnapshot(history, seen(110, pool({ active: 2 })));
  const past = { pools: { p: { samples: [noted(20), noted(80, { active: 5 }), noted(101), noted(160)], limits: [{ at: at(30), count: 2 }, { at: at(105), count: 1 }] } } };
  const found = mergeHistory(history, past);
  equal(result(found.pools.p), [[20, 1], [80, 5], [100, 1], [110, 2]]);
  equal(found.pools.p.limits.map((one) => one.count), [2]);
  equal(found.since, Date.parse(at(20)));
  equal(mergeHistory(history, null), history);
});

test("recorded samples fill the time without a connection", () => {
  let history = addSnapshot(EMPTY_HISTORY, seen(100, pool({ active: 1 })));
  history = addGap(history, Date.parse(at(120)));
  const past = { pools: { p: { samples: [noted(110), noted(130, { active: 4 })], limits: [{ at: at(125), count: 3 }] }, q: { samples: [noted(50)], limits: [] } } };
  history = addSnapshot(history, seen(140, pool({ active: 1 })));
  const found = mergeHistory(history, past);
  equal(result(found.pools.p), [[100, 1], [120, null], [130, 4], [140, 1]]);
  equal(found.pools.p.limits.map((one) => one.count), [3]);
  equal(result(found.pools.q), [[50, 1]]);
});

test("a long time without samples is a gap", () => {
  const history = addSnapshot(EMPTY_HISTORY, seen(9000, pool()));
  const found = mergeHistory(history, { pools: { p: { samples: [noted(0), noted(600), noted(3000)], limits: [] } } });
  equal(found.pools.p.samples.map((one) => Number.isFinite(one.cap)), [true, true, false, true, false, true]);
  holds(found.pools.p.samples.every((one, n, all) => !n || one.at > all[n - 1].at), "out of order");
});

test("a pool parked without an end is parked until resumed", () => {
  const now = Date.parse("2026-03-01T12:00:00Z");
  equal(parkedText({ until: null }, now), "parked until resumed");
  holds(parkedText({ until: "2026-03-01T12:30:00Z" }, now).startsWith("parked until 1"));
});

// Pool history: samples recorded by the service, and samples taken by this page since it was opened.

import { parseTimestamp } from "./format.js";

export const MAX_SAMPLES = 1440;

/** Add a snapshot to the history. A pool that has not changed gets no new sample. */
export function addSnapshot(history, snapshot) {
  const at = parseTimestamp(snapshot.now);
  if (Number.isNaN(at)) return history;
  const pools = { ...history.pools };
  for (const pool of snapshot.governor?.pools ?? []) pools[pool.pool] = appendSample(pools[pool.pool], pool, at);
  return { since: history.since ?? at, until: Math.max(at, history.until ?? at), pools };
}

export const EMPTY_HISTORY = Object.freeze({ since: null, until: null, pools: Object.freeze({}) });

function appendSample(known = { samples: [], limits: [] }, pool, at) {
  const sample = sampleOf(pool, at);
  const last = known.samples[known.samples.length - 1];
  if (last && (at < last.at || same(last, sample))) return known;
  return { samples: [...known.samples, sample].slice(-MAX_SAMPLES), limits: appendLimits(known, last, sample, pool) };
}

/** Return a sample of one pool. */
export function sampleOf(pool, at) {
  const overlay = pool.overlay ?? null;
  return {
    at,
    ceiling: overlay?.hard_max || pool.max_global_agents,
    cap: pool.cap ?? pool.max_global_agents,
    active: pool.active,
    breaker: overlay?.breaker?.state ?? "closed",
    parked: Boolean(pool.parked),
    events: overlay?.rate_limit_events ?? 0,
  };
}

function same(one, other) {
  return Object.keys(other).every((name) => name === "at" || one[name] === other[name]);
}

/** Add the rate limits that were hit since the last sample. */
function appendLimits(known, last, sample, pool) {
  const more = last ? sample.events - last.events : 0;
  if (more <= 0) return known.limits;
  const reportedAt = parseTimestamp(pool.overlay?.last_rate_limit_at);
  const at = Number.isNaN(reportedAt) ? sample.at : Math.min(reportedAt, sample.at);
  return [...known.limits, { at, count: more }].slice(-MAX_SAMPLES);
}

// The service records an unchanged pool every ten minutes; a longer gap means it was not running.
const MAX_GAP_MS = 900000;
const GAP_SAMPLE = Object.freeze({ ceiling: NaN, cap: NaN, active: NaN, breaker: "closed", parked: false, events: 0 });

/** Add a gap from a time on, because the connection was lost. */
export function addGap(history, at) {
  const pools = Object.fromEntries(Object.entries(history.pools).map(([name, known]) => [name, { ...known, samples: [...known.samples, { ...GAP_SAMPLE, at }].slice(-MAX_SAMPLES) }]));
  return { ...history, pools };
}

/** Merge the page's own samples with the recorded history, if any. Recorded samples fill
 *  only the times without own samples, which have a higher resolution. */
export function mergeHistory(own, recordedHistory) {
  if (!recordedHistory || own.since === null) return own;
  const pools = { ...own.pools };
  for (const [name, recorded] of Object.entries(recordedHistory.pools)) pools[name] = mergePool(recorded, own.pools[name] ?? { samples: [], limits: [] });
  const first = Object.values(pools).map((one) => one.samples[0]?.at ?? Infinity);
  return { since: Math.min(own.since, ...first), until: own.until, pools };
}

function mergePool(recorded, own) {
  const missed = ({ at }) => !Number.isFinite(own.samples.findLast((one) => one.at <= at)?.cap);
  const before = recorded.samples.map((one) => ({ ...one, at: parseTimestamp(one.at), events: 0, recorded: true })).filter(missed);
  const limits = recorded.limits.map((one) => ({ at: parseTimestamp(one.at), count: one.count })).filter(missed);
  const inOrder = (a, b) => a.at - b.at;
  return { samples: insertGaps([...before, ...own.samples].sort(inOrder)), limits: [...limits, ...own.limits].sort(inOrder) };
}

/** Insert a gap wherever the service recorded nothing for long. */
function insertGaps(samples) {
  return samples.flatMap((one, number) => {
    const next = samples[number + 1];
    return one.recorded && next && next.at - one.at > MAX_GAP_MS ? [one, { ...GAP_SAMPLE, at: one.at + MAX_GAP_MS }] : [one];
  });
}

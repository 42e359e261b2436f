// What a page has seen of each pool since it was opened.

import { moment } from "./format.js";

export const MOST = 1440;

/** The history with one more snapshot. What did not change makes no new sample. */
export function remember(history, snapshot) {
  const at = moment(snapshot.now);
  if (Number.isNaN(at)) return history;
  const pools = { ...history.pools };
  for (const pool of snapshot.governor?.pools ?? []) pools[pool.pool] = withSample(pools[pool.pool], pool, at);
  return { since: history.since ?? at, until: Math.max(at, history.until ?? at), pools };
}

export const NOTHING = Object.freeze({ since: null, until: null, pools: Object.freeze({}) });

function withSample(known = { samples: [], limits: [] }, pool, at) {
  const sample = sampleOf(pool, at);
  const last = known.samples[known.samples.length - 1];
  if (last && (at < last.at || same(last, sample))) return known;
  return { samples: [...known.samples, sample].slice(-MOST), limits: limitsAfter(known, last, sample, pool) };
}

/** One pool at one moment. */
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

/** Limits that were met: how many more than at the last look. */
function limitsAfter(known, last, sample, pool) {
  const more = last ? sample.events - last.events : 0;
  if (more <= 0) return known.limits;
  const told = moment(pool.overlay?.last_rate_limit_at);
  const at = Number.isNaN(told) ? sample.at : Math.min(told, sample.at);
  return [...known.limits, { at, count: more }].slice(-MOST);
}

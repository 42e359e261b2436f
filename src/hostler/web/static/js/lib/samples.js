// What is known of each pool over time: what the service has noted, and what the page has seen since.

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

// The service notes a pool that stays as it is every ten minutes: who is silent for longer was away.
const AWAY = 900000;
const UNSEEN = Object.freeze({ ceiling: NaN, cap: NaN, active: NaN, breaker: "closed", parked: false, events: 0 });

/** The history with a hole from a moment on: nobody tells us any more. */
export function unseen(history, at) {
  const pools = Object.fromEntries(Object.entries(history.pools).map(([name, known]) => [name, { ...known, samples: [...known.samples, { ...UNSEEN, at }].slice(-MOST) }]));
  return { ...history, pools };
}

/** What the page has seen, and what the service noted before and while the page did not look;
 *  `past` is the service's answer, or null. The page sees more of what it sees. */
export function withPast(seen, past) {
  if (!past || seen.since === null) return seen;
  const pools = { ...seen.pools };
  for (const [name, noted] of Object.entries(past.pools)) pools[name] = joined(noted, seen.pools[name] ?? { samples: [], limits: [] });
  const first = Object.values(pools).map((one) => one.samples[0]?.at ?? Infinity);
  return { since: Math.min(seen.since, ...first), until: seen.until, pools };
}

function joined(noted, own) {
  const missed = ({ at }) => !Number.isFinite(own.samples.findLast((one) => one.at <= at)?.cap);
  const before = noted.samples.map((one) => ({ ...one, at: moment(one.at), events: 0, noted: true })).filter(missed);
  const limits = noted.limits.map((one) => ({ at: moment(one.at), count: one.count })).filter(missed);
  const inOrder = (a, b) => a.at - b.at;
  return { samples: broken([...before, ...own.samples].sort(inOrder)), limits: [...limits, ...own.limits].sort(inOrder) };
}

/** Notes with a hole wherever nobody looked for long. */
function broken(samples) {
  return samples.flatMap((one, number) => {
    const next = samples[number + 1];
    return one.noted && next && next.at - one.at > AWAY ? [one, { ...UNSEEN, at: one.at + AWAY }] : [one];
  });
}

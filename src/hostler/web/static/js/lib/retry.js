// Delay before the next reconnect.

const FIRST_DELAY_MS = 1000;
const MAX_DELAY_MS = 30000;

/** Return the milliseconds to wait after the given number of failures (from 1): doubled each time,
 *  with jitter from `roll` in [0, 1) so that pages do not reconnect together. */
export function delay(failures, roll) {
  const base = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** (Math.max(1, failures) - 1));
  return Math.round(base * (0.75 + roll / 4));
}

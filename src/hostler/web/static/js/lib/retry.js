// How long to wait before the next try.

const FIRST = 1000;
const LONGEST = 30000;

/** Milliseconds before try number `failures` (from 1): doubled each time, spread by `roll` in
 *  [0, 1), so that many pages do not come back in the same moment. */
export function delay(failures, roll) {
  const base = Math.min(LONGEST, FIRST * 2 ** (Math.max(1, failures) - 1));
  return Math.round(base * (0.75 + roll / 4));
}

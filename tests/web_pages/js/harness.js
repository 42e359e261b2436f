// A minimal test harness: runs all tests of a file and returns the failures.

const tests = [];

export function test(name, body) {
  tests.push([name, body]);
}

export async function run() {
  const failed = [];
  for (const [name, body] of tests) {
    try {
      await body();
    } catch (error) {
      failed.push(`${name}: ${error.message}`);
    }
  }
  return { count: tests.length, failed };
}

export function equal(found, wanted, about = "") {
  const [a, b] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (a !== b) throw new Error(`${about} found ${a}, wanted ${b}`);
}

export function holds(what, about) {
  if (!what) throw new Error(about);
}

/** Return a seeded random number generator. */
export function dice(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** Return a random element of a list. */
export function any(roll, list) {
  return list[Math.floor(roll() * list.length)];
}

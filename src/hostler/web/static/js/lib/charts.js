// Samples over time as paths, ticks and bands.

/** A function from `domain` to `range`; a domain without width lies at the beginning. */
export function scale([from, to], [low, high]) {
  const width = to - from;
  return (value) => (width === 0 ? low : low + ((value - from) / width) * (high - low));
}

/** Whole numbers from 0 to at least `most`, few and evenly spaced. */
export function countTicks(most, wanted = 4) {
  const top = Math.max(1, Math.ceil(most));
  const step = nice(top / wanted);
  const ticks = [];
  for (let at = 0; at < top + step; at += step) ticks.push(at);
  return ticks;
}

function nice(rough) {
  let size = 1;
  for (;;) {
    for (const factor of [1, 2, 5]) if (factor * size >= rough) return factor * size;
    size *= 10;
  }
}

const SECOND = 1000;
const STEPS = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].map((s) => s * SECOND);

/** Moments on round times, at most `wanted` and a few more. */
export function timeTicks(from, to, wanted = 6) {
  const step = STEPS.find((one) => (to - from) / one <= wanted) ?? STEPS[STEPS.length - 1];
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) ticks.push(at);
  return ticks;
}

/** A value that holds until the next one, as a path; where it is unknown, the path is broken. */
export function stepPath(points, x, y, end) {
  let text = "";
  let open = false;
  points.forEach(({ at, value }, number) => {
    const until = number + 1 < points.length ? points[number + 1].at : end;
    if (!Number.isFinite(value)) {
      open = false;
      return;
    }
    text += `${open ? "V" : `M${round(x(at))} `}${round(y(value))}H${round(x(until))}`;
    open = true;
  });
  return text;
}

/** The same filled down to the ground. */
export function stepArea(points, x, y, end) {
  let text = "";
  points.forEach(({ at, value }, number) => {
    const until = number + 1 < points.length ? points[number + 1].at : end;
    if (!Number.isFinite(value) || value <= 0) return;
    text += `M${round(x(at))} ${round(y(0))}V${round(y(value))}H${round(x(until))}V${round(y(0))}Z`;
  });
  return text;
}

/** Times during which something held: [{from, to, value}] for every run of equal values. */
export function bands(points, end) {
  const found = [];
  points.forEach(({ at, value }, number) => {
    const until = number + 1 < points.length ? points[number + 1].at : end;
    const last = found[found.length - 1];
    if (last && last.value === value && last.to === at) last.to = until;
    else found.push({ from: at, to: until, value });
  });
  return found.filter((one) => one.value);
}

function round(number) {
  return Math.round(number * 10) / 10;
}

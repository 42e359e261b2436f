// Convert samples over time to SVG paths, ticks and bands.

/** Return a function that maps `domain` to `range`; an empty domain maps to the start. */
export function scale([from, to], [low, high]) {
  const width = to - from;
  return (value) => (width === 0 ? low : low + ((value - from) / width) * (high - low));
}

/** Return a few evenly spaced integers from 0 to at least `maximum`. */
export function countTicks(maximum, wanted = 4) {
  const top = Math.max(1, Math.ceil(maximum));
  const step = roundStep(top / wanted);
  const ticks = [];
  for (let at = 0; at < top + step; at += step) ticks.push(at);
  return ticks;
}

function roundStep(rough) {
  let size = 1;
  for (;;) {
    for (const factor of [1, 2, 5]) if (factor * size >= rough) return factor * size;
    size *= 10;
  }
}

const SECOND = 1000;
const STEPS = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400].map((s) => s * SECOND);

/** Return about `wanted` timestamps at round times. */
export function timeTicks(from, to, wanted = 6) {
  const step = STEPS.find((one) => (to - from) / one <= wanted) ?? STEPS[STEPS.length - 1];
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) ticks.push(at);
  return ticks;
}

/** Return a step path: each value holds until the next one. Unknown values leave a gap. */
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

/** Return the same steps as a filled area. */
export function stepArea(points, x, y, end) {
  let text = "";
  points.forEach(({ at, value }, number) => {
    const until = number + 1 < points.length ? points[number + 1].at : end;
    if (!Number.isFinite(value) || value <= 0) return;
    text += `M${round(x(at))} ${round(y(0))}V${round(y(value))}H${round(x(until))}V${round(y(0))}Z`;
  });
  return text;
}

/** Return [{from, to, value}] for each stretch of equal truthy values. */
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

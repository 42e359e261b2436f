// Format numbers, durations and timestamps.

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
export const UNKNOWN = "–";

const padTwo = (number) => String(number).padStart(2, "0");

/** Format a duration: 42s, 4m 05s, 3h 12m, 2d 04h. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return UNKNOWN;
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < MINUTE) return `${whole}s`;
  if (whole < HOUR) return `${Math.floor(whole / MINUTE)}m ${padTwo(whole % MINUTE)}s`;
  if (whole < DAY) return `${Math.floor(whole / HOUR)}h ${padTwo(Math.floor((whole % HOUR) / MINUTE))}m`;
  return `${Math.floor(whole / DAY)}d ${padTwo(Math.floor((whole % DAY) / HOUR))}h`;
}

/** Format a duration with its largest unit only: 42s, 4m, 3h, 2d. */
export function shortDuration(seconds) {
  return duration(seconds).split(" ")[0];
}

/** Format a count: 999, 1.2k, 34k, 5.6M. */
export function count(number) {
  if (!Number.isFinite(number)) return UNKNOWN;
  const steps = [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ];
  for (const [size, letter] of steps) {
    // Use the larger unit if the smaller one would round up to 1000.
    if (Math.abs(number) >= size * 0.9995) return `${short(number / size)}${letter}`;
  }
  return String(Math.round(number));
}

function short(number) {
  return Math.abs(number) < 9.95 ? number.toFixed(1).replace(/\.0$/, "") : String(Math.round(number));
}

/** Format US dollars: $0, <$0.01, $0.42, $1,234.50. */
export function money(usd) {
  if (!Number.isFinite(usd)) return UNKNOWN;
  if (usd <= 0) return "$0";
  if (usd < 0.01) return "<$0.01";
  const [whole, cents] = usd.toFixed(2).split(".");
  return `$${whole.replace(/\B(?=(\d{3})+$)/g, ",")}.${cents}`;
}

/** Format megabytes: 512 MB, 6 GB, 1.5 GB. */
export function megabytes(number) {
  if (!Number.isFinite(number)) return UNKNOWN;
  return number < 1024 ? `${Math.round(number)} MB` : `${short(number / 1024)} GB`;
}

/** Format a ratio: 0.123 → 12 %. */
export function percent(share) {
  return Number.isFinite(share) ? `${Math.round(share * 100)}\u00a0%` : UNKNOWN;
}

/** Convert a timestamp to milliseconds; NaN if there is none. */
export function parseTimestamp(timestamp) {
  return timestamp ? Date.parse(timestamp) : NaN;
}

/** Return the seconds since a timestamp, at least 0; NaN if there is none. */
export function secondsSince(timestamp, now) {
  const at = parseTimestamp(timestamp);
  return Number.isNaN(at) ? NaN : Math.max(0, (now - at) / 1000);
}

/** Format a past timestamp: "4m ago", "now". */
export function timeAgo(timestamp, now) {
  const seconds = secondsSince(timestamp, now);
  if (Number.isNaN(seconds)) return UNKNOWN;
  return seconds < 1 ? "now" : `${shortDuration(seconds)} ago`;
}

/** Format a future timestamp: "in 4m", "now". */
export function timeUntil(timestamp, now) {
  const at = parseTimestamp(timestamp);
  if (Number.isNaN(at)) return UNKNOWN;
  const seconds = (at - now) / 1000;
  return seconds < 1 ? "now" : `in ${shortDuration(seconds)}`;
}

/** Format the local time: 09:05, or 1 Mar 09:05 if it is not today. */
export function timeOfDay(timestamp, now) {
  const at = new Date(parseTimestamp(timestamp));
  if (Number.isNaN(at.getTime())) return UNKNOWN;
  const time = `${padTwo(at.getHours())}:${padTwo(at.getMinutes())}`;
  const today = new Date(now);
  return at.toDateString() === today.toDateString() ? time : `${day(at)} ${time}`;
}

/** Format the local time with seconds. */
export function timeOfDayWithSeconds(timestamp, now) {
  const at = new Date(parseTimestamp(timestamp));
  if (Number.isNaN(at.getTime())) return UNKNOWN;
  return `${timeOfDay(timestamp, now)}:${padTwo(at.getSeconds())}`;
}

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

function day(date) {
  return `${date.getDate()} ${MONTHS[date.getMonth()]}`;
}

/** Format a number with its noun: "1 task", "2 tasks". */
export function plural(number, one, more = `${one}s`) {
  return `${number} ${number === 1 ? one : more}`;
}

/** Return the URL if it is http or https, else null. */
export function safeUrl(text) {
  if (typeof text !== "string") return null;
  try {
    const url = new URL(text);
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
  } catch {
    return null;
  }
}

// Numbers and moments in the words of people.

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
export const UNKNOWN = "–";

const two = (number) => String(number).padStart(2, "0");

/** 42s, 4m 05s, 3h 12m, 2d 04h. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return UNKNOWN;
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < MINUTE) return `${whole}s`;
  if (whole < HOUR) return `${Math.floor(whole / MINUTE)}m ${two(whole % MINUTE)}s`;
  if (whole < DAY) return `${Math.floor(whole / HOUR)}h ${two(Math.floor((whole % HOUR) / MINUTE))}m`;
  return `${Math.floor(whole / DAY)}d ${two(Math.floor((whole % DAY) / HOUR))}h`;
}

/** The same with its largest part alone: 42s, 4m, 3h, 2d. */
export function roughly(seconds) {
  return duration(seconds).split(" ")[0];
}

/** 999, 1.2k, 34k, 5.6M. */
export function count(number) {
  if (!Number.isFinite(number)) return UNKNOWN;
  const steps = [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ];
  for (const [size, letter] of steps) {
    // What would be rounded up to 1000 of the smaller belongs to the larger.
    if (Math.abs(number) >= size * 0.9995) return `${short(number / size)}${letter}`;
  }
  return String(Math.round(number));
}

function short(number) {
  return Math.abs(number) < 9.95 ? number.toFixed(1).replace(/\.0$/, "") : String(Math.round(number));
}

/** $0, <$0.01, $0.42, $1,234.50. */
export function money(usd) {
  if (!Number.isFinite(usd)) return UNKNOWN;
  if (usd <= 0) return "$0";
  if (usd < 0.01) return "<$0.01";
  const [whole, cents] = usd.toFixed(2).split(".");
  return `$${whole.replace(/\B(?=(\d{3})+$)/g, ",")}.${cents}`;
}

/** 512 MB, 6 GB, 1.5 GB. */
export function megabytes(number) {
  if (!Number.isFinite(number)) return UNKNOWN;
  return number < 1024 ? `${Math.round(number)} MB` : `${short(number / 1024)} GB`;
}

/** 0.123 → 12 %. */
export function percent(share) {
  return Number.isFinite(share) ? `${Math.round(share * 100)}\u00a0%` : UNKNOWN;
}

/** A stored moment in milliseconds; NaN where there is none. */
export function moment(stamp) {
  return stamp ? Date.parse(stamp) : NaN;
}

/** How many seconds ago a stored moment was; never less than none. */
export function age(stamp, now) {
  const at = moment(stamp);
  return Number.isNaN(at) ? NaN : Math.max(0, (now - at) / 1000);
}

/** "4m ago", "now". */
export function ago(stamp, now) {
  const seconds = age(stamp, now);
  if (Number.isNaN(seconds)) return UNKNOWN;
  return seconds < 1 ? "now" : `${roughly(seconds)} ago`;
}

/** "in 4m", "any moment". */
export function ahead(stamp, now) {
  const at = moment(stamp);
  if (Number.isNaN(at)) return UNKNOWN;
  const seconds = (at - now) / 1000;
  return seconds < 1 ? "any moment" : `in ${roughly(seconds)}`;
}

/** The time of day here: 09:05. With the day where it is another one: 1 Mar 09:05. */
export function clock(stamp, now) {
  const at = new Date(moment(stamp));
  if (Number.isNaN(at.getTime())) return UNKNOWN;
  const time = `${two(at.getHours())}:${two(at.getMinutes())}`;
  const today = new Date(now);
  return at.toDateString() === today.toDateString() ? time : `${day(at)} ${time}`;
}

/** The same to the second. */
export function clockSeconds(stamp, now) {
  const at = new Date(moment(stamp));
  if (Number.isNaN(at.getTime())) return UNKNOWN;
  return `${clock(stamp, now)}:${two(at.getSeconds())}`;
}

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

function day(date) {
  return `${date.getDate()} ${MONTHS[date.getMonth()]}`;
}

/** "1 task", "2 tasks". */
export function many(number, one, more = `${one}s`) {
  return `${number} ${number === 1 ? one : more}`;
}

/** An address that may become a link; null for every other. */
export function safeUrl(text) {
  if (typeof text !== "string") return null;
  try {
    const url = new URL(text);
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
  } catch {
    return null;
  }
}

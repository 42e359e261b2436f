// A terminal's colours as marked pieces of text. Everything else that a terminal would obey
// (cursor, titles, links, bells) is dropped; nothing is ever taken for markup.

const NAMES = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];
export const PLAIN = Object.freeze({});

// CSI ... final | OSC ... BEL or ST | other strings up to ST | two-character escapes | one-byte controls
const ESCAPES = new RegExp(
  [
    "\\x1b\\[([0-?]*)[ -/]*([@-~])",
    "\\x1b\\][^\\x07\\x1b]*(?:\\x07|\\x1b\\\\)?",
    "\\x1b[PX^_][^\\x1b]*(?:\\x1b\\\\)?",
    "\\x1b[ -/]*[0-~]?",
    "[\\x00-\\x08\\x0b-\\x1a\\x1c-\\x1f\\x7f-\\x9f]",
  ].join("|"),
  "g",
);

/** One line as pieces `{text, style}`, and the style in which the next line begins. */
export function pieces(line, style = PLAIN) {
  const found = [];
  let at = 0;
  for (const match of overwritten(line).matchAll(ESCAPES)) {
    push(found, match.input.slice(at, match.index), style);
    at = match.index + match[0].length;
    if (match[2] === "m") style = restyled(style, match[1]);
  }
  push(found, overwritten(line).slice(at), style);
  return { pieces: found, style };
}

/** The text alone. */
export function plain(line) {
  return overwritten(line).replace(ESCAPES, "");
}

/** A carriage return writes over what stands before it: progress bars show their last state. */
function overwritten(line) {
  const text = line.endsWith("\r") ? line.slice(0, -1) : line;
  const cut = text.lastIndexOf("\r");
  return cut < 0 ? text : text.slice(cut + 1);
}

function push(found, text, style) {
  if (!text) return;
  const last = found[found.length - 1];
  if (last && last.style === style) last.text += text;
  else found.push({ text, style });
}

/** The classes of a style: `bold`, `fg-red`, `bg-blue`. */
export function classes(style) {
  const found = [];
  for (const flag of ["bold", "dim", "italic", "underline", "strike"]) if (style[flag]) found.push(`t-${flag}`);
  const [fg, bg] = style.inverse ? [style.bg ?? "ground", style.fg ?? "ink"] : [style.fg, style.bg];
  if (fg) found.push(`fg-${fg}`);
  if (bg) found.push(`bg-${bg}`);
  return found.join(" ");
}

const FLAGS = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike" };
const OFF = { 22: ["bold", "dim"], 23: ["italic"], 24: ["underline"], 27: ["inverse"], 29: ["strike"] };

function restyled(style, text) {
  const codes = text.split(/[;:]/).map((word) => (word === "" ? 0 : Number(word)));
  let next = { ...style };
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at];
    if (code === 0) next = {};
    else if (FLAGS[code]) next[FLAGS[code]] = true;
    else if (OFF[code]) for (const flag of OFF[code]) delete next[flag];
    else if (code === 38 || code === 48) at += extended(next, code === 38 ? "fg" : "bg", codes.slice(at + 1));
    else colour(next, code);
  }
  return Object.keys(next).length ? next : PLAIN;
}

function colour(style, code) {
  if (code >= 30 && code <= 37) style.fg = NAMES[code - 30];
  else if (code === 39) delete style.fg;
  else if (code >= 40 && code <= 47) style.bg = NAMES[code - 40];
  else if (code === 49) delete style.bg;
  else if (code >= 90 && code <= 97) style.fg = `bright-${NAMES[code - 90]}`;
  else if (code >= 100 && code <= 107) style.bg = `bright-${NAMES[code - 100]}`;
}

/** One of 256 colours, or one in red, green and blue: as the nearest that we have. */
function extended(style, part, rest) {
  if (rest[0] === 5) {
    const name = of256(rest[1]);
    if (name) style[part] = name;
    return 2;
  }
  if (rest[0] === 2) {
    style[part] = nearest(rest[1], rest[2], rest[3]);
    return 4;
  }
  return 0;
}

function of256(number) {
  if (!(number >= 0 && number <= 255)) return null;
  if (number < 8) return NAMES[number];
  if (number < 16) return `bright-${NAMES[number - 8]}`;
  if (number >= 232) return number < 244 ? "bright-black" : "white";
  const cube = number - 16;
  const level = (step) => (step ? 55 + 40 * step : 0);
  return nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

function nearest(red = 0, green = 0, blue = 0) {
  const most = Math.max(red, green, blue);
  if (most < 50) return "black";
  const name = NAMES[(red > most * 0.6) + 2 * (green > most * 0.6) + 4 * (blue > most * 0.6)];
  return most > 200 && name !== "white" ? `bright-${name}` : name;
}

// Convert terminal colours to styled pieces of text. Other control sequences (cursor, titles, links,
// bells) are dropped, and nothing is interpreted as markup.

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

/** Split a line into pieces `{text, style}`; also returns the style at the start of the next line. */
export function pieces(line, style = PLAIN) {
  const result = [];
  let at = 0;
  for (const match of afterCarriageReturn(line).matchAll(ESCAPES)) {
    addPiece(result, match.input.slice(at, match.index), style);
    at = match.index + match[0].length;
    if (match[2] === "m") style = applyCodes(style, match[1]);
  }
  addPiece(result, afterCarriageReturn(line).slice(at), style);
  return { pieces: result, style };
}

/** Return the text without control sequences. */
export function plain(line) {
  return afterCarriageReturn(line).replace(ESCAPES, "");
}

/** Drop what a carriage return overwrites, so that progress bars show their last state. */
function afterCarriageReturn(line) {
  const text = line.endsWith("\r") ? line.slice(0, -1) : line;
  const cut = text.lastIndexOf("\r");
  return cut < 0 ? text : text.slice(cut + 1);
}

function addPiece(result, text, style) {
  if (!text) return;
  const last = result[result.length - 1];
  if (last && last.style === style) last.text += text;
  else result.push({ text, style });
}

/** Return the CSS classes of a style: `t-bold`, `fg-red`, `bg-blue`. */
export function classes(style) {
  const result = [];
  for (const flag of ["bold", "dim", "italic", "underline", "strike"]) if (style[flag]) result.push(`t-${flag}`);
  const [fg, bg] = style.inverse ? [style.bg ?? "ground", style.fg ?? "ink"] : [style.fg, style.bg];
  if (fg) result.push(`fg-${fg}`);
  if (bg) result.push(`bg-${bg}`);
  return result.join(" ");
}

const FLAGS = { 1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike" };
const OFF = { 22: ["bold", "dim"], 23: ["italic"], 24: ["underline"], 27: ["inverse"], 29: ["strike"] };

function applyCodes(style, text) {
  const codes = text.split(/[;:]/).map((word) => (word === "" ? 0 : Number(word)));
  let next = { ...style };
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at];
    if (code === 0) next = {};
    else if (FLAGS[code]) next[FLAGS[code]] = true;
    else if (OFF[code]) for (const flag of OFF[code]) delete next[flag];
    else if (code === 38 || code === 48) at += extendedColour(next, code === 38 ? "fg" : "bg", codes.slice(at + 1));
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

/** Map one of 256 colours or an RGB colour to the nearest of the 16 colours. */
function extendedColour(style, part, rest) {
  if (rest[0] === 5) {
    const name = colourOf256(rest[1]);
    if (name) style[part] = name;
    return 2;
  }
  if (rest[0] === 2) {
    style[part] = nearest(rest[1], rest[2], rest[3]);
    return 4;
  }
  return 0;
}

function colourOf256(number) {
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

// Split a text stream into lines with bounded memory, and find search matches in them.

export const MAX_LINES = 5000;
// The rest of a longer line is dropped.
export const MAX_LINE_LENGTH = 20000;

/** Joins chunks of text into lines. `take` returns complete lines, `rest` the incomplete one. */
export class LineJoiner {
  #rest = "";

  take(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop().slice(0, MAX_LINE_LENGTH);
    return lines.map((line) => line.slice(0, MAX_LINE_LENGTH));
  }

  rest() {
    const rest = this.#rest;
    this.#rest = "";
    return rest ? [rest] : [];
  }

  get pending() {
    return this.#rest;
  }
}

/** Return the [start, end] of each case-insensitive match of `query` in `text`. */
export function findMatches(text, query) {
  if (!query) return [];
  // Match case-sensitively if lower case changes the length, because offsets would be wrong.
  const lower = text.toLowerCase();
  const [hay, needle] = lower.length === text.length ? [lower, query.toLowerCase()] : [text, query];
  const found = [];
  for (let at = hay.indexOf(needle); at >= 0; at = hay.indexOf(needle, at + needle.length)) {
    found.push([at, at + needle.length]);
  }
  return found;
}

/** Split pieces at the matches, and mark the pieces inside a match with `hit`. */
export function markMatches(pieces, found) {
  if (!found.length) return pieces;
  const result = [];
  let begin = 0;
  for (const piece of pieces) {
    const end = begin + piece.text.length;
    const cuts = new Set([begin, end]);
    for (const [from, to] of found) for (const cut of [from, to]) if (cut > begin && cut < end) cuts.add(cut);
    const sorted = [...cuts].sort((a, b) => a - b);
    for (let at = 0; at + 1 < sorted.length; at += 1) {
      const [from, to] = [sorted[at], sorted[at + 1]];
      const hit = found.some(([a, b]) => a <= from && to <= b);
      result.push({ text: piece.text.slice(from - begin, to - begin), style: piece.style, hit });
    }
    begin = end;
  }
  return result;
}

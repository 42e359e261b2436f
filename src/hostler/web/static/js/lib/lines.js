// Pieces of a stream as lines, with a bounded memory; and where a word stands in them.

export const MOST = 5000;
// What a line of a program may be; the rest of it is left out.
export const LONGEST = 20000;

/** Joins pieces of text to lines. `take` returns what is complete, `rest` what is not. */
export class Joiner {
  #rest = "";

  take(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop().slice(0, LONGEST);
    return lines.map((line) => line.slice(0, LONGEST));
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

/** Where `word` stands in `text`, without regard to case: pairs of begin and end. */
export function places(text, word) {
  if (!word) return [];
  // Lower case may be longer than the text; then the places would not be right.
  const lower = text.toLowerCase();
  const [hay, needle] = lower.length === text.length ? [lower, word.toLowerCase()] : [text, word];
  const found = [];
  for (let at = hay.indexOf(needle); at >= 0; at = hay.indexOf(needle, at + needle.length)) {
    found.push([at, at + needle.length]);
  }
  return found;
}

/** Pieces, cut where found places begin and end; those inside are marked `hit`. */
export function marked(pieces, found) {
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

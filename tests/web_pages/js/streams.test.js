import { classes, pieces, plain, PLAIN } from "/static/js/lib/ansi.js";
import { LineJoiner, MAX_LINE_LENGTH, markMatches, findMatches } from "/static/js/lib/lines.js";
import { EventParser } from "/static/js/lib/sse.js";
import { any, dice, equal, holds, test } from "./harness.js";
export { run } from "./harness.js";

const E = "\x1b";
const text = (line) => pieces(line).pieces.map((one) => one.text).join("");

test("colours mark pieces, and a reset ends them", () => {
  const found = pieces(`a${E}[31mb${E}[1mc${E}[0md`).pieces.map((one) => [one.text, classes(one.style)]);
  equal(found, [["a", ""], ["b", "fg-red"], ["c", "t-bold fg-red"], ["d", ""]]);
});

test("a style continues in the next line", () => {
  const first = pieces(`${E}[32mok`);
  equal(classes(pieces("still", first.style).pieces[0].style), "fg-green");
});

test("256 colours and RGB colours map to the nearest of 16", () => {
  const look = (codes) => classes(pieces(`${E}[${codes}mx`).pieces[0].style);
  equal([look("38;5;1"), look("38;5;9"), look("38;5;196"), look("38;2;0;200;0"), look("48;5;4"), look("38;5;240"), look("7")], ["fg-red", "fg-bright-red", "fg-bright-red", "fg-green", "bg-blue", "fg-bright-black", "fg-ground bg-ink"]);
  equal([look("38"), look("38;5"), look("99"), look("38;5;999")], ["", "", "", ""]);
});

test("other control sequences are dropped", () => {
  equal(text(`a${E}[2Jb${E}[10;5Hc${E}]0;title\x07d${E}]8;;http://x\x1b\\e${E}(Bf\x07\x08g${E}Pq\x1b\\h`), "abcdefgh");
  equal(text("10 %\r50 %\r100 %"), "100 %");
  equal(text("line\r"), "line");
  equal(text("a\tb"), "a\tb");
});

test("any bytes: the pieces are the plain text, and no control is left", () => {
  const roll = dice(7);
  const parts = [E, "[", "3", "1", "m", ";", "]", "\x07", "\\", "a", "<b>", "é", "\r", "\x9b", "0", "8;;", "\x00", "38;2;", "P"];
  for (let round = 0; round < 3000; round += 1) {
    const line = Array.from({ length: 1 + Math.floor(roll() * 12) }, () => any(roll, parts)).join("");
    const found = text(line);
    equal(found, plain(line), JSON.stringify(line));
    holds(!/[\x00-\x08\x0b-\x1f\x7f-\x9f]/.test(found), `a control is left of ${JSON.stringify(line)}`);
  }
});

test("lines do not depend on chunk boundaries", () => {
  const roll = dice(11);
  for (let round = 0; round < 300; round += 1) {
    const whole = Array.from({ length: 30 }, () => any(roll, ["a", "bc", "\n", "\n\n", "ü"])).join("");
    const joiner = new LineJoiner();
    const found = [];
    for (let at = 0; at < whole.length; ) {
      const next = at + 1 + Math.floor(roll() * 5);
      found.push(...joiner.take(whole.slice(at, next)));
      at = next;
    }
    found.push(...joiner.rest());
    equal(found.join("\n"), whole.replace(/\n$/, ""));
  }
});

test("a line without a line break is bounded", () => {
  const joiner = new LineJoiner();
  for (let round = 0; round < 10; round += 1) joiner.take("x".repeat(MAX_LINE_LENGTH));
  holds(joiner.pending.length <= MAX_LINE_LENGTH, "it grew");
});

test("all matches are found, and marking splits pieces", () => {
  equal(findMatches("Ab ab AB", "ab"), [[0, 2], [3, 5], [6, 8]]);
  equal(findMatches("aaa", "aa"), [[0, 2]]);
  equal(findMatches("x", ""), []);
  equal(findMatches("İx x", "x").length, 2, "a letter that grows in lower case");
  const cut = markMatches([{ text: "abc", style: PLAIN }, { text: "def", style: { bold: true } }], [[2, 4]]);
  equal(cut.map((one) => [one.text, Boolean(one.hit)]), [["ab", false], ["c", true], ["d", true], ["ef", false]]);
});

const STREAM = 'id: 1\nevent: task\ndata: {"a":1}\n\n: beat\n\nid: 2\r\nevent: task\r\ndata: one\r\ndata: two\r\n\r\ndata: plain\n\nevent: lost\n\nid: 3\ndata: end';

test("complete events are parsed, incomplete ones ignored", () => {
  const parser = new EventParser();
  equal(parser.take(STREAM), [
    { type: "task", data: '{"a":1}', id: "1" },
    { type: "task", data: "one\ntwo", id: "2" },
    { type: "message", data: "plain", id: "2" },
  ]);
  equal(parser.lastId, "2");
});

test("events do not depend on chunk boundaries", () => {
  const wanted = new EventParser().take(STREAM);
  const roll = dice(5);
  for (let round = 0; round < 500; round += 1) {
    const parser = new EventParser();
    const found = [];
    for (let at = 0; at < STREAM.length; ) {
      const next = at + 1 + Math.floor(roll() * 9);
      found.push(...parser.take(STREAM.slice(at, next)));
      at = next;
    }
    equal(found, wanted);
  }
});

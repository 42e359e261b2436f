// Live output of a run. The pane appends lines itself instead of rendering the whole page.

import { api, get } from "../api.js";
import { openStream } from "../stream.js";
import { classes, pieces, plain, PLAIN } from "../lib/ansi.js";
import { LineJoiner, markMatches, MAX_LINES, findMatches } from "../lib/lines.js";
import { h, render } from "../lib/vdom.js";
import { button, icon } from "./elements.js";

// Bytes of earlier output that are read.
const MAX_EARLIER_BYTES = 256 * 1024;
const LINES_PER_CHUNK = 100;
// Pixels from the end that still count as the end.
const NEAR_END_PX = 24;

/** Return the file of a stream; the log is derived from stdout. */
function fileOf(stream) {
  return stream === "stderr" ? "stderr" : "stdout";
}

/** Show one stream of a run in `element`; returns a function that stops it. */
export function showOutput(element, run, stream) {
  const pane = new Pane(element, run, stream);
  pane.start();
  return () => pane.close();
}

class Pane {
  #run;
  #stream;
  #toolbar;
  #body;
  #chunks;
  #lastScrollTop = 0;
  #resizeObserver;
  #lines = [];
  #first = 0;
  #joiner = new LineJoiner();
  #style = PLAIN;
  #chunk = null;
  #pending = [];
  #flushScheduled = false;
  #following = true;
  #query = "";
  #matches = [];
  #at = -1;
  #state = { state: "connecting" };
  #skipped = 0;
  #source = null;
  #ended = false;
  #closed = false;

  constructor(element, run, stream) {
    this.#run = run;
    this.#stream = stream;
    this.#toolbar = document.createElement("div");
    this.#toolbar.className = "output-bar";
    this.#body = document.createElement("div");
    this.#body.className = "output-body";
    this.#body.tabIndex = 0;
    this.#body.setAttribute("role", "log");
    this.#body.setAttribute("aria-live", "off");
    this.#body.setAttribute("aria-label", `${stream} of ${run}`);
    this.#body.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.#chunks = document.createElement("div");
    this.#body.append(this.#chunks);
    // While following, stay at the end when the size changes.
    this.#resizeObserver = new ResizeObserver(() => this.#following && this.#toEnd());
    this.#resizeObserver.observe(this.#chunks);
    this.#resizeObserver.observe(this.#body);
    element.append(this.#toolbar, this.#body);
    this.#renderToolbar();
  }

  async start() {
    try {
      const run = await get(`runs/${encodeURIComponent(this.#run)}`);
      if (this.#closed) return;
      this.#skipped = Math.max(0, (run.output_bytes?.[fileOf(this.#stream)] ?? 0) - MAX_EARLIER_BYTES);
    } catch (error) {
      if (!this.#closed) this.#onState({ state: "gone", why: error });
      return;
    }
    this.#source = openStream(`${api.paths.output(this.#run)}?stream=${fileOf(this.#stream)}${this.#stream === "log" ? "&readable=true" : ""}`, {
      after: this.#skipped ? String(this.#skipped) : "",
      onEvent: (event) => this.#onEvent(event),
      onState: (state) => this.#onState(state),
    });
  }

  close() {
    this.#closed = true;
    this.#source?.close();
    this.#resizeObserver.disconnect();
  }

  // -- events ---------------------------------------------------------------------------------

  #onEvent({ type, data }) {
    if (type === "output") {
      let lines = this.#joiner.take(JSON.parse(data).text);
      // The first line after the skipped part is incomplete.
      if (this.#skipped && !this.#lines.length && lines.length > 1) lines = lines.slice(1);
      this.#enqueue(lines);
    } else if (type === "end") {
      this.#source.close();
      this.#ended = true;
      this.#enqueue(this.#joiner.rest());
      this.#onState({ state: "ended" });
    }
  }

  #onState(state) {
    if (this.#closed || this.#ended && state.state !== "ended") return;
    this.#state = state;
    this.#renderToolbar();
  }

  #enqueue(lines) {
    this.#pending.push(...lines);
    if (this.#flushScheduled) return;
    this.#flushScheduled = true;
    requestAnimationFrame(() => {
      this.#flushScheduled = false;
      if (!this.#closed) this.#flush();
    });
  }

  /** Append all lines since the last frame, and drop the oldest above the limit. */
  #flush() {
    const lines = this.#pending.slice(-MAX_LINES);
    this.#pending = [];
    for (const line of lines) this.#append(line);
    this.#dropOldLines();
    if (this.#following) this.#toEnd();
    this.#renderToolbar();
  }

  #append(line) {
    const parsed = pieces(line, this.#style);
    this.#style = parsed.style;
    const element = document.createElement("div");
    element.className = "output-line";
    const entry = { text: plain(line), pieces: parsed.pieces, element };
    this.#lines.push(entry);
    renderLine(entry, this.#query);
    if (entry.isMatch) this.#matches.push(entry);
    if (!this.#chunk || this.#chunk.childElementCount >= LINES_PER_CHUNK) {
      this.#chunk = document.createElement("div");
      this.#chunk.className = "output-chunk";
      this.#chunks.append(this.#chunk);
    }
    this.#chunk.append(element);
  }

  #dropOldLines() {
    const extra = this.#lines.length - MAX_LINES;
    if (extra <= 0) return;
    const above = this.#body.scrollHeight;
    for (const entry of this.#lines.splice(0, extra)) {
      const chunk = entry.element.parentElement;
      entry.element.remove();
      if (!chunk.childElementCount) chunk.remove();
      const at = this.#matches.indexOf(entry);
      if (at >= 0) {
        this.#matches.splice(at, 1);
        if (this.#at >= at) this.#at -= 1;
      }
    }
    this.#first += extra;
    // Keep the lines that the user is reading in place.
    if (!this.#following) this.#body.scrollTop -= above - this.#body.scrollHeight;
  }

  // -- following -------------------------------------------------------------------------------

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#body;
    const near = scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
    // Only scrolling up stops following; new lines below do not.
    const up = scrollTop < this.#lastScrollTop;
    this.#lastScrollTop = scrollTop;
    if (near === this.#following || (!near && !up)) return;
    this.#following = near;
    this.#renderToolbar();
  }

  #toEnd() {
    this.#body.scrollTop = this.#body.scrollHeight;
    this.#lastScrollTop = this.#body.scrollTop;
  }

  #toggleFollow() {
    this.#following = !this.#following;
    if (this.#following) this.#toEnd();
    this.#renderToolbar();
  }

  // -- search ----------------------------------------------------------------------------------

  #search(query) {
    this.#query = query;
    this.#matches = [];
    for (const entry of this.#lines) {
      const found = findMatches(entry.text, query).length > 0;
      if (found) this.#matches.push(entry);
      if (found || entry.isMatch) renderLine(entry, query);
    }
    this.#at = -1;
    if (this.#matches.length) this.#goToMatch(-1);
    else this.#renderToolbar();
  }

  #goToMatch(step) {
    if (!this.#matches.length) return;
    const before = this.#matches[this.#at];
    if (before) before.element.classList.remove("is-current");
    this.#at = (Math.max(this.#at, step < 0 ? 0 : -1) + step + this.#matches.length) % this.#matches.length;
    const here = this.#matches[this.#at];
    here.element.classList.add("is-current");
    this.#following = false;
    here.element.scrollIntoView({ block: "center" });
    this.#renderToolbar();
  }

  // -- the bar ---------------------------------------------------------------------------------

  #renderToolbar() {
    const [tone, stateLabel] = this.#stateLabel();
    render(this.#toolbar, [
      h("span", { class: `chip tone-${tone} has-dot`, key: "state" }, stateLabel),
      h("span", { class: "soft tiny number", key: "count" }, this.#first || this.#skipped ? `last ${this.#lines.length} lines` : `${this.#lines.length} lines`),
      h("a", { class: "tiny", key: "file", href: `${api.paths.file(this.#run)}?stream=${fileOf(this.#stream)}`, target: "_blank", rel: "noopener" }, "Raw file"),
      h(
        "div",
        { class: "output-search", role: "search", key: "search" },
        h("input", { type: "search", placeholder: "Search", "aria-label": "Search in the output", on: { input: (event) => this.#search(event.target.value), keydown: (event) => this.#key(event) } }),
        h("span", { class: "tiny soft number output-matches", "aria-live": "polite" }, this.#query ? (this.#matches.length ? `${this.#at + 1} of ${this.#matches.length}` : "no match") : ""),
        button(icon("up"), () => this.#goToMatch(-1), { variant: "is-plain is-icon", "aria-label": "Previous match", disabled: !this.#matches.length, key: "up" }),
        button(icon("down"), () => this.#goToMatch(1), { variant: "is-plain is-icon", "aria-label": "Next match", disabled: !this.#matches.length, key: "down" }),
      ),
      button("Follow", () => this.#toggleFollow(), { "aria-pressed": String(this.#following), variant: this.#following ? "is-on" : "", key: "follow" }),
    ]);
    this.#renderEmpty();
  }

  #key(event) {
    if (event.key !== "Enter") return;
    event.preventDefault();
    this.#goToMatch(event.shiftKey ? -1 : 1);
  }

  #renderEmpty() {
    const none = !this.#lines.length && !this.#pending.length;
    this.#body.classList.toggle("is-empty", none);
    this.#body.dataset.none = none ? { ended: "No output in this stream.", gone: this.#state.why?.message ?? "" }[this.#state.state] ?? "No output yet." : "";
  }

  #stateLabel() {
    return {
      connecting: ["wait", "connecting"],
      live: ["work", "live"],
      away: ["bad", "disconnected, retrying"],
      ended: ["idle", "ended"],
      gone: ["bad", "not available"],
    }[this.#state.state];
  }
}

/** Render the pieces of a line as spans, and mark search matches. */
function renderLine(entry, query) {
  const found = query ? findMatches(entry.text, query) : [];
  entry.isMatch = found.length > 0;
  const parts = markMatches(entry.pieces, found).map((piece) => {
    const variant = classes(piece.style);
    if (!variant && !piece.hit) return document.createTextNode(piece.text);
    const span = document.createElement(piece.hit ? "mark" : "span");
    if (variant) span.className = variant;
    span.textContent = piece.text;
    return span;
  });
  // A zero-width space gives an empty line its height.
  entry.element.replaceChildren(...(parts.length ? parts : [document.createTextNode("\u200b")]));
}

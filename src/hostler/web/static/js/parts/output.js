// What a run's agent prints, as it comes: an island that appends by itself.

import { api, get } from "../api.js";
import { follow } from "../live.js";
import { classes, pieces, plain, PLAIN } from "../lib/ansi.js";
import { Joiner, marked, MOST, places } from "../lib/lines.js";
import { h, render } from "../lib/vdom.js";
import { button, icon } from "./small.js";

// Of what was printed before, this much is read.
const BEFORE = 256 * 1024;
const CHUNK = 100;
// How near to the end counts as being there, in pixels.
const NEAR = 24;

/** In which file a stream is. */
function fileOf(stream) {
  return stream === "stderr" ? "stderr" : "stdout";
}

/** Show one stream of a run in `element`; returns how to end it. */
export function showOutput(element, run, stream) {
  const pane = new Pane(element, run, stream);
  pane.start();
  return () => pane.end();
}

class Pane {
  #run;
  #stream;
  #bar;
  #body;
  #all;
  #top = 0;
  #size;
  #lines = [];
  #first = 0;
  #joiner = new Joiner();
  #style = PLAIN;
  #chunk = null;
  #waiting = [];
  #asked = false;
  #follow = true;
  #word = "";
  #hits = [];
  #at = -1;
  #state = { state: "connecting" };
  #skipped = 0;
  #source = null;
  #over = false;
  #closed = false;

  constructor(element, run, stream) {
    this.#run = run;
    this.#stream = stream;
    this.#bar = document.createElement("div");
    this.#bar.className = "output-bar";
    this.#body = document.createElement("div");
    this.#body.className = "output-body";
    this.#body.tabIndex = 0;
    this.#body.setAttribute("role", "log");
    this.#body.setAttribute("aria-live", "off");
    this.#body.setAttribute("aria-label", `${stream} of ${run}`);
    this.#body.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.#all = document.createElement("div");
    this.#body.append(this.#all);
    // Whatever grows or shrinks: who follows stays at the end.
    this.#size = new ResizeObserver(() => this.#follow && this.#toEnd());
    this.#size.observe(this.#all);
    this.#size.observe(this.#body);
    element.append(this.#bar, this.#body);
    this.#drawBar();
  }

  async start() {
    try {
      const seen = await get(`runs/${encodeURIComponent(this.#run)}`);
      if (this.#closed) return;
      this.#skipped = Math.max(0, (seen.output_bytes?.[fileOf(this.#stream)] ?? 0) - BEFORE);
    } catch (error) {
      if (!this.#closed) this.#changed({ state: "gone", why: error });
      return;
    }
    this.#source = follow(`${api.paths.output(this.#run)}?stream=${fileOf(this.#stream)}${this.#stream === "told" ? "&told=true" : ""}`, {
      after: this.#skipped ? String(this.#skipped) : "",
      heard: (event) => this.#heard(event),
      changed: (state) => this.#changed(state),
    });
  }

  end() {
    this.#closed = true;
    this.#source?.close();
    this.#size.disconnect();
  }

  // -- what comes ------------------------------------------------------------------------------

  #heard({ type, data }) {
    if (type === "output") {
      let lines = this.#joiner.take(JSON.parse(data).text);
      // The first line of a part is cut.
      if (this.#skipped && !this.#lines.length && lines.length > 1) lines = lines.slice(1);
      this.#add(lines);
    } else if (type === "end") {
      this.#source.close();
      this.#over = true;
      this.#add(this.#joiner.rest());
      this.#changed({ state: "ended" });
    }
  }

  #changed(state) {
    if (this.#closed || this.#over && state.state !== "ended") return;
    this.#state = state;
    this.#drawBar();
  }

  #add(lines) {
    this.#waiting.push(...lines);
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => {
      this.#asked = false;
      if (!this.#closed) this.#flush();
    });
  }

  /** All that came since the last frame, in one go; the oldest lines make room. */
  #flush() {
    const lines = this.#waiting.slice(-MOST);
    this.#waiting = [];
    for (const line of lines) this.#append(line);
    this.#forget();
    if (this.#follow) this.#toEnd();
    this.#drawBar();
  }

  #append(line) {
    const parsed = pieces(line, this.#style);
    this.#style = parsed.style;
    const element = document.createElement("div");
    element.className = "output-line";
    const entry = { text: plain(line), pieces: parsed.pieces, element };
    this.#lines.push(entry);
    fill(entry, this.#word);
    if (entry.marked) this.#hits.push(entry);
    if (!this.#chunk || this.#chunk.childElementCount >= CHUNK) {
      this.#chunk = document.createElement("div");
      this.#chunk.className = "output-chunk";
      this.#all.append(this.#chunk);
    }
    this.#chunk.append(element);
  }

  #forget() {
    const extra = this.#lines.length - MOST;
    if (extra <= 0) return;
    const above = this.#body.scrollHeight;
    for (const entry of this.#lines.splice(0, extra)) {
      const chunk = entry.element.parentElement;
      entry.element.remove();
      if (!chunk.childElementCount) chunk.remove();
      const at = this.#hits.indexOf(entry);
      if (at >= 0) {
        this.#hits.splice(at, 1);
        if (this.#at >= at) this.#at -= 1;
      }
    }
    this.#first += extra;
    // What is being read stays where it is.
    if (!this.#follow) this.#body.scrollTop -= above - this.#body.scrollHeight;
  }

  // -- following -------------------------------------------------------------------------------

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.#body;
    const near = scrollHeight - scrollTop - clientHeight < NEAR;
    // Only who goes up wants to read; that there is more below is no wish.
    const up = scrollTop < this.#top;
    this.#top = scrollTop;
    if (near === this.#follow || (!near && !up)) return;
    this.#follow = near;
    this.#drawBar();
  }

  #toEnd() {
    this.#body.scrollTop = this.#body.scrollHeight;
    this.#top = this.#body.scrollTop;
  }

  #turnFollow() {
    this.#follow = !this.#follow;
    if (this.#follow) this.#toEnd();
    this.#drawBar();
  }

  // -- search ----------------------------------------------------------------------------------

  #search(word) {
    this.#word = word;
    this.#hits = [];
    for (const entry of this.#lines) {
      const found = places(entry.text, word).length > 0;
      if (found) this.#hits.push(entry);
      if (found || entry.marked) fill(entry, word);
    }
    this.#at = -1;
    if (this.#hits.length) this.#go(-1);
    else this.#drawBar();
  }

  #go(step) {
    if (!this.#hits.length) return;
    const before = this.#hits[this.#at];
    if (before) before.element.classList.remove("is-here");
    this.#at = (Math.max(this.#at, step < 0 ? 0 : -1) + step + this.#hits.length) % this.#hits.length;
    const here = this.#hits[this.#at];
    here.element.classList.add("is-here");
    this.#follow = false;
    here.element.scrollIntoView({ block: "center" });
    this.#drawBar();
  }

  // -- the bar ---------------------------------------------------------------------------------

  #drawBar() {
    const [tone, words] = this.#words();
    render(this.#bar, [
      h("span", { class: `chip tone-${tone} has-dot`, key: "state" }, words),
      h("span", { class: "soft tiny number", key: "count" }, this.#first || this.#skipped ? `last ${this.#lines.length} lines` : `${this.#lines.length} lines`),
      h("a", { class: "tiny", key: "file", href: `${api.paths.file(this.#run)}?stream=${fileOf(this.#stream)}`, target: "_blank", rel: "noopener" }, "as a file"),
      h(
        "div",
        { class: "output-search", role: "search", key: "search" },
        h("input", { type: "search", placeholder: "Search", "aria-label": "Search in the output", on: { input: (event) => this.#search(event.target.value), keydown: (event) => this.#key(event) } }),
        h("span", { class: "tiny soft number output-hits", "aria-live": "polite" }, this.#word ? (this.#hits.length ? `${this.#at + 1} of ${this.#hits.length}` : "none") : ""),
        button(icon("up"), () => this.#go(-1), { look: "is-plain is-icon", "aria-label": "Previous hit", disabled: !this.#hits.length, key: "up" }),
        button(icon("down"), () => this.#go(1), { look: "is-plain is-icon", "aria-label": "Next hit", disabled: !this.#hits.length, key: "down" }),
      ),
      button("Follow", () => this.#turnFollow(), { "aria-pressed": String(this.#follow), look: this.#follow ? "is-on" : "", key: "follow" }),
    ]);
    this.#drawEmpty();
  }

  #key(event) {
    if (event.key !== "Enter") return;
    event.preventDefault();
    this.#go(event.shiftKey ? -1 : 1);
  }

  #drawEmpty() {
    const none = !this.#lines.length && !this.#waiting.length;
    this.#body.classList.toggle("is-empty", none);
    this.#body.dataset.none = none ? { ended: "It printed nothing here.", gone: this.#state.why?.message ?? "" }[this.#state.state] ?? "Nothing was printed yet." : "";
  }

  #words() {
    return {
      connecting: ["wait", "connecting"],
      live: ["work", "live"],
      away: ["bad", "cut off, trying again"],
      ended: ["idle", "ended"],
      gone: ["bad", "not there"],
    }[this.#state.state];
  }
}

/** The pieces of a line as text in spans; hits of a search are marked. */
function fill(entry, word) {
  const found = word ? places(entry.text, word) : [];
  entry.marked = found.length > 0;
  const parts = marked(entry.pieces, found).map((piece) => {
    const look = classes(piece.style);
    if (!look && !piece.hit) return document.createTextNode(piece.text);
    const span = document.createElement(piece.hit ? "mark" : "span");
    if (look) span.className = look;
    span.textContent = piece.text;
    return span;
  });
  // An empty line has a height too.
  entry.element.replaceChildren(...(parts.length ? parts : [document.createTextNode("\u200b")]));
}

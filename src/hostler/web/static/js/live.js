// A stream that goes on behind the last event that was seen, however often it breaks.

import { answerOf } from "./api.js";
import { delay } from "./lib/retry.js";
import { EventParser } from "./lib/sse.js";

// The service says something every 15 s.
const SILENCE = 40000;
// Asking again would bring the same answer.
const FOR_GOOD = new Set([400, 401, 403, 404, 422]);

/** Follow `path`. `heard({type, data, id})` for each event; `changed({state, at, why})` when the
 *  stream is `connecting`, `live`, `away` (until the moment `at`) or `gone`. */
export function follow(path, { heard, changed = () => {}, after = "" }) {
  return new Stream(path, heard, changed, after);
}

class Stream {
  #path;
  #heard;
  #changed;
  #lastId;
  #failures = 0;
  #timer = 0;
  #watch = 0;
  #abort = null;
  #over = false;

  constructor(path, heard, changed, after) {
    this.#path = path;
    this.#heard = heard;
    this.#changed = changed;
    this.#lastId = after;
    this.#open();
  }

  /** No more events. */
  close() {
    this.#over = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#watch);
    this.#abort?.abort();
  }

  /** Do not wait any longer for the next try. */
  now() {
    if (this.#over || !this.#timer) return;
    clearTimeout(this.#timer);
    this.#open();
  }

  async #open() {
    this.#timer = 0;
    this.#changed({ state: "connecting" });
    const abort = (this.#abort = new AbortController());
    let why = null;
    try {
      await this.#read(abort);
    } catch (error) {
      why = error;
    }
    clearTimeout(this.#watch);
    if (!this.#over) this.#again(why);
  }

  async #read(abort) {
    const headers = { Accept: "text/event-stream", ...(this.#lastId ? { "Last-Event-ID": this.#lastId } : {}) };
    this.#listen(abort);
    const response = await answerOf(this.#path, { headers, signal: abort.signal });
    this.#changed({ state: "live" });
    const parser = new EventParser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done || this.#over) return;
      this.#failures = 0;
      this.#listen(abort);
      for (const event of parser.take(value)) {
        if (this.#over) return;
        if (event.id) this.#lastId = event.id;
        this.#heard(event);
      }
    }
  }

  /** Whoever says nothing for long is gone, whatever the network believes. */
  #listen(abort) {
    clearTimeout(this.#watch);
    this.#watch = setTimeout(() => abort.abort(), SILENCE);
  }

  #again(why) {
    if (FOR_GOOD.has(why?.status)) {
      this.#over = true;
      this.#changed({ state: "gone", why });
      return;
    }
    this.#failures += 1;
    const wait = delay(this.#failures, Math.random());
    this.#changed({ state: "away", at: Date.now() + wait, why });
    this.#timer = setTimeout(() => this.#open(), wait);
  }
}

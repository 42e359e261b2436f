// A Server-Sent Events stream that reconnects and continues after the last received event.

import { request } from "./api.js";
import { delay } from "./lib/retry.js";
import { EventParser } from "./lib/sse.js";

// The service sends a heartbeat every 15 s.
const MAX_SILENCE_MS = 40000;
// Statuses for which a retry would get the same response.
const PERMANENT_STATUSES = new Set([400, 401, 403, 404, 422]);

/** Follow the stream at `path`. Calls `onEvent({type, data, id})` for each event, and
 *  `onState({state, at, why})` when the stream is `connecting`, `live`, `away` (reconnecting at the
 *  time `at`) or `gone` (not retried). */
export function openStream(path, { onEvent, onState = () => {}, after = "" }) {
  return new Stream(path, onEvent, onState, after);
}

class Stream {
  #path;
  #onEvent;
  #onState;
  #lastId;
  #failures = 0;
  #timer = 0;
  #timeout = 0;
  #abort = null;
  #closed = false;

  constructor(path, onEvent, onState, after) {
    this.#path = path;
    this.#onEvent = onEvent;
    this.#onState = onState;
    this.#lastId = after;
    this.#open();
  }

  /** Stop following. */
  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#timeout);
    this.#abort?.abort();
  }

  /** Reconnect now if a reconnect is scheduled. */
  reconnectNow() {
    if (this.#closed || !this.#timer) return;
    clearTimeout(this.#timer);
    this.#open();
  }

  async #open() {
    this.#timer = 0;
    this.#onState({ state: "connecting" });
    const abort = (this.#abort = new AbortController());
    let why = null;
    try {
      await this.#read(abort);
    } catch (error) {
      why = error;
    }
    clearTimeout(this.#timeout);
    if (!this.#closed) this.#scheduleReconnect(why);
  }

  async #read(abort) {
    const headers = { Accept: "text/event-stream", ...(this.#lastId ? { "Last-Event-ID": this.#lastId } : {}) };
    this.#restartTimeout(abort);
    const response = await request(this.#path, { headers, signal: abort.signal });
    this.#onState({ state: "live" });
    const parser = new EventParser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done || this.#closed) return;
      this.#failures = 0;
      this.#restartTimeout(abort);
      for (const event of parser.take(value)) {
        if (this.#closed) return;
        if (event.id) this.#lastId = event.id;
        this.#onEvent(event);
      }
    }
  }

  /** Abort the connection if nothing arrives for too long. */
  #restartTimeout(abort) {
    clearTimeout(this.#timeout);
    this.#timeout = setTimeout(() => abort.abort(), MAX_SILENCE_MS);
  }

  #scheduleReconnect(why) {
    if (PERMANENT_STATUSES.has(why?.status)) {
      this.#closed = true;
      this.#onState({ state: "gone", why });
      return;
    }
    this.#failures += 1;
    const wait = delay(this.#failures, Math.random());
    this.#onState({ state: "away", at: Date.now() + wait, why });
    this.#timer = setTimeout(() => this.#open(), wait);
  }
}

// Parse Server-Sent Events.

/** Takes text in chunks and returns complete events `{type, data, id}`. Comments are ignored. */
export class EventParser {
  #rest = "";
  #type = "";
  #data = [];
  /** The id of the last complete event. */
  lastId = "";
  #id = null;

  take(text) {
    const events = [];
    const all = this.#rest + text;
    // A final \r may be the first half of a line ending.
    const lines = all.split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    for (const line of lines) this.#line(line, events);
    return events;
  }

  #line(line, events) {
    if (line === "") this.#finish(events);
    else if (!line.startsWith(":")) this.#field(...split(line));
  }

  #field(name, value) {
    if (name === "event") this.#type = value;
    else if (name === "data") this.#data.push(value);
    else if (name === "id" && !value.includes("\0")) this.#id = value;
  }

  #finish(events) {
    if (this.#id !== null) this.lastId = this.#id;
    if (this.#data.length) {
      events.push({ type: this.#type || "message", data: this.#data.join("\n"), id: this.lastId });
    }
    this.#type = "";
    this.#data = [];
    this.#id = null;
  }
}

function split(line) {
  const at = line.indexOf(":");
  if (at < 0) return [line, ""];
  const value = line.slice(at + 1);
  return [line.slice(0, at), value.startsWith(" ") ? value.slice(1) : value];
}

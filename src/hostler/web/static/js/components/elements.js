// Elements that several screens share.

import { safeUrl } from "../lib/format.js";
import { taskAddress } from "../lib/routes.js";
import { origin, stateInfo } from "../lib/tasks.js";
import { h } from "../lib/vdom.js";

const PATHS = {
  horseshoe: "M6.2 20.5C3.4 16 3 11.5 4.4 8 5.8 4.4 8.6 2.8 12 2.8s6.2 1.6 7.6 5.2c1.4 3.5 1 8-1.8 12.5",
  overview: "M3 11 12 4l9 7M5 10v10h14V10M9 20v-6h6v6",
  work: "M4 5h4v14H4zM10 5h4v9h-4zM16 5h4v12h-4z",
  governor: "M4 17a8 8 0 1 1 16 0M12 17l4-6",
  health: "M3 12h4l2-6 4 12 2-6h6",
  sun: "M12 7a5 5 0 1 0 0 10 5 5 0 0 0 0-10M12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6 19 19M5 19l1.4-1.4M17.6 6.4 19 5",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z",
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6 6 18",
  log_out: "M14 4h5v16h-5M10 8l4 4-4 4M14 12H4",
  out: "M9 5h10v10M19 5 6 18",
  up: "M6 15l6-6 6 6",
  down: "M6 9l6 6 6-6",
};

export function icon(name, width = 2) {
  return h(
    "svg",
    { viewBox: "0 0 24 24", fill: "none", stroke: "currentColor", "stroke-width": width, "stroke-linecap": "round", "stroke-linejoin": "round", "aria-hidden": "true" },
    h("path", { d: PATHS[name] }),
  );
}

export function chip(text, tone = "idle", props = {}) {
  return h("span", { ...props, class: `chip tone-${tone} ${props.class ?? ""}` }, text);
}

/** Show a task's state as a dot and a label. */
export function stateChip(name) {
  const { label, tone } = stateInfo(name);
  return chip(label, tone, { class: "has-dot" });
}

/** Link to another site, or plain text if there is no valid URL. */
export function externalLink(url, label, props = {}) {
  const href = safeUrl(url);
  if (!href) return h("span", props, label);
  return h("a", { ...props, href, target: "_blank", rel: "noopener noreferrer" }, label);
}

export function taskLink(task, props = {}) {
  return h("a", { ...props, href: taskAddress(task.id) }, task.title);
}

export function originLink(task, props = {}) {
  return externalLink(task.issueUrl, origin(task), props);
}

export function pullLink(task) {
  return task.pull ? externalLink(task.pullUrl, `PR #${task.pull}`, { class: "small number" }) : null;
}

export function sectionHeader(title, total, end) {
  return h(
    "div",
    { class: "section-head" },
    h("h2", {}, title),
    total === undefined ? null : h("span", { class: "count" }, total),
    end ? h("span", { class: "end" }, end) : null,
  );
}

export function empty(title, more) {
  return h("div", { class: "empty" }, h("strong", {}, title), more ? h("span", { class: "small" }, more) : null);
}

/** Render text in backquotes as code. */
export function withCode(text) {
  return String(text ?? "")
    .split("`")
    .map((part, at) => (at % 2 ? h("code", {}, part) : part));
}

export function errorPanel(error, retry) {
  return h(
    "div",
    { class: "error-panel", role: "alert" },
    h("strong", {}, error.message),
    error.safe ? h("span", {}, error.safe) : null,
    error.remedy ? h("span", { class: "small" }, withCode(error.remedy)) : null,
    retry ? h("button", { class: "button", type: "button", on: { click: retry } }, "Try again") : null,
  );
}

/** Placeholders shown while data loads. */
export function skeleton(rows, className = "panel skeleton-box") {
  return Array.from({ length: rows }, (_, at) =>
    h("div", { class: className, "aria-hidden": "true", key: `skeleton ${at}` }, h("span", { class: "skeleton skeleton-long" }), h("span", { class: "skeleton skeleton-short" })),
  );
}

export function button(label, click, { variant = "", ...props } = {}) {
  return h("button", { type: "button", ...props, class: `button ${variant}`, on: { click } }, label);
}

/** Show the first rows, and a button for the rest. */
export function limitedList(rows, shown, more) {
  if (rows.length <= shown) return rows;
  const left = rows.length - shown;
  return [...rows.slice(0, shown), h("li", { key: "more", class: "more" }, button(`Show ${left} more`, more))];
}

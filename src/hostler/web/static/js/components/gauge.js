// A pool's slots: in use, current cap, and hard maximum.

import { timeUntil, timeOfDay } from "../lib/format.js";
import { sampleOf } from "../lib/samples.js";
import { h } from "../lib/vdom.js";
import { chip } from "./elements.js";

// Show a bar instead of boxes above this number of slots.
const MAX_BOXES = 24;

export function gauge(pool, now) {
  const sample = sampleOf(pool, now);
  const label = `${sample.active} of ${sample.cap} in use`;
  return h(
    "li",
    { class: "gauge panel", key: pool.pool },
    h("div", { class: "gauge-head" }, h("h3", { class: "one-line" }, pool.pool), h("span", { class: "number" }, h("strong", {}, sample.active), h("span", { class: "soft" }, ` / ${sample.cap}`))),
    h(
      "div",
      { class: "gauge-bar", role: "meter", "aria-label": `Pool ${pool.pool}`, "aria-valuemin": 0, "aria-valuemax": Math.max(sample.ceiling, sample.active), "aria-valuenow": sample.active, "aria-valuetext": label },
      renderBar(sample),
    ),
    h("div", { class: "gauge-facts" }, renderFacts(pool, sample, now)),
  );
}

function renderBar({ active, cap, ceiling }) {
  const maximum = Math.max(ceiling, cap, active, 1);
  if (maximum > MAX_BOXES) {
    return [h("span", { class: "gauge-cap", vars: { "--part": cap / maximum } }), h("span", { class: "gauge-fill", vars: { "--part": active / maximum } })];
  }
  return Array.from({ length: maximum }, (_, at) => h("span", { class: `gauge-box ${at < active ? "is-taken" : at < cap ? "is-free" : "is-closed"}`, key: at }));
}

function renderFacts(pool, sample, now) {
  const breaker = pool.overlay?.breaker;
  const chips = [];
  if (pool.parked) chips.push(chip(parkedText(pool.parked, now), "ask", { key: "parked", title: pool.parked.why }));
  if (sample.breaker !== "closed") {
    const open = breaker.open_until ? `, probes ${timeUntil(breaker.open_until, now)}` : "";
    chips.push(chip(`breaker ${sample.breaker.replace("_", "-")}${open}`, "bad", { key: "breaker" }));
  }
  if (pool.overlay?.gate_until) chips.push(chip(`provider asked to wait until ${timeOfDay(pool.overlay.gate_until, now)}`, "ask", { key: "gate" }));
  if (pool.adaptive) chips.push(chip(`adaptive cap ${sample.cap}, maximum ${sample.ceiling}`, "note", { key: "adaptive" }));
  if (pool.parked?.why) chips.push(h("span", { class: "soft small", key: "why" }, pool.parked.why));
  if (!chips.length) chips.push(h("span", { class: "soft small", key: "open" }, `${Math.max(0, sample.cap - sample.active)} free`));
  return chips;
}

// Without an end time, the pool stays parked until an operator resumes it.
export const parkedText = (parked, now) => (parked.until ? `parked until ${timeOfDay(parked.until, now)}` : "parked until resumed");

// A pool: how many of its places are taken, how many there are now, and how many there could be.

import { ahead, clock } from "../lib/format.js";
import { sampleOf } from "../lib/samples.js";
import { h } from "../lib/vdom.js";
import { chip } from "./small.js";

// More places than this are a bar, not single boxes.
const BOXES = 24;

export function gauge(pool, now) {
  const seen = sampleOf(pool, now);
  const words = `${seen.active} of ${seen.cap} in use`;
  return h(
    "li",
    { class: "gauge panel", key: pool.pool },
    h("div", { class: "gauge-head" }, h("h3", { class: "one-line" }, pool.pool), h("span", { class: "number" }, h("strong", {}, seen.active), h("span", { class: "soft" }, ` / ${seen.cap}`))),
    h(
      "div",
      { class: "gauge-bar", role: "meter", "aria-label": `Pool ${pool.pool}`, "aria-valuemin": 0, "aria-valuemax": Math.max(seen.ceiling, seen.active), "aria-valuenow": seen.active, "aria-valuetext": words },
      bar(seen),
    ),
    h("div", { class: "gauge-facts" }, facts(pool, seen, now)),
  );
}

function bar({ active, cap, ceiling }) {
  const most = Math.max(ceiling, cap, active, 1);
  if (most > BOXES) {
    return [h("span", { class: "gauge-room", vars: { "--part": cap / most } }), h("span", { class: "gauge-fill", vars: { "--part": active / most } })];
  }
  return Array.from({ length: most }, (_, at) => h("span", { class: `gauge-box ${at < active ? "is-taken" : at < cap ? "is-free" : "is-shut"}`, key: at }));
}

function facts(pool, seen, now) {
  const breaker = pool.overlay?.breaker;
  const found = [];
  if (pool.parked) found.push(chip(parkedWords(pool.parked, now), "ask", { key: "parked", title: pool.parked.why }));
  if (seen.breaker !== "closed") {
    const open = breaker.open_until ? `, tries ${ahead(breaker.open_until, now)}` : "";
    found.push(chip(`breaker ${seen.breaker.replace("_", "-")}${open}`, "bad", { key: "breaker" }));
  }
  if (pool.overlay?.gate_until) found.push(chip(`asked to wait until ${clock(pool.overlay.gate_until, now)}`, "ask", { key: "gate" }));
  if (pool.adaptive) found.push(chip(`adaptive: ${seen.cap} of at most ${seen.ceiling}`, "note", { key: "adaptive" }));
  if (pool.parked?.why) found.push(h("span", { class: "soft small", key: "why" }, pool.parked.why));
  if (!found.length) found.push(h("span", { class: "soft small", key: "open" }, `${Math.max(0, seen.cap - seen.active)} free`));
  return found;
}

// Without an end, somebody has to open it.
export const parkedWords = (parked, now) => (parked.until ? `parked until ${clock(parked.until, now)}` : "parked until it is opened");

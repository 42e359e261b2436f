// Inspect a page for tests.

const light = (colour) => {
  const [red, green, blue] = colour.map((part) => {
    const value = part / 255;
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
};

function parsed(text) {
  const numbers = text.match(/[\d.]+/g).map(Number);
  return { colour: numbers.slice(0, 3), alpha: numbers[3] ?? 1 };
}

function ground(element) {
  for (let one = element; one; one = one.parentElement) {
    const found = parsed(getComputedStyle(one).backgroundColor);
    if (found.alpha === 1) return found.colour;
  }
  return [255, 255, 255];
}

const IGNORED = "svg, .visually-hidden, noscript, .skip, option, [disabled]";

/** Return texts with too little contrast to their background. */
export function lowContrastTexts() {
  const bad = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    if (!text || element.closest(IGNORED)) continue;
    const both = [light(parsed(getComputedStyle(element).color).colour), light(ground(element))];
    const ratio = (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
    if (ratio < 4.5) bad.add(`${text.slice(0, 30)}: ${ratio.toFixed(2)} (${element.className})`);
  }
  return [...bad];
}

const USED = "a, button, input, select, textarea, [role=img], [role=meter]";

/** Return controls and drawings without an accessible name. */
export function unnamedControls() {
  const named = (one) => one.textContent.trim() || one.getAttribute("aria-label") || one.labels?.length;
  return [...document.querySelectorAll(USED)].filter((one) => !named(one)).map((one) => one.outerHTML);
}

/** Return true if the focus of an element is visible. */
function focusShown(one) {
  const inner = one.querySelector("rect");
  const drawn = inner && getComputedStyle(inner).strokeWidth === "3px";
  return getComputedStyle(one).outlineStyle !== "none" || drawn;
}

/** Record each focused element, and whether its focus is visible. */
export function recordFocus() {
  globalThis.stops = [];
  document.addEventListener("focusin", ({ target }) => stops.push([target.tagName, focusShown(target)]));
}

export function places(selector) {
  return [...document.querySelectorAll(selector)].map((one) => JSON.stringify(one.getBoundingClientRect()));
}

/** Return the x position of a graph node. */
export function nodeAt(name) {
  const nodes = [...document.querySelectorAll(".graph-node")];
  return nodes.find((one) => one.textContent.includes(name)).getBoundingClientRect().x;
}

/** Count DOM mutations from now on. */
export function countMutations() {
  globalThis.touched = 0;
  const watcher = new MutationObserver((all) => (globalThis.touched += all.length));
  const everything = { childList: true, subtree: true, attributes: true, characterData: true };
  watcher.observe(document.getElementById("page"), everything);
}

/** Wait until a condition holds, by polling it. */
function when(holds) {
  return new Promise((done) => {
    const timer = setInterval(() => {
      if (!holds()) return;
      clearInterval(timer);
      done();
    }, 100);
  });
}

/** Wait until a text is in the page. */
export function shown(text) {
  return when(() => document.getElementById("page").textContent.includes(text));
}

/** Wait until the output is scrolled to its end. */
export function atEnd() {
  const body = document.querySelector(".output-body");
  return when(() => body.scrollHeight - body.scrollTop - body.clientHeight < 2);
}

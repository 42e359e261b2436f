// What the page knows, and one drawing per frame however often it changes.

import { NOTHING } from "./lib/samples.js";
import { routeOf } from "./lib/routes.js";

export const state = {
  route: routeOf(location.hash),
  now: Date.now(),
  /** How wide the page is: drawings are made for it. */
  width: innerWidth,
  /** How far the service's clock is ahead of ours, in milliseconds. */
  skew: 0,
  link: { state: "connecting" },
  everLive: false,
  snapshot: null,
  snapshotError: null,
  history: NOTHING,
  /** What the service has noted of pools; read when it is looked at. */
  past: null,
  pastError: null,
  tasks: null,
  tasksError: null,
  filter: { word: "", project: "" },
  more: {},
  task: null,
  findings: null,
  findingsError: null,
  config: null,
  dialog: null,
  toasts: [],
};

let draw = () => {};
let asked = false;

/** Who draws. */
export function drawWith(drawing) {
  draw = drawing;
  ask();
}

/** Change what is known; it is drawn with the next frame. */
export function update(changes) {
  Object.assign(state, typeof changes === "function" ? changes(state) : changes);
  ask();
}

function ask() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    draw(state);
  });
}

/** Say it to those who hear the page; not more often than people can listen. */
let lastSaid = 0;
let waiting = 0;
const PAUSE = 4000;

export function announce(text) {
  const voice = document.getElementById("voice");
  clearTimeout(waiting);
  const wait = Math.max(0, lastSaid + PAUSE - Date.now());
  waiting = setTimeout(() => {
    lastSaid = Date.now();
    voice.textContent = text;
  }, wait);
}

let toastNumber = 0;
const TOAST_TIME = 8000;

/** A short word in the corner; troubles stay until they are closed. */
export function toast(tone, what, more = "") {
  const id = (toastNumber += 1);
  update({ toasts: [...state.toasts, { id, tone, what, more }].slice(-4) });
  if (tone !== "bad") setTimeout(() => closeToast(id), TOAST_TIME);
}

export function closeToast(id) {
  update({ toasts: state.toasts.filter((one) => one.id !== id) });
}

// The page's state. Changes are rendered at most once per animation frame.

import { EMPTY_HISTORY } from "./lib/samples.js";
import { parseRoute } from "./lib/routes.js";

export const state = {
  route: parseRoute(location.hash),
  now: Date.now(),
  /** Page width in pixels, for charts and the graph. */
  width: innerWidth,
  /** Milliseconds that the service's clock is ahead of the browser's. */
  skew: 0,
  connection: { state: "connecting" },
  everLive: false,
  snapshot: null,
  snapshotError: null,
  history: EMPTY_HISTORY,
  /** Pool history recorded by the service; read when the governor screen opens. */
  poolHistory: null,
  poolHistoryError: null,
  tasks: null,
  tasksError: null,
  filter: { text: "", project: "" },
  more: {},
  task: null,
  findings: null,
  findingsError: null,
  config: null,
  dialog: null,
  toasts: [],
};

let renderPage = () => {};
let renderScheduled = false;

/** Set the function that renders the state, and render once. */
export function setRenderer(renderer) {
  renderPage = renderer;
  scheduleRender();
}

/** Merge changes into the state and schedule a render. */
export function update(changes) {
  Object.assign(state, typeof changes === "function" ? changes(state) : changes);
  scheduleRender();
}

function scheduleRender() {
  if (renderScheduled) return;
  renderScheduled = true;
  requestAnimationFrame(() => {
    renderScheduled = false;
    renderPage(state);
  });
}

/** Announce a text to screen readers, at most once every few seconds. */
let lastAnnounced = 0;
let announceTimer = 0;
const MIN_ANNOUNCE_MS = 4000;

export function announce(text) {
  const announcer = document.getElementById("announcer");
  clearTimeout(announceTimer);
  const wait = Math.max(0, lastAnnounced + MIN_ANNOUNCE_MS - Date.now());
  announceTimer = setTimeout(() => {
    lastAnnounced = Date.now();
    announcer.textContent = text;
  }, wait);
}

let toastNumber = 0;
const TOAST_MS = 8000;

/** Show a short message in the corner; errors stay until they are closed. */
export function toast(tone, what, more = "") {
  const id = (toastNumber += 1);
  update({ toasts: [...state.toasts, { id, tone, what, more }].slice(-4) });
  if (tone !== "bad") setTimeout(() => closeToast(id), TOAST_MS);
}

export function closeToast(id) {
  update({ toasts: state.toasts.filter((one) => one.id !== id) });
}

// HTTP client for the API.

const ROOT = "/api/v1/";

/** An error response of the API. `status` is 0 if there was no response. */
export class ApiError extends Error {
  constructor(status, { what, safe = "", remedy = "", kind = "" }) {
    super(what);
    Object.assign(this, { status, safe, remedy, kind });
  }
}

const NO_RESPONSE = { what: "The service is not responding.", remedy: "Is `hostler service --web` running?", kind: "away" };

/** Go to the login page, which returns to the current screen. */
export function goToLogin() {
  location.assign(`/login?next=/${location.hash}`);
}

export async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(ROOT + path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, NO_RESPONSE);
  }
  if (response.ok) return response;
  if (response.status === 401) goToLogin();
  throw new ApiError(response.status, await readError(response));
}

async function readError(response) {
  try {
    const found = (await response.json()).error;
    if (found?.what) return found;
  } catch {
    // The response did not come from the API.
  }
  return { what: `The service answered ${response.status}.`, kind: "unknown" };
}

export async function get(path, query = {}) {
  return (await request(withQuery(path, query))).json();
}

export function withQuery(path, query) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined && one !== "") params.append(name, one);
  }
  const text = params.toString();
  return text ? `${path}?${text}` : path;
}

let csrf = null;

async function csrfToken() {
  csrf ??= (await get("session")).csrf ?? "";
  return csrf;
}

/** Send a request that changes something. Fetch the CSRF token again if it was rejected. */
export async function send(method, path, body = {}) {
  try {
    return await sendOnce(method, path, body);
  } catch (error) {
    if (error.kind !== "invalid_csrf_token") throw error;
    csrf = null;
    return sendOnce(method, path, body);
  }
}

async function sendOnce(method, path, body) {
  const headers = { "Content-Type": "application/json", "X-CSRF-Token": await csrfToken() };
  const response = await request(path, { method, headers, body: JSON.stringify(body) });
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

export async function logOut() {
  await fetch("/logout", { method: "POST", credentials: "same-origin", headers: { "X-CSRF-Token": await csrfToken() } });
  goToLogin();
}

const at = (...parts) => parts.map(encodeURIComponent).join("/");

export const api = {
  status: () => get("status"),
  version: () => get("version"),
  config: () => get("config"),
  findings: () => get("doctor"),
  poolHistory: () => get("pool-history"),
  tasks: (query) => get("tasks", query),
  task: (task) => get(at("tasks", task)),
  why: (task) => get(at("tasks", task, "why")),
  bus: (task, query) => get(at("tasks", task, "bus"), query),
  submit: (task) => send("POST", "tasks", task),
  act: (task, action, body) => send("POST", at("tasks", task, action), body),
  postMessage: (task, message) => send("POST", at("tasks", task, "bus"), message),
  setCap: (pool, max) => send("PATCH", at("pools", pool), { max_global_agents: max }),
  park: (pool, minutes, why) => send("POST", at("pools", pool, "park"), { minutes, why }),
  open: (pool) => send("POST", at("pools", pool, "resume")),
  pause: (project, why) => send("POST", at("repositories", project, "pause"), { why }),
  unpause: (project) => send("POST", at("repositories", project, "resume")),
  paths: {
    tasks: "live/tasks",
    output: (run) => at("live", "runs", run),
    bus: (task) => at("live", "tasks", task, "bus"),
    file: (run) => `${ROOT}${at("runs", run, "output")}`,
  },
};

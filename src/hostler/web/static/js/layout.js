// Page layout: header, navigation, notices, the current screen, toasts and dialog.

import { logOut } from "./api.js";
import { timeUntil, timeOfDay, plural } from "./lib/format.js";
import { h } from "./lib/vdom.js";
import { renderDialog } from "./components/dialogs.js";
import { button, icon } from "./components/elements.js";
import { governor } from "./screens/governor.js";
import { health } from "./screens/health.js";
import { overview } from "./screens/overview.js";
import { taskScreen } from "./screens/task.js";
import { work } from "./screens/work.js";
import { closeToast } from "./state.js";

const SCREENS = { overview, work, governor, health, task: taskScreen };
const NAVIGATION = [
  ["overview", "Overview", "#/overview"],
  ["work", "Work", "#/work"],
  ["governor", "Governor", "#/governor"],
  ["health", "Health", "#/health"],
];

export function layout(state, actions) {
  return [
    header(state, actions),
    h("div", { class: "notices" }, notices(state, actions)),
    h("main", { class: `content ${state.connection.state === "away" ? "is-stale" : ""}`, id: "content", tabindex: -1, key: state.route.screen }, SCREENS[state.route.screen](state, actions)),
    h("div", { class: "toasts", role: "status", key: "toasts" }, state.toasts.map(renderToast)),
    renderDialog(state.dialog),
  ];
}

function header(state, actions) {
  const dark = state.theme === "dark";
  return h(
    "header",
    { class: "head", key: "head" },
    h("a", { class: "brand", href: "#/overview", "aria-label": "Hostler overview" }, icon("horseshoe", 3.4), h("span", { class: "wide-only" }, "Hostler")),
    h("nav", { class: "nav", "aria-label": "Screens" }, NAVIGATION.map(([name, label, href]) => navigationLink(name, label, href, state))),
    h(
      "div",
      { class: "head-end" },
      connectionChip(state.connection),
      button([icon("plus"), h("span", { class: "wide-only" }, "New task")], actions.submit, { variant: "is-primary", "aria-label": "New task" }),
      button(icon(dark ? "sun" : "moon"), actions.toggleTheme, { variant: "is-plain is-icon", "aria-label": dark ? "Light theme" : "Dark theme", title: dark ? "Light theme" : "Dark theme" }),
      button(icon("log_out"), logOut, { variant: "is-plain is-icon", "aria-label": "Log out", title: "Log out" }),
    ),
  );
}

function navigationLink(name, label, href, { route, snapshot }) {
  const current = route.screen === name || (route.screen === "task" && name === "work");
  const needsYou = name === "overview" ? (snapshot?.needs_person_total ?? 0) : 0;
  return h("a", { href, key: name, "aria-current": current ? "page" : null }, icon(name), label, needsYou ? h("span", { class: "badge", "aria-label": `${plural(needsYou, "task needs", "tasks need")} you` }, needsYou > 99 ? "99+" : needsYou) : null);
}

const CONNECTION_LABELS = { connecting: "connecting", live: "live", away: "disconnected", gone: "refused" };

function connectionChip(connection) {
  return h("span", { class: `connection is-${connection.state}` }, CONNECTION_LABELS[connection.state]);
}

// -- notices ----------------------------------------------------------------------------------

function notices(state, actions) {
  const snapshot = state.snapshot;
  const shown = [];
  if (state.connection.state === "away" || (state.connection.state === "connecting" && state.disconnected)) shown.push(disconnectedNotice(state, actions));
  if (!snapshot) return shown;
  if (!snapshot.service) shown.push(notice("service", "is-bad", ["The service is not running, so no task will start. Run ", h("code", {}, "hostler service --web"), "."]));
  else if (!snapshot.service.takes_tasks) shown.push(notice("taking", "", "The running process does not start tasks."));
  if (snapshot.disk_full) shown.push(notice("disk", "is-bad", snapshot.disk_full));
  for (const pause of snapshot.pauses) {
    const what = pause.scope === "all" ? "Everything" : pause.scope.replace(/^project:/, "");
    shown.push(notice(`pause ${pause.scope}`, "", `${what} was paused by ${pause.by} at ${timeOfDay(pause.since, state.now)}${pause.why ? `: ${pause.why}` : "."}`));
  }
  return shown;
}

function disconnectedNotice(state, actions) {
  const when = state.connection.at ? `Retrying ${timeUntil(new Date(state.connection.at).toISOString(), Date.now())}.` : "Retrying now.";
  const dataAge = state.snapshot ? ` Showing data from ${timeOfDay(state.snapshot.now, state.now)}.` : "";
  return h("div", { class: "notice is-bad", role: "alert", key: "away" }, h("p", {}, `${state.connection.why?.message ?? "The connection to the service was lost."} ${when}${dataAge}`), button("Retry now", actions.reconnectNow));
}

function notice(key, variant, label) {
  return h("div", { class: `notice ${variant}`, key }, h("p", {}, label));
}

function renderToast(one) {
  return h("div", { class: `toast tone-${one.tone}`, key: one.id }, h("p", {}, h("strong", {}, one.what), one.more ? h("span", { class: "small soft" }, ` ${one.more}`) : null), button(icon("close"), () => closeToast(one.id), { variant: "is-plain is-icon is-small", "aria-label": "Close" }));
}

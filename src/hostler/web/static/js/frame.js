// The head, the ways between screens, notices; and the screen itself.

import { logOut } from "./api.js";
import { ahead, clock, many } from "./lib/format.js";
import { h } from "./lib/vdom.js";
import { drawnDialog } from "./parts/dialogs.js";
import { button, icon } from "./parts/small.js";
import { governor } from "./screens/governor.js";
import { health } from "./screens/health.js";
import { stable } from "./screens/stable.js";
import { taskScreen } from "./screens/task.js";
import { work } from "./screens/work.js";
import { closeToast } from "./state.js";

const SCREENS = { stable, work, governor, health, task: taskScreen };
const WAYS = [
  ["stable", "Stable", "#/stable"],
  ["work", "Work", "#/work"],
  ["governor", "Governor", "#/governor"],
  ["health", "Health", "#/health"],
];

export function frame(state, acts) {
  return [
    head(state, acts),
    h("div", { class: "notices" }, notices(state, acts)),
    h("main", { class: `room ${state.link.state === "away" ? "is-old" : ""}`, id: "room", tabindex: -1, key: state.route.screen }, SCREENS[state.route.screen](state, acts)),
    h("div", { class: "toasts", role: "status", key: "toasts" }, state.toasts.map(drawnToast)),
    drawnDialog(state.dialog),
  ];
}

function head(state, acts) {
  const dark = state.theme === "dark";
  return h(
    "header",
    { class: "head", key: "head" },
    h("a", { class: "brand", href: "#/stable", "aria-label": "Hostler, to the stable" }, icon("horseshoe", 3.4), h("span", { class: "wide-only" }, "Hostler")),
    h("nav", { class: "ways", "aria-label": "Screens" }, WAYS.map(([name, words, href]) => way(name, words, href, state))),
    h(
      "div",
      { class: "head-end" },
      pulse(state.link),
      button([icon("plus"), h("span", { class: "wide-only" }, "New task")], acts.submit, { look: "is-main", "aria-label": "New task" }),
      button(icon(dark ? "sun" : "moon"), acts.turnTheme, { look: "is-plain is-icon", "aria-label": dark ? "Light" : "Dark", title: dark ? "Light" : "Dark" }),
      button(icon("door"), logOut, { look: "is-plain is-icon", "aria-label": "Log out", title: "Log out" }),
    ),
  );
}

function way(name, words, href, { route, snapshot }) {
  const here = route.screen === name || (route.screen === "task" && name === "work");
  const needy = name === "stable" ? (snapshot?.needs_person_total ?? 0) : 0;
  return h("a", { href, key: name, "aria-current": here ? "page" : null }, icon(name), words, needy ? h("span", { class: "badge", "aria-label": `${many(needy, "task needs", "tasks need")} you` }, needy > 99 ? "99+" : needy) : null);
}

const LINK_WORDS = { connecting: "connecting", live: "live", away: "away", gone: "refused" };

function pulse(link) {
  return h("span", { class: `pulse is-${link.state}` }, LINK_WORDS[link.state]);
}

// -- notices ----------------------------------------------------------------------------------

function notices(state, acts) {
  const seen = state.snapshot;
  const found = [];
  if (state.link.state === "away" || (state.link.state === "connecting" && state.cutOff)) found.push(away(state, acts));
  if (!seen) return found;
  if (!seen.service) found.push(notice("service", "is-bad", ["Nobody works on this home: nothing starts. ", h("code", {}, "hostler service --web")]));
  else if (!seen.service.takes_tasks) found.push(notice("taking", "", "What works on this home takes no tasks."));
  if (seen.disk_full) found.push(notice("disk", "is-bad", seen.disk_full));
  for (const pause of seen.pauses) {
    const what = pause.scope === "all" ? "Everything" : pause.scope.replace(/^project:/, "");
    found.push(notice(`pause ${pause.scope}`, "", `${what} is paused since ${clock(pause.since, state.now)} by ${pause.by}${pause.why ? `: ${pause.why}` : "."}`));
  }
  return found;
}

function away(state, acts) {
  const when = state.link.at ? `Next try ${ahead(new Date(state.link.at).toISOString(), Date.now())}.` : "Trying now.";
  const old = state.snapshot ? ` This is what was seen at ${clock(state.snapshot.now, state.now)}.` : "";
  return h("div", { class: "notice is-bad", role: "alert", key: "away" }, h("p", {}, `${state.link.why?.message ?? "The service is away."} ${when}${old}`), button("Try now", acts.tryNow));
}

function notice(key, look, words) {
  return h("div", { class: `notice ${look}`, key }, h("p", {}, words));
}

function drawnToast(one) {
  return h("div", { class: `toast tone-${one.tone}`, key: one.id }, h("p", {}, h("strong", {}, one.what), one.more ? h("span", { class: "small soft" }, ` ${one.more}`) : null), button(icon("close"), () => closeToast(one.id), { look: "is-plain is-icon is-small", "aria-label": "Close" }));
}

// Health: what is wanted of a day, what doctor finds, what GitHub and the agents cost, how late looks were.

import { ago, clock, count, duration, money, percent, roughly, UNKNOWN } from "../lib/format.js";
import { h } from "../lib/vdom.js";
import { bones, button, chip, empty, sectionHead, trouble, withCode } from "../parts/small.js";

const TONES = { ok: "good", warning: "ask", failed: "bad", skipped: "idle" };
const ORDER = ["failed", "warning", "ok", "skipped"];

export function health(state, acts) {
  const seen = state.snapshot;
  if (!seen) return state.snapshotError ? trouble(state.snapshotError, acts.refresh) : h("div", { class: "stack", "aria-busy": "true" }, bones(6));
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "room-head" }, h("h1", {}, "Health"), service(seen, state.now)),
    h(
      "div",
      { class: "columns" },
      h("div", { class: "stack" }, objectives(seen), findings(state, acts), history(seen)),
      h("div", { class: "stack" }, github(seen), cost(seen), lags(seen, state.now), feeds(seen, state.now)),
    ),
  );
}

function service(seen, now) {
  const one = seen.service;
  if (!one) return chip("nobody works on this home", "bad", { class: "has-dot" });
  return h("p", { class: "soft small" }, `Hostler ${one.version ?? ""} on ${one.host}, pid ${one.pid}, since ${clock(one.since, now)}${one.takes_tasks ? "" : "; it takes no tasks"}`);
}

// -- what is wanted of a day -------------------------------------------------------------------

function objectives(seen) {
  const rows = seen.objectives ?? [];
  if (!rows.length) return null;
  const missed = rows.filter((one) => one.met === false).length;
  return h(
    "section",
    { key: "objectives", "aria-label": "Objectives of the last day" },
    sectionHead("Objectives of the last day", missed ? `${missed} missed` : undefined),
    h("ul", { class: "panel rows" }, rows.map(objective)),
  );
}

function objective(one) {
  const [words, tone] = one.met === null ? ["no data", "idle"] : one.met ? ["met", "good"] : ["missed", "bad"];
  return h(
    "li",
    { class: "objective", key: one.name },
    chip(words, tone, { class: "has-dot" }),
    h("p", { class: "small" }, one.what),
    h("p", { class: "objective-value" }, h("strong", { class: "number" }, measured(one.value, one.unit)), h("span", { class: "soft tiny" }, `wanted: ${one.at_most ? "at most" : "at least"} ${measured(one.target, one.unit)}; of ${count(one.of)}`)),
  );
}

function measured(value, unit) {
  if (!Number.isFinite(value)) return UNKNOWN;
  return unit === "share" ? `${(Math.floor(value * 1000) / 10).toString()}\u00a0%` : duration(value);
}

// -- doctor -----------------------------------------------------------------------------------

function findings(state, acts) {
  return h("section", { key: "doctor", "aria-label": "Doctor" }, sectionHead("Doctor", state.findings ? tally(state.findings) : undefined, button("Ask again", acts.examine, { look: "is-plain" })), found(state, acts));
}

function tally(list) {
  const bad = list.filter((one) => one.status === "failed" || one.status === "warning").length;
  if (!list.length) return undefined;
  return bad ? `${bad} of ${list.length} to look at` : `${list.length}, all well`;
}

function found(state, acts) {
  if (state.findingsError?.status === 404) return empty("This service does not tell what doctor finds.", "Run hostler doctor in a terminal.");
  if (state.findingsError) return trouble(state.findingsError, acts.examine);
  if (!state.findings) return h("div", { class: "stack-tight", "aria-busy": "true" }, bones(5));
  if (!state.findings.length) return empty("Doctor has nothing to say.");
  const rows = [...state.findings].sort((a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status));
  return h("ul", { class: "panel rows" }, rows.map(finding));
}

function finding(one, at) {
  return h("li", { class: "finding", key: `${one.check} ${at}` }, chip(one.status, TONES[one.status] ?? "idle", { class: "has-dot" }), h("strong", { class: "small" }, one.check), h("div", {}, h("p", { class: "small" }, withCode(one.evidence)), one.remedy ? h("p", { class: "small soft" }, withCode(one.remedy)) : null));
}

// -- how runs went ----------------------------------------------------------------------------

function history(seen) {
  const windows = Object.entries(seen.history);
  return h(
    "section",
    { key: "history", "aria-label": "How runs went" },
    sectionHead("How runs went"),
    windows.every(([, one]) => !one.all.count)
      ? empty("No run has ended in the last 30 days.")
      : h(
          "div",
          { class: "panel scroll-x" },
          h(
            "table",
            {},
            h("thead", {}, h("tr", {}, ["Window", "Project", "Runs", "Failed", "Runtime"].map((name) => h("th", { key: name, scope: "col" }, name)))),
            h("tbody", {}, windows.flatMap(([name, one]) => record(name, one))),
          ),
        ),
  );
}

function record(name, window) {
  const rows = Object.entries(window.projects);
  const all = row(name, name, rows.length > 1 || !rows.length ? "all" : rows[0][0], window.all);
  return rows.length > 1 ? [all, ...rows.map(([project, one]) => row(`${name} ${project}`, "", project, one))] : [all];
}

function row(key, window, project, one) {
  return h(
    "tr",
    { key, class: window ? "is-first" : "" },
    h("th", { scope: "row" }, window),
    h("td", {}, project),
    h("td", { class: "number" }, one.count),
    h("td", { class: "number" }, one.count ? `${one.failed} (${percent(one.failure_rate)})` : UNKNOWN),
    h("td", { class: "number" }, one.count ? `${duration(one.mean_seconds)} ± ${duration(one.std_seconds)}` : UNKNOWN),
  );
}

// -- GitHub -----------------------------------------------------------------------------------

const UNITS = { primary_per_hour: "requests an hour", points_per_minute: "points a minute" };

function github(seen) {
  const { now, worst, may_be_used: room, advice } = seen.github;
  const names = Object.keys(room).filter((name) => name in now);
  return h(
    "section",
    { key: "github", "aria-label": "GitHub" },
    sectionHead("GitHub's limits", undefined, fit(now, worst)),
    h(
      "div",
      { class: "panel pad stack-tight" },
      names.map((name) => use(name, now[name], worst[name], room[name])),
      seen.unsent_writes ? h("p", { class: "small" }, `${seen.unsent_writes} writes to GitHub are not sent yet.`) : null,
      advice.map((text, at) => h("p", { class: "small", key: `advice ${at}` }, withCode(text))),
      h("p", { class: "soft tiny" }, "By what is watched; not by asking GitHub."),
    ),
  );
}

function fit(now, worst) {
  if (!now.fits) return chip("polls are stretched", "ask", { class: "has-dot" });
  return worst.fits ? chip("fits", "good", { class: "has-dot" }) : chip("stretches at worst", "note", { class: "has-dot" });
}

function use(name, now, worst, room) {
  return h(
    "div",
    { key: name },
    h("div", { class: "meter-words small" }, h("span", {}, UNITS[name] ?? name.replaceAll("_", " ")), h("span", { class: "number soft" }, `${count(now)} of ${count(room)}; at worst ${count(worst)}`)),
    meter(now / room, UNITS[name] ?? name, worst / room),
  );
}

function meter(part, label, worst = 0) {
  const cut = (number) => Math.max(0, Math.min(1, Number.isFinite(number) ? number : 0));
  return h("div", { class: `meter ${part > 1 ? "is-over" : ""}`, role: "meter", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(cut(part) * 100) }, h("span", { class: "meter-worst", vars: { "--part": cut(worst) } }), h("span", { class: "meter-fill", vars: { "--part": cut(part) } }));
}

// -- money and lag ----------------------------------------------------------------------------

function cost(seen) {
  const { cost: found } = seen;
  const projects = Object.entries(found.projects);
  return h(
    "section",
    { key: "cost", "aria-label": "Cost of today" },
    sectionHead("Cost of today", money(found.today_usd)),
    h(
      "div",
      { class: "panel pad stack-tight" },
      found.per_day_usd ? h("div", {}, h("div", { class: "meter-words small" }, h("span", {}, "of the day's limit"), h("span", { class: "number soft" }, money(found.per_day_usd))), meter(found.today_usd / found.per_day_usd, "of the day's limit")) : null,
      projects.length ? h("dl", { class: "facts" }, projects.map(([name, usd]) => [h("dt", { key: `t ${name}` }, name), h("dd", { class: "number", key: `d ${name}` }, money(usd))])) : h("p", { class: "soft small" }, "Nothing was spent today."),
      found.unpriced_runs ? h("p", { class: "soft tiny" }, `${found.unpriced_runs} runs told no price.`) : null,
      found.per_task_usd ? h("p", { class: "soft tiny" }, `A task may cost ${money(found.per_task_usd)}.`) : null,
    ),
  );
}

function lags(seen, now) {
  return h(
    "section",
    { key: "lags", "aria-label": "Looks at repositories" },
    sectionHead("Looks at repositories"),
    seen.repositories.length
      ? h("ul", { class: "panel rows" }, seen.repositories.map((one) => lag(one, now)))
      : empty("No repository is watched.", "hostler repo add owner/name adds one."),
  );
}

function lag(repo, now) {
  const seen = repo.polls;
  const odd = seen ? seen.late + seen.failed : 0;
  return h(
    "li",
    { class: "lag", key: repo.project },
    h("div", { class: "title-line" }, h("span", { class: "small one-line" }, repo.repo), seen?.overdue_seconds ? chip(`overdue for ${roughly(seen.overdue_seconds)}`, "bad", { class: "has-dot" }) : null),
    seen?.looked_at
      ? h("p", { class: "soft tiny" }, `looked at ${ago(seen.looked_at, now)}, ${lagWords(seen.lag_seconds)} after it was due; at worst ${lagWords(seen.worst_seconds)}; ${odd ? `${odd} of ${seen.polls} late or in part` : `${seen.polls}, all in time`}`)
      : h("p", { class: "soft tiny" }, "no look of the last day was noted yet"),
  );
}

function lagWords(seconds) {
  return seconds < 10 ? `${seconds.toFixed(1)}s` : duration(seconds);
}

function feeds(seen, now) {
  const rows = seen.repositories.flatMap((repo) => repo.feeds.map((feed) => ({ repo: repo.repo, ...feed })));
  return h(
    "section",
    { key: "feeds", "aria-label": "Newest changes read" },
    sectionHead("Newest changes read"),
    rows.length
      ? h("div", { class: "panel scroll-x" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "List"), h("th", { scope: "col" }, "Newest"))), h("tbody", {}, rows.map((one) => h("tr", { key: `${one.repo} ${one.surface}` }, h("td", {}, h("span", { class: "small" }, one.repo), h("br", {}), h("span", { class: "soft tiny" }, one.surface.replaceAll("_", " "))), h("td", { class: "number small", title: one.newest }, ago(one.newest, now)))))))
      : empty("No list was read yet.", "Repositories are read when a service works."),
  );
}

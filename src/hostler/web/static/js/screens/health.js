// Health: service objectives, doctor findings, run statistics, GitHub limits, cost and polls.

import { count, duration, money, percent, plural, shortDuration, timeAgo, timeOfDay, UNKNOWN } from "../lib/format.js";
import { h } from "../lib/vdom.js";
import { skeleton, button, chip, empty, sectionHeader, errorPanel, withCode } from "../components/elements.js";

const TONES = { ok: "good", warning: "ask", failed: "bad", skipped: "idle" };
const ORDER = ["failed", "warning", "ok", "skipped"];

export function health(state, actions) {
  const snapshot = state.snapshot;
  if (!snapshot) return state.snapshotError ? errorPanel(state.snapshotError, actions.refresh) : h("div", { class: "stack", "aria-busy": "true" }, skeleton(6));
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "content-head" }, h("h1", {}, "Health"), service(snapshot, state.now)),
    h(
      "div",
      { class: "columns" },
      h("div", { class: "stack" }, objectives(snapshot), findings(state, actions), history(snapshot)),
      h("div", { class: "stack" }, github(snapshot), costOfToday(snapshot), polls(snapshot, state.now), feeds(snapshot, state.now)),
    ),
  );
}

function service(snapshot, now) {
  const one = snapshot.service;
  if (!one) return chip("service not running", "bad", { class: "has-dot" });
  return h("p", { class: "soft small" }, `Hostler ${one.version ?? ""} on ${one.host}, pid ${one.pid}, since ${timeOfDay(one.since, now)}${one.takes_tasks ? "" : "; does not start tasks"}`);
}

// -- objectives -------------------------------------------------------------------------------

function objectives(snapshot) {
  const rows = snapshot.objectives ?? [];
  if (!rows.length) return null;
  const missed = rows.filter((one) => one.met === false).length;
  return h(
    "section",
    { key: "objectives", "aria-label": "Objectives (last 24 h)" },
    sectionHeader("Objectives (last 24 h)", missed ? `${missed} missed` : undefined),
    h("ul", { class: "panel rows" }, rows.map(objective)),
  );
}

function objective(one) {
  const [label, tone] = one.met === null ? ["no data", "idle"] : one.met ? ["met", "good"] : ["missed", "bad"];
  return h(
    "li",
    { class: "objective", key: one.name },
    chip(label, tone, { class: "has-dot" }),
    h("p", { class: "small" }, one.what),
    h("p", { class: "objective-value" }, h("strong", { class: "number" }, formatMeasure(one.value, one.unit)), h("span", { class: "soft tiny" }, `target: ${one.at_most ? "at most" : "at least"} ${formatMeasure(one.target, one.unit)}, ${count(one.of)} measured`)),
  );
}

function formatMeasure(value, unit) {
  if (!Number.isFinite(value)) return UNKNOWN;
  return unit === "share" ? `${(Math.floor(value * 1000) / 10).toString()}\u00a0%` : duration(value);
}

// -- doctor -----------------------------------------------------------------------------------

function findings(state, actions) {
  return h("section", { key: "doctor", "aria-label": "Doctor" }, sectionHeader("Doctor", state.findings ? summarizeFindings(state.findings) : undefined, button("Run again", actions.loadFindings, { variant: "is-plain" })), findingList(state, actions));
}

function summarizeFindings(list) {
  const bad = list.filter((one) => one.status === "failed" || one.status === "warning").length;
  if (!list.length) return undefined;
  return bad ? `${bad} of ${list.length} need attention` : `${list.length} checks passed`;
}

function findingList(state, actions) {
  if (state.findingsError?.status === 404) return empty("This service does not report doctor findings.", withCode("Run `hostler doctor` in a terminal."));
  if (state.findingsError) return errorPanel(state.findingsError, actions.loadFindings);
  if (!state.findings) return h("div", { class: "stack-tight", "aria-busy": "true" }, skeleton(5));
  if (!state.findings.length) return empty("No findings.");
  const rows = [...state.findings].sort((a, b) => ORDER.indexOf(a.status) - ORDER.indexOf(b.status));
  return h("ul", { class: "panel rows" }, rows.map(finding));
}

function finding(one, at) {
  return h("li", { class: "finding", key: `${one.check} ${at}` }, chip(one.status, TONES[one.status] ?? "idle", { class: "has-dot" }), h("strong", { class: "small" }, one.check), h("div", {}, h("p", { class: "small" }, withCode(one.evidence)), one.remedy ? h("p", { class: "small soft" }, withCode(one.remedy)) : null));
}

// -- run statistics --------------------------------------------------------------------------

function history(snapshot) {
  const windows = Object.entries(snapshot.history);
  return h(
    "section",
    { key: "history", "aria-label": "Run statistics" },
    sectionHeader("Run statistics"),
    windows.every(([, one]) => !one.all.count)
      ? empty("No run has ended in the last 30 days.")
      : h(
          "div",
          { class: "panel scroll-x" },
          h(
            "table",
            {},
            h("thead", {}, h("tr", {}, ["Period", "Project", "Runs", "Failed", "Runtime"].map((name) => h("th", { key: name, scope: "col" }, name)))),
            h("tbody", {}, windows.flatMap(([name, one]) => periodRows(name, one))),
          ),
        ),
  );
}

function periodRows(name, window) {
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

const LIMIT_LABELS = { primary_per_hour: "requests per hour", points_per_minute: "points per minute" };

function github(snapshot) {
  const { now, worst, may_be_used: limit, advice } = snapshot.github;
  const names = Object.keys(limit).filter((name) => name in now);
  return h(
    "section",
    { key: "github", "aria-label": "GitHub" },
    sectionHeader("GitHub limits", undefined, fitChip(now, worst)),
    h(
      "div",
      { class: "panel pad stack-tight" },
      names.map((name) => usageMeter(name, now[name], worst[name], limit[name])),
      snapshot.unsent_writes ? h("p", { class: "small" }, `${plural(snapshot.unsent_writes, "write")} to GitHub not sent yet.`) : null,
      advice.map((text, at) => h("p", { class: "small", key: `advice ${at}` }, withCode(text))),
      h("p", { class: "soft tiny" }, "Estimated from the watched repositories, not measured."),
    ),
  );
}

function fitChip(now, worst) {
  if (!now.fits) return chip("polls slowed down", "ask", { class: "has-dot" });
  return worst.fits ? chip("within limits", "good", { class: "has-dot" }) : chip("slows down at peak", "note", { class: "has-dot" });
}

function usageMeter(name, now, worst, limit) {
  return h(
    "div",
    { key: name },
    h("div", { class: "meter-labels small" }, h("span", {}, LIMIT_LABELS[name] ?? name.replaceAll("_", " ")), h("span", { class: "number soft" }, `${count(now)} of ${count(limit)}; peak ${count(worst)}`)),
    meter(now / limit, LIMIT_LABELS[name] ?? name, worst / limit),
  );
}

function meter(part, label, worst = 0) {
  const cut = (number) => Math.max(0, Math.min(1, Number.isFinite(number) ? number : 0));
  return h("div", { class: `meter ${part > 1 ? "is-over" : ""}`, role: "meter", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(cut(part) * 100) }, h("span", { class: "meter-worst", vars: { "--part": cut(worst) } }), h("span", { class: "meter-fill", vars: { "--part": cut(part) } }));
}

// -- cost and polls --------------------------------------------------------------------------

function costOfToday(snapshot) {
  const { cost } = snapshot;
  const projects = Object.entries(cost.projects);
  return h(
    "section",
    { key: "cost", "aria-label": "Cost today" },
    sectionHeader("Cost today", money(cost.today_usd)),
    h(
      "div",
      { class: "panel pad stack-tight" },
      cost.per_day_usd ? h("div", {}, h("div", { class: "meter-labels small" }, h("span", {}, "Daily limit"), h("span", { class: "number soft" }, money(cost.per_day_usd))), meter(cost.today_usd / cost.per_day_usd, "Daily limit")) : null,
      projects.length ? h("dl", { class: "facts" }, projects.map(([name, usd]) => [h("dt", { key: `t ${name}` }, name), h("dd", { class: "number", key: `d ${name}` }, money(usd))])) : h("p", { class: "soft small" }, "No cost today."),
      cost.unpriced_runs ? h("p", { class: "soft tiny" }, `${plural(cost.unpriced_runs, "run")} reported no cost.`) : null,
      cost.per_task_usd ? h("p", { class: "soft tiny" }, `Limit per task: ${money(cost.per_task_usd)}.`) : null,
    ),
  );
}

function polls(snapshot, now) {
  return h(
    "section",
    { key: "polls", "aria-label": "Polls" },
    sectionHeader("Polls"),
    snapshot.repositories.length
      ? h("ul", { class: "panel rows" }, snapshot.repositories.map((one) => pollRow(one, now)))
      : empty("No repositories yet.", withCode("Add one with `hostler repo add owner/name`.")),
  );
}

function pollRow(repo, now) {
  const polls = repo.polls;
  const irregular = polls ? polls.late + polls.failed : 0;
  return h(
    "li",
    { class: "poll-row", key: repo.project },
    h("div", { class: "title-line" }, h("span", { class: "small one-line" }, repo.repo), polls?.overdue_seconds ? chip(`overdue for ${shortDuration(polls.overdue_seconds)}`, "bad", { class: "has-dot" }) : null),
    polls?.looked_at
      ? h("p", { class: "soft tiny" }, `last poll ${timeAgo(polls.looked_at, now)}, ${lagText(polls.lag_seconds)} late (worst ${lagText(polls.worst_seconds)}); ${irregular ? `${irregular} of ${polls.polls} late or incomplete` : `${polls.polls} polls, all on time`}`)
      : h("p", { class: "soft tiny" }, "no poll recorded in the last 24 h"),
  );
}

function lagText(seconds) {
  return seconds < 10 ? `${seconds.toFixed(1)}s` : duration(seconds);
}

function feeds(snapshot, now) {
  const rows = snapshot.repositories.flatMap((repo) => repo.feeds.map((feed) => ({ repo: repo.repo, ...feed })));
  return h(
    "section",
    { key: "feeds", "aria-label": "Newest change read per list" },
    sectionHeader("Newest change read per list"),
    rows.length
      ? h("div", { class: "panel scroll-x" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "List"), h("th", { scope: "col" }, "Newest"))), h("tbody", {}, rows.map((one) => h("tr", { key: `${one.repo} ${one.surface}` }, h("td", {}, h("span", { class: "small" }, one.repo), h("br", {}), h("span", { class: "soft tiny" }, one.surface.replaceAll("_", " "))), h("td", { class: "number small", title: one.newest }, timeAgo(one.newest, now)))))))
      : empty("Nothing read yet.", "The service reads repositories while it runs."),
  );
}

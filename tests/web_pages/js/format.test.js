import { secondsSince, timeAgo, timeUntil, timeOfDay, count, duration, plural, megabytes, money, percent, shortDuration, safeUrl, UNKNOWN } from "/static/js/lib/format.js";
import { delay } from "/static/js/lib/retry.js";
import { parseRoute, taskAddress } from "/static/js/lib/routes.js";
import { dice, equal, holds, test } from "./harness.js";
export { run } from "./harness.js";

test("durations have at most two units", () => {
  equal([0, 59.9, 60, 3599, 3600, 86399, 86400, 200000].map(duration), ["0s", "59s", "1m 00s", "59m 59s", "1h 00m", "23h 59m", "1d 00h", "2d 07h"]);
  equal([-5, NaN, Infinity, undefined].map(duration), ["0s", UNKNOWN, UNKNOWN, UNKNOWN]);
  equal(shortDuration(3700), "1h");
});

test("counts are short and use the largest unit", () => {
  equal([0, 999, 1000, 1234, 9960, 34567, 999499, 999999, 5.6e6, 2e9].map(count), ["0", "999", "1k", "1.2k", "10k", "35k", "999k", "1M", "5.6M", "2G"]);
  const roll = dice(3);
  for (let round = 0; round < 2000; round += 1) holds(!/1000/.test(count(10 ** (roll() * 8))), "a thousand of the smaller");
  equal(count(null), UNKNOWN);
});

test("money has cents, and small amounts are not shown as zero", () => {
  equal([0, 0.004, 0.0099, 0.42, 12, 1234.5, 1234567.891].map(money), ["$0", "<$0.01", "<$0.01", "$0.42", "$12.00", "$1,234.50", "$1,234,567.89"]);
  equal(money(null), UNKNOWN);
});

test("memory, percentages and plurals", () => {
  equal([512, 1024, 6144, 1536].map(megabytes), ["512 MB", "1 GB", "6 GB", "1.5 GB"]);
  equal(percent(0.123), "12\u00a0%");
  equal([plural(1, "task"), plural(2, "task"), plural(0, "task")], ["1 task", "2 tasks", "0 tasks"]);
});

test("times are relative to now, and unknown ones are marked", () => {
  const now = Date.parse("2026-03-01T12:00:00.000Z");
  equal(secondsSince("2026-03-01T11:59:00.000Z", now), 60);
  equal(secondsSince("2026-03-01T12:59:00.000Z", now), 0, "no age is negative");
  equal([timeAgo("2026-03-01T11:00:00.000Z", now), timeAgo("2026-03-01T12:00:00.000Z", now), timeAgo(null, now)], ["1h ago", "now", UNKNOWN]);
  equal([timeUntil("2026-03-01T12:04:10.000Z", now), timeUntil("2026-03-01T11:00:00.000Z", now)], ["in 4m", "now"]);
  equal([timeOfDay("2026-03-01T09:05:00.000Z", now), timeOfDay("2026-02-27T09:05:00.000Z", now)], ["09:05", "27 Feb 09:05"]);
});

test("only http and https become links", () => {
  equal(safeUrl("https://a.example/x"), "https://a.example/x");
  for (const bad of ["javascript:alert(1)", "data:text/html,x", " JaVaScRiPt:x", "//a", "", null, 7, "vbscript:x", "\u0001javascript:x"]) equal(safeUrl(bad), null, String(bad));
});

test("delays double up to half a minute", () => {
  equal([1, 2, 3, 4, 5, 6, 60].map((n) => delay(n, 0.999999)), [1000, 2000, 4000, 8000, 16000, 30000, 30000]);
  const roll = dice(1);
  for (let n = 1; n < 200; n += 1) {
    const found = delay(n, roll());
    holds(found >= 750 && found <= 30000, `delay ${found}`);
  }
});

test("addresses map to screens and back, and unknown ones to the overview", () => {
  equal(parseRoute("#/overview").screen, "overview");
  equal(parseRoute("#/work/graph"), { screen: "work", view: "graph" });
  equal(parseRoute("#/work").view, "board");
  for (const name of ["a", "a b", "ä/%", "x#y"]) equal(parseRoute(taskAddress(name)).task, name);
  for (const odd of ["", "#", "#/", "#/nowhere", "#/%E0%A4%A", "#/task/"]) equal(parseRoute(odd).screen, "overview", odd);
});

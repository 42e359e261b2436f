"""The rows of every panel, from a snapshot as programs get it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hostler.tui.fitting import shown
from hostler.tui.numbers import UNKNOWN, lasted, moment, money, passed, share, tokens
from hostler.tui.state import News, Panel, Pick, Screen
from hostler.tui.tables import Column

BAD, WARN, GOOD, DIM = "bad", "warn", "good", "dim"
_STATES = {"needs_input": "asks"}
_WIDE = 400
BY_HAND = "by hand"


@dataclass(frozen=True, slots=True)
class Row:
    """One row: what it is of, its cells, and how it is meant. `ages`: a time in it goes on."""

    key: str
    cells: tuple[str, ...]
    tone: str = ""
    task: str = ""
    url: str = ""
    item: Mapping[str, Any] | None = None
    ages: bool = False


COLUMNS: Mapping[Panel, tuple[Column, ...]] = {
    Panel.AGENTS: (
        Column("for", 1, numeric=True),
        Column("repository", 3, least=8),
        Column("work", 2),
        Column("agent", 5, least=6, most=14),
        Column("try", 9, numeric=True),
        Column("silent", 6, numeric=True),
        Column("tokens", 8, numeric=True),
        Column("cost", 7, numeric=True),
        Column("title", 4, least=10, most=_WIDE),
    ),
    Panel.QUEUE: (
        Column("#", 1, numeric=True),
        Column("waits", 6, numeric=True),
        Column("repository", 4, least=8),
        Column("work", 2),
        Column("gate", 3, most=14),
        Column("since", 7),
        Column("opens", 5),
        Column("why", 8, least=16, most=60),
        Column("title", 9, least=12, most=_WIDE),
    ),
    Panel.BLOCKED: (
        Column("for", 1, numeric=True),
        Column("repository", 5, least=8),
        Column("work", 2),
        Column("state", 3),
        Column("what", 4, least=14, most=90),
        Column("title", 6, least=16, most=_WIDE),
    ),
    Panel.PRS: (
        Column("repository", 2, least=8),
        Column("PR", 1),
        Column("issue", 4),
        Column("status", 3, most=20),
        Column("turns", 6, numeric=True),
        Column("title", 5, least=8, most=_WIDE),
    ),
    Panel.HISTORY: (
        Column("repository", 1, least=8, most=40),
        Column("runs", 5, numeric=True),
        Column("failed", 6, numeric=True),
        Column("fail rate", 2, numeric=True),
        Column("mean", 3, numeric=True),
        Column("std-dev", 4, numeric=True),
    ),
    Panel.LOG: (Column("line", 1, least=1, most=_WIDE),),
}
NOTHING_SEEN = "Not known yet."
EMPTY = {
    Panel.AGENTS: "No agent is at work.",
    Panel.QUEUE: "Nothing waits.",
    Panel.BLOCKED: "Nobody is needed.",
    Panel.PRS: "No pull request is followed.",
    Panel.HISTORY: "No run has ended.",
    Panel.LOG: "Nothing was said yet.",
}


def rows_of(panel: Panel, screen: Screen, news: News) -> list[Row]:
    """The rows of a panel, of the repository that is asked for."""
    if panel is Panel.LOG:
        return [
            Row(str(at), (shown(line),)) for at, line in enumerate(news.log, start=news.forgotten)
        ]
    if news.seen is None:
        return []
    if panel is Panel.HISTORY:
        return list(_history(news.seen, screen))
    key, row = _PANELS[panel]
    return [row(one, news) for one in news.seen[key] if screen.project in ("", one["project"])]


def total_of(panel: Panel, screen: Screen, news: News, rows: Sequence[Row]) -> int:
    """How many there are, also of those that a snapshot leaves out."""
    if news.seen is None or screen.project or panel not in _PANELS:
        return len(rows)
    return int(news.seen[f"{_PANELS[panel][0]}_total"])


def place_of(panel: Panel, rows: Sequence[Row], pick: Pick | None) -> int:
    """Where the chosen row is now; where it was, if it is gone. The log is read from its end."""
    if pick is None:
        return max(len(rows) - 1, 0) if panel is Panel.LOG else 0
    for at, row in enumerate(rows):
        if row.key == pick.key:
            return at
    return max(min(pick.at, len(rows) - 1), 0)


def projects_of(news: News) -> list[str]:
    """All projects that can be asked for: those of the settings, and those of tasks by hand."""
    if news.seen is None:
        return []
    names = {one["project"]: None for one in news.seen["repositories"]}
    for key, _ in _PANELS.values():
        names |= {one["project"]: None for one in news.seen[key]}
    return list(names)


def name_of(project: str, news: News) -> str:
    """A project as people know it: its repository, if it has one."""
    for one in news.seen["repositories"] if news.seen else ():
        if one["project"] == project:
            return shown(one["repo"])
    return shown(project)


def work_of(item: Mapping[str, Any]) -> str:
    """What it is about: an issue, a pull request, or a task by hand."""
    number = item.get("issue") or item.get("pull")
    return f"#{number}" if number else BY_HAND


def url_of(item: Mapping[str, Any]) -> str:
    """Its page: the pull request's, or the issue's."""
    return str(item.get("pull_url") or item.get("issue_url") or "")


def state_words(state: str) -> str:
    return _STATES.get(state, state.replace("_", " "))


def _agent(one: Mapping[str, Any], news: News) -> Row:
    idle = one["idle_seconds"]
    lends = "lent" if one["lent"] else passed(None if idle is None else idle + news.late)
    cells = (
        passed(one["seconds"] + news.late),
        name_of(one["project"], news),
        work_of(one),
        shown(one["agent"]),
        str(one["attempt"]),
        "stops" if one["stopping"] else lends,
        tokens(one["input_tokens"] + one["output_tokens"]),
        money(one["usd"]),
        shown(one.get("title") or ""),
    )
    tone = WARN if one["stopping"] else ""
    return Row(one["run"], cells, tone, one["task"], url_of(one), one, ages=True)


def _queued(one: Mapping[str, Any], news: News) -> Row:
    cells = (
        str(one["position"]),
        passed(one["seconds"] + news.late),
        name_of(one["project"], news),
        work_of(one),
        "next" if one["would_start"] else shown(one["gate"]),
        moment(one["since"], news.now, news.zone),
        moment(one["until"], news.now, news.zone),
        shown(one["why"] or ""),
        shown(one["title"]),
    )
    tone = GOOD if one["would_start"] else ""
    return Row(one["task"], cells, tone, one["task"], url_of(one), one, ages=True)


def _needy(one: Mapping[str, Any], news: News) -> Row:
    cells = (
        passed(one["seconds"] + news.late),
        name_of(one["project"], news),
        work_of(one),
        state_words(one["state"]),
        shown(one["question"] or one["what"]),
        shown(one["title"]),
    )
    tone = WARN if one["question"] else BAD
    return Row(one["task"], cells, tone, one["task"], url_of(one), one, ages=True)


def _pull(one: Mapping[str, Any], news: News) -> Row:
    status = str(one["status"])
    cells = (
        name_of(one["project"], news),
        f"#{one['pull']}",
        f"#{one['issue']}" if one["issue"] else UNKNOWN,
        state_words(status),
        str(one["turns_without_person"]),
        shown(one["title"]),
    )
    tone = BAD if status == "blocked" else ""
    return Row(f"{one['repo']}#{one['pull']}", cells, tone, one["task"], url_of(one), one)


def _history(seen: Mapping[str, Any], screen: Screen) -> Iterator[Row]:
    window = seen["history"][screen.window]
    repos = {one["project"]: one["repo"] for one in seen["repositories"]}
    if not screen.project and window["all"]["count"]:
        yield _record("", "all", window["all"])
    names = [screen.project] if screen.project else window["projects"]
    for name in names:
        record = window["projects"].get(name)
        if record is not None:
            yield _record(name, shown(repos.get(name, name)), record)


def _record(key: str, name: str, one: Mapping[str, Any]) -> Row:
    cells = (
        name,
        str(one["count"]),
        str(one["failed"]),
        share(one["failure_rate"]),
        lasted(one["mean_seconds"]),
        lasted(one["std_seconds"]),
    )
    return Row(f"project {key}", cells, item=one)


_PANELS: Mapping[Panel, tuple[str, Callable[[Mapping[str, Any], News], Row]]] = {
    Panel.AGENTS: ("at_work", _agent),
    Panel.QUEUE: ("queue", _queued),
    Panel.BLOCKED: ("needs_person", _needy),
    Panel.PRS: ("pulls", _pull),
}

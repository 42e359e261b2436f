"""Build the rows of each panel from a snapshot. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hostler.tui.layout import TableColumn
from hostler.tui.state import Panel, RowSelection, ScreenData, ScreenState
from hostler.tui.text_format import (
    UNKNOWN,
    format_age,
    format_duration,
    format_percent,
    format_time,
    format_tokens,
    format_usd,
    sanitize_text,
)

BAD, WARN, GOOD, DIM = "bad", "warn", "good", "dim"
_STATE_TEXTS = {"needs_input": "asks"}
_MAX_WIDTH = 400
MANUAL_TASK = "manual"


@dataclass(frozen=True, slots=True)
class PanelRow:
    """One row: what it is of, its cells, and how it is meant. `ages`: a time in it goes on."""

    key: str
    cells: tuple[str, ...]
    tone: str = ""
    task: str = ""
    url: str = ""
    item: Mapping[str, Any] | None = None
    ages: bool = False


COLUMNS: Mapping[Panel, tuple[TableColumn, ...]] = {
    Panel.AGENTS: (
        TableColumn("time", 1, numeric=True),
        TableColumn("repository", 3, least=8),
        TableColumn("work", 2),
        TableColumn("agent", 5, least=6, most=14),
        TableColumn("try", 9, numeric=True),
        TableColumn("idle", 6, numeric=True),
        TableColumn("tokens", 8, numeric=True),
        TableColumn("cost", 7, numeric=True),
        TableColumn("title", 4, least=10, most=_MAX_WIDTH),
    ),
    Panel.QUEUE: (
        TableColumn("#", 1, numeric=True),
        TableColumn("waits", 6, numeric=True),
        TableColumn("repository", 4, least=8),
        TableColumn("work", 2),
        TableColumn("gate", 3, most=14),
        TableColumn("since", 7),
        TableColumn("opens", 5),
        TableColumn("why", 8, least=16, most=60),
        TableColumn("title", 9, least=12, most=_MAX_WIDTH),
    ),
    Panel.NEEDS_YOU: (
        TableColumn("time", 1, numeric=True),
        TableColumn("repository", 5, least=8),
        TableColumn("work", 2),
        TableColumn("state", 3),
        TableColumn("what", 4, least=14, most=90),
        TableColumn("title", 6, least=16, most=_MAX_WIDTH),
    ),
    Panel.PRS: (
        TableColumn("repository", 2, least=8),
        TableColumn("PR", 1),
        TableColumn("issue", 4),
        TableColumn("status", 3, most=20),
        TableColumn("turns", 6, numeric=True),
        TableColumn("title", 5, least=8, most=_MAX_WIDTH),
    ),
    Panel.HISTORY: (
        TableColumn("repository", 1, least=8, most=40),
        TableColumn("runs", 5, numeric=True),
        TableColumn("failed", 6, numeric=True),
        TableColumn("fail rate", 2, numeric=True),
        TableColumn("mean", 3, numeric=True),
        TableColumn("std-dev", 4, numeric=True),
    ),
    Panel.LOG: (TableColumn("line", 1, least=1, most=_MAX_WIDTH),),
}
NOT_LOADED = "Loading."
EMPTY_TEXTS = {
    Panel.AGENTS: "No agents running.",
    Panel.QUEUE: "No tasks queued.",
    Panel.NEEDS_YOU: "Nothing needs you.",
    Panel.PRS: "No open pull requests.",
    Panel.HISTORY: "No finished runs.",
    Panel.LOG: "No messages yet.",
}


def build_rows(panel: Panel, screen: ScreenState, news: ScreenData) -> list[PanelRow]:
    """The rows of a panel, of the repository that is asked for."""
    if panel is Panel.LOG:
        return [
            PanelRow(str(at), (sanitize_text(line),))
            for at, line in enumerate(news.log, start=news.forgotten)
        ]
    if news.seen is None:
        return []
    if panel is Panel.HISTORY:
        return list(_history_rows(news.seen, screen))
    key, row = _ROW_BUILDERS[panel]
    return [row(one, news) for one in news.seen[key] if screen.project in ("", one["project"])]


def count_rows(
    panel: Panel, screen: ScreenState, news: ScreenData, rows: Sequence[PanelRow]
) -> int:
    """How many there are, also of those that a snapshot leaves out."""
    if news.seen is None or screen.project or panel not in _ROW_BUILDERS:
        return len(rows)
    return int(news.seen[f"{_ROW_BUILDERS[panel][0]}_total"])


def find_selected(panel: Panel, rows: Sequence[PanelRow], pick: RowSelection | None) -> int:
    """Where the chosen row is now; where it was, if it is gone. The log is read from its end."""
    if pick is None:
        return max(len(rows) - 1, 0) if panel is Panel.LOG else 0
    for at, row in enumerate(rows):
        if row.key == pick.key:
            return at
    return max(min(pick.at, len(rows) - 1), 0)


def list_projects(news: ScreenData) -> list[str]:
    """All projects that can be asked for: those of the settings, and those of tasks by hand."""
    if news.seen is None:
        return []
    names = {one["project"]: None for one in news.seen["repositories"]}
    for key, _ in _ROW_BUILDERS.values():
        names |= {one["project"]: None for one in news.seen[key]}
    return list(names)


def repository_name(project: str, news: ScreenData) -> str:
    """A project as people know it: its repository, if it has one."""
    for one in news.seen["repositories"] if news.seen else ():
        if one["project"] == project:
            return sanitize_text(one["repo"])
    return sanitize_text(project)


def describe_work(item: Mapping[str, Any]) -> str:
    """What it is about: an issue, a pull request, or a task by hand."""
    number = item.get("issue") or item.get("pull")
    return f"#{number}" if number else MANUAL_TASK


def get_url(item: Mapping[str, Any]) -> str:
    """Its page: the pull request's, or the issue's."""
    return str(item.get("pull_url") or item.get("issue_url") or "")


def format_state(state: str) -> str:
    return _STATE_TEXTS.get(state, state.replace("_", " "))


def _agent_row(one: Mapping[str, Any], news: ScreenData) -> PanelRow:
    idle = one["idle_seconds"]
    waits = "waiting" if one["lent"] else format_age(None if idle is None else idle + news.late)
    cells = (
        format_age(one["seconds"] + news.late),
        repository_name(one["project"], news),
        describe_work(one),
        sanitize_text(one["agent"]),
        str(one["attempt"]),
        "stops" if one["stopping"] else waits,
        format_tokens(one["input_tokens"] + one["output_tokens"]),
        format_usd(one["usd"]),
        sanitize_text(one.get("title") or ""),
    )
    tone = WARN if one["stopping"] else ""
    return PanelRow(one["run"], cells, tone, one["task"], get_url(one), one, ages=True)


def _queue_row(one: Mapping[str, Any], news: ScreenData) -> PanelRow:
    cells = (
        str(one["position"]),
        format_age(one["seconds"] + news.late),
        repository_name(one["project"], news),
        describe_work(one),
        "next" if one["would_start"] else sanitize_text(one["gate"]),
        format_time(one["since"], news.now, news.zone),
        format_time(one["until"], news.now, news.zone),
        sanitize_text(one["why"] or ""),
        sanitize_text(one["title"]),
    )
    tone = GOOD if one["would_start"] else ""
    return PanelRow(one["task"], cells, tone, one["task"], get_url(one), one, ages=True)


def _blocked_row(one: Mapping[str, Any], news: ScreenData) -> PanelRow:
    cells = (
        format_age(one["seconds"] + news.late),
        repository_name(one["project"], news),
        describe_work(one),
        format_state(one["state"]),
        sanitize_text(one["question"] or one["what"]),
        sanitize_text(one["title"]),
    )
    tone = WARN if one["question"] else BAD
    return PanelRow(one["task"], cells, tone, one["task"], get_url(one), one, ages=True)


def _pull_request_row(one: Mapping[str, Any], news: ScreenData) -> PanelRow:
    status = str(one["status"])
    cells = (
        repository_name(one["project"], news),
        f"#{one['pull']}",
        f"#{one['issue']}" if one["issue"] else UNKNOWN,
        format_state(status),
        str(one["turns_without_person"]),
        sanitize_text(one["title"]),
    )
    tone = BAD if status == "blocked" else ""
    return PanelRow(f"{one['repo']}#{one['pull']}", cells, tone, one["task"], get_url(one), one)


def _history_rows(seen: Mapping[str, Any], screen: ScreenState) -> Iterator[PanelRow]:
    window = seen["history"][screen.window]
    repos = {one["project"]: one["repo"] for one in seen["repositories"]}
    if not screen.project and window["all"]["count"]:
        yield _history_row("", "all", window["all"])
    names = [screen.project] if screen.project else window["projects"]
    for name in names:
        record = window["projects"].get(name)
        if record is not None:
            yield _history_row(name, sanitize_text(repos.get(name, name)), record)


def _history_row(key: str, name: str, one: Mapping[str, Any]) -> PanelRow:
    cells = (
        name,
        str(one["count"]),
        str(one["failed"]),
        format_percent(one["failure_rate"]),
        format_duration(one["mean_seconds"]),
        format_duration(one["std_seconds"]),
    )
    return PanelRow(f"project {key}", cells, item=one)


_ROW_BUILDERS: Mapping[Panel, tuple[str, Callable[[Mapping[str, Any], ScreenData], PanelRow]]] = {
    Panel.AGENTS: ("at_work", _agent_row),
    Panel.QUEUE: ("queue", _queue_row),
    Panel.NEEDS_YOU: ("needs_person", _blocked_row),
    Panel.PRS: ("pulls", _pull_request_row),
}

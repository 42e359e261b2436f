"""Texts shown over the panels: details, choices, questions and help. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hostler.tui.rows import PanelRow, build_rows, format_state, list_projects, repository_name
from hostler.tui.state import (
    KEY_HELP,
    DetailsDialog,
    Panel,
    RepositoryDialog,
    ScreenData,
    ScreenState,
    StopDialog,
    UrlDialog,
)
from hostler.tui.text_format import (
    UNKNOWN,
    format_age,
    format_duration,
    format_percent,
    format_time,
    format_usd,
    pad_right,
    sanitize_text,
    truncate,
    wrap_text,
)

Facts = Iterator[tuple[str, str]]


def build_details(panel: Panel, row: PanelRow, news: ScreenData) -> list[tuple[str, str]]:
    """Return what is known about a row, without empty facts and with full addresses."""
    item = row.item or {}
    if panel in (Panel.LOG, Panel.HISTORY):
        item = {**item, "of": row.cells[0]}
    made = _DETAIL_BUILDERS[panel](item, news)
    return [(label, sanitize_text(text)) for label, text in made if text]


def _common_details(item: Mapping[str, Any], news: ScreenData) -> Facts:
    yield "title", item.get("title") or ""
    yield "task", item.get("task") or ""
    yield "repository", repository_name(item["project"], news)
    yield "issue", item.get("issue_url") or ""
    yield "PR", item.get("pull_url") or ""
    yield "flow", format_state(item.get("flow") or "")


def _agent_details(item: Mapping[str, Any], news: ScreenData) -> Facts:
    yield from _common_details(item, news)
    yield "agent", f"{item['agent']} of pool {item['pool']}, {item['kind']}"
    yield "run", f"{item['run']} ({item['state']}), attempt {item['attempt']}"
    yield "for", format_age(item["seconds"] + news.late)
    yield "last sign", format_time(item["active_at"], news.now, news.zone)
    yield "waits", "Waiting for its children; its slot is released." if item["lent"] else ""
    yield "stops", item["stopping"] or ""
    counts = (item["input_tokens"], item["output_tokens"], item["cached_tokens"])
    yield "tokens", "{:,} in, {:,} out, {:,} cached".format(*counts)
    yield "cost", format_usd(item["usd"])


def _queue_details(item: Mapping[str, Any], news: ScreenData) -> Facts:
    yield from _common_details(item, news)
    yield "state", f"{format_state(item['state'])}, attempt {item['attempt']}"
    yield "waits", f"{format_age(item['seconds'] + news.late)}, position {item['position']}"
    if item["would_start"]:
        yield "gate", "none: it starts next"
        return
    yield "gate", item["gate"]
    yield "why", item["why"] or ""
    yield "since", format_time(item["since"], news.now, news.zone)
    opens = format_time(item["until"], news.now, news.zone)
    yield "opens", "unknown" if opens == UNKNOWN else opens
    yield "do", item["remedy"] or ""


def _blocked_details(item: Mapping[str, Any], news: ScreenData) -> Facts:
    yield from _common_details(item, news)
    yield "state", f"{format_state(item['state'])} for {format_age(item['seconds'] + news.late)}"
    yield "question", item["question"] or ""
    yield "why", item["what"]
    yield "then", item["then"]


def _pull_request_details(item: Mapping[str, Any], news: ScreenData) -> Facts:
    yield from _common_details(item, news)
    yield "status", format_state(item["status"])
    yield "branch", item["branch"] or ""
    yield "head", item["head_sha"] or ""
    yield "turns", f"{item['turns_without_person']} without user input"


def _history_details(item: Mapping[str, Any], _news: ScreenData) -> Facts:
    yield "repository", item["of"]
    yield "runs", f"{item['count']}, of which {item['failed']} failed"
    yield "failure rate", format_percent(item["failure_rate"])
    yield "mean", format_duration(item["mean_seconds"])
    yield "std-dev", format_duration(item["std_seconds"])


def _log_details(item: Mapping[str, Any], _news: ScreenData) -> Facts:
    yield "line", item["of"]


_DETAIL_BUILDERS: Mapping[Panel, Callable[[Mapping[str, Any], ScreenData], Facts]] = {
    Panel.AGENTS: _agent_details,
    Panel.QUEUE: _queue_details,
    Panel.NEEDS_YOU: _blocked_details,
    Panel.PRS: _pull_request_details,
    Panel.HISTORY: _history_details,
    Panel.LOG: _log_details,
}


MARGIN = 2
_LABEL_COLUMNS = 13
_NARROW_COLUMNS = 50


def dialog_title(screen: ScreenState) -> str:
    """Return the title of the dialog."""
    match screen.over:
        case DetailsDialog(panel=panel):
            return f"{panel.value}: details"
        case RepositoryDialog():
            return "Select a repository"
        case StopDialog():
            return "Stop this task?"
        case UrlDialog():
            return "No browser available; address"
        case _:
            return "Keys"


def dialog_hint(screen: ScreenState) -> str:
    """Return the keys of the dialog."""
    match screen.over:
        case DetailsDialog():
            stop = " · s stop" if screen.console else ""
            return f"escape back · o open{stop} · up, down scroll"
        case RepositoryDialog():
            return "enter choose · escape back"
        case StopDialog():
            return "y stop · any other key: cancel"
        case _:
            return "escape back"


def dialog_lines(screen: ScreenState, news: ScreenData, columns: int) -> list[str]:
    """Return the whole text of the dialog for a number of columns."""
    columns -= MARGIN
    match screen.over:
        case DetailsDialog() as over:
            row = find_detailed_row(over, screen, news)
            if row is None:
                return wrap_text("No longer listed.", columns)
            return _details_lines(over, row, news, columns)
        case RepositoryDialog(at=at):
            return [truncate(line, columns) for line in _choice_lines(at, news)]
        case StopDialog(task=task, about=about):
            effect = "This also stops its agent and its children. Restart it with "
            effect += "`hostler task resume` or `retry`."
            named = [
                *wrap_text(sanitize_text(about), columns),
                *wrap_text(sanitize_text(task), columns),
            ]
            return [*named, "", *wrap_text(effect, columns)]
        case UrlDialog(url=url):
            return wrap_text(sanitize_text(url), columns)
        case _:
            return [
                line for keys, told in KEY_HELP for line in _label_lines(keys, told, columns, 29)
            ]


def find_detailed_row(
    over: DetailsDialog, screen: ScreenState, news: ScreenData
) -> PanelRow | None:
    """Return the current row whose details are shown."""
    rows = build_rows(over.panel, screen, news)
    return next((row for row in rows if row.key == over.key), None)


def list_choices(news: ScreenData) -> list[str]:
    """Return the projects to choose from; the first, empty one means all."""
    return ["", *list_projects(news)]


def _details_lines(over: DetailsDialog, row: PanelRow, news: ScreenData, columns: int) -> list[str]:
    found = build_details(over.panel, row, news)
    return [
        line for label, text in found for line in _label_lines(label, text, columns, _LABEL_COLUMNS)
    ]


def _label_lines(label: str, text: str, columns: int, room: int) -> list[str]:
    """Format a label beside its text, or above it if the screen is narrow."""
    if columns < max(_NARROW_COLUMNS, 2 * room):
        return [truncate(label, columns), *(f"  {one}" for one in wrap_text(text, columns - 2))]
    parts = wrap_text(text, columns - room)
    return [pad_right(label if not at else "", room) + part for at, part in enumerate(parts)]


def _choice_lines(at: int, news: ScreenData) -> list[str]:
    names = [
        repository_name(one, news) if one else "all repositories" for one in list_choices(news)
    ]
    return [f"{'▸' if place == at else ' '} {name}" for place, name in enumerate(names)]

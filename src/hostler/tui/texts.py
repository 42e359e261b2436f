"""What stands over the panels: details, a choice, a question, an address, help. Pure."""

from __future__ import annotations

from hostler.tui.details import facts_of
from hostler.tui.fitting import cut, left, shown, wrapped
from hostler.tui.keymap import KEYS
from hostler.tui.rows import Row, name_of, projects_of, rows_of
from hostler.tui.state import Choice, Details, News, Page, Question, Screen

MARGIN = 2
_LABEL = 13
_NARROW = 50


def title_of(screen: Screen) -> str:
    """What the text is."""
    match screen.over:
        case Details(panel=panel):
            return f"{panel.value}: details"
        case Choice():
            return "Which repository?"
        case Question():
            return "Stop this task?"
        case Page():
            return "No browser here: the address"
        case _:
            return "Keys"


def hint_of(screen: Screen) -> str:
    """What can be pressed."""
    match screen.over:
        case Details():
            stop = " · s stop" if screen.console else ""
            return f"escape back · o open{stop} · up, down scroll"
        case Choice():
            return "enter choose · escape back"
        case Question():
            return "y stop it · anything else: no"
        case _:
            return "escape back"


def lines_of(screen: Screen, news: News, columns: int) -> list[str]:
    """The whole text, for a screen of so many columns."""
    columns -= MARGIN
    match screen.over:
        case Details() as over:
            row = detailed(over, screen, news)
            if row is None:
                return wrapped("It is over, or not listed now.", columns)
            return _facts(over, row, news, columns)
        case Choice(at=at):
            return [cut(line, columns) for line in _choices(at, news)]
        case Question(task=task, about=about):
            told = "Its agent is ended, and what came from it is stopped too. It starts again "
            told += "only by `hostler task resume` or `retry`."
            named = [*wrapped(shown(about), columns), *wrapped(shown(task), columns)]
            return [*named, "", *wrapped(told, columns)]
        case Page(url=url):
            return wrapped(shown(url), columns)
        case _:
            return [line for keys, told in KEYS for line in _labelled(keys, told, columns, 29)]


def detailed(over: Details, screen: Screen, news: News) -> Row | None:
    """The row whose details are shown, as it is now."""
    rows = rows_of(over.panel, screen, news)
    return next((row for row in rows if row.key == over.key), None)


def choices(news: News) -> list[str]:
    """Projects that can be chosen; the first is none, which means all."""
    return ["", *projects_of(news)]


def _facts(over: Details, row: Row, news: News, columns: int) -> list[str]:
    found = facts_of(over.panel, row, news)
    return [line for label, text in found for line in _labelled(label, text, columns, _LABEL)]


def _labelled(label: str, text: str, columns: int, room: int) -> list[str]:
    """A label in a column of its own; above its text where lines are short."""
    if columns < max(_NARROW, 2 * room):
        return [cut(label, columns), *(f"  {one}" for one in wrapped(text, columns - 2))]
    parts = wrapped(text, columns - room)
    return [left(label if not at else "", room) + part for at, part in enumerate(parts)]


def _choices(at: int, news: News) -> list[str]:
    names = [name_of(one, news) if one else "all repositories" for one in choices(news)]
    return [f"{'▸' if place == at else ' '} {name}" for place, name in enumerate(names)]

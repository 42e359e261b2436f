"""What a key makes of a screen, and what is then to be done. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hostler.tui.drawing import text_room
from hostler.tui.keymap import STEPS
from hostler.tui.rows import Row, place_of, rows_of, work_of
from hostler.tui.state import (
    WINDOWS,
    Choice,
    Details,
    Help,
    News,
    Page,
    Panel,
    Pick,
    Question,
    Screen,
)
from hostler.tui.texts import choices, detailed, lines_of

NOT_HERE = "Tasks are stopped from the console; from here: hostler task stop "
NO_PAGE = "It has no page on GitHub; more of it: hostler task show "
NO_TASK = "This row is no task."


@dataclass(frozen=True, slots=True)
class Refresh:
    """Look again, now."""


@dataclass(frozen=True, slots=True)
class Leave:
    """The screen is to close."""


@dataclass(frozen=True, slots=True)
class Open:
    """A page is to be shown in a browser."""

    url: str


@dataclass(frozen=True, slots=True)
class Stop:
    """A task is to be stopped; a person has said yes."""

    task: str


Effect = Refresh | Leave | Open | Stop
Answer = tuple[Screen, list[Effect]]


def press(screen: Screen, news: News, key: str, size: tuple[int, int]) -> Answer:
    """One key, on a screen of so many columns and lines."""
    screen = replace(screen, said="")
    if key in ("q", "ctrl+c"):
        return screen, [Leave()]
    match screen.over:
        case Question(task=task):
            return replace(screen, over=None), [Stop(task)] if key == "y" else []
        case Choice() as over:
            return _choose(screen, news, over, key), []
        case Details() | Page() | Help():
            return _read(screen, news, key, size)
        case _:
            return _panels(screen, news, key)


def current(screen: Screen, news: News) -> Row | None:
    """The row that a key is about."""
    if isinstance(screen.over, Details):
        return detailed(screen.over, screen, news)
    rows = rows_of(screen.panel, screen, news)
    return rows[place_of(screen.panel, rows, screen.picks.get(screen.panel))] if rows else None


def _panels(screen: Screen, news: News, key: str) -> Answer:
    if key in STEPS:
        return _move(screen, news, STEPS[key]), []
    act = _ACTS.get(key)
    return act(screen, news) if act else (screen, [])


def _move(screen: Screen, news: News, step: int) -> Screen:
    rows = rows_of(screen.panel, screen, news)
    if not rows:
        return screen
    at = place_of(screen.panel, rows, screen.picks.get(screen.panel))
    at = max(min(at + step, len(rows) - 1), 0)
    picks = {**screen.picks, screen.panel: Pick(rows[at].key, at)}
    if screen.panel is Panel.LOG and at == len(rows) - 1:
        # At its end the log is followed again.
        del picks[Panel.LOG]
    return replace(screen, picks=picks)


def _choose(screen: Screen, news: News, over: Choice, key: str) -> Screen:
    names = choices(news)
    if key in STEPS:
        at = max(min(over.at + STEPS[key], len(names) - 1), 0)
        return replace(screen, over=Choice(at))
    if key == "enter":
        return replace(screen, over=None, project=names[min(over.at, len(names) - 1)])
    return replace(screen, over=None) if key in ("escape", "f") else screen


def _read(screen: Screen, news: News, key: str, size: tuple[int, int]) -> Answer:
    """A text: it is scrolled, left, or (details) acted on."""
    over = screen.over
    assert isinstance(over, Details | Page | Help)
    if key in STEPS:
        many = len(lines_of(screen, news, size[0]))
        last = max(many - text_room(screen, news, *size), 0)
        scroll = max(min(over.scroll + STEPS[key], last), 0)
        return replace(screen, over=replace(over, scroll=scroll)), []
    if isinstance(over, Details) and key in ("o", "s"):
        return _ACTS[key](screen, news)
    if isinstance(over, Details) and key not in ("escape", "enter"):
        return screen, []
    return replace(screen, over=None), []


def _refresh(screen: Screen, _news: News) -> Answer:
    return replace(screen, said="Looking again."), [Refresh()]


def _filter(screen: Screen, news: News) -> Answer:
    names = choices(news)
    at = names.index(screen.project) if screen.project in names else 0
    return replace(screen, over=Choice(at)), []


def _widen(screen: Screen, _news: News) -> Answer:
    after = WINDOWS[(WINDOWS.index(screen.window) + 1) % len(WINDOWS)]
    return replace(screen, window=after, said=f"History of the last {after}."), []


def _turn(step: int) -> Callable[[Screen, News], Answer]:
    def turn(screen: Screen, _news: News) -> Answer:
        panels = screen.panels
        after = panels[(panels.index(screen.panel) + step) % len(panels)]
        return replace(screen, panel=after), []

    return turn


def _explain(screen: Screen, news: News) -> Answer:
    row = current(screen, news)
    if row is None:
        return screen, []
    rows = rows_of(screen.panel, screen, news)
    # What is read stays chosen, whoever comes before it meanwhile.
    picks = {**screen.picks, screen.panel: Pick(row.key, rows.index(row))}
    return replace(screen, over=Details(screen.panel, row.key), picks=picks), []


def _open(screen: Screen, news: News) -> Answer:
    row = current(screen, news)
    if row is None or not (row.task or row.url):
        return replace(screen, said=NO_TASK), []
    if not row.url:
        return replace(screen, said=NO_PAGE + row.task), []
    return screen, [Open(row.url)]


def _stop(screen: Screen, news: News) -> Answer:
    row = current(screen, news)
    if row is None or not row.task:
        return replace(screen, said=NO_TASK), []
    if not screen.console:
        return replace(screen, said=NOT_HERE + row.task), []
    item = row.item or {}
    about = f"{work_of(item)} {item.get('title') or ''}".strip()
    return replace(screen, over=Question(row.task, about)), []


def _help(screen: Screen, _news: News) -> Answer:
    return replace(screen, over=Help()), []


_ACTS: Mapping[str, Callable[[Screen, News], Answer]] = {
    "r": _refresh,
    "f": _filter,
    "w": _widen,
    "tab": _turn(1),
    "shift+tab": _turn(-1),
    "enter": _explain,
    "o": _open,
    "s": _stop,
    "?": _help,
    "question_mark": _help,
}

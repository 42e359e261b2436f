"""Map a key press to the next screen state and its effects. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hostler.tui.dialogs import dialog_lines, find_detailed_row, list_choices
from hostler.tui.renderer import dialog_height
from hostler.tui.rows import PanelRow, build_rows, describe_work, find_selected
from hostler.tui.state import (
    HISTORY_WINDOWS,
    KEY_STEPS,
    DetailsDialog,
    HelpDialog,
    Panel,
    RepositoryDialog,
    RowSelection,
    ScreenData,
    ScreenState,
    StopDialog,
    UrlDialog,
)

STOP_UNAVAILABLE = "Read-only here. Stop it with: hostler task stop "
NO_PAGE = "Not on GitHub. Show it with: hostler task show "
NO_TASK = "This row is not a task."


@dataclass(frozen=True, slots=True)
class Refresh:
    """Refresh the snapshot now."""


@dataclass(frozen=True, slots=True)
class Quit:
    """Close the screen."""


@dataclass(frozen=True, slots=True)
class OpenUrl:
    """Open a page in the browser."""

    url: str


@dataclass(frozen=True, slots=True)
class StopTask:
    """Stop a task; the user has confirmed."""

    task: str


Effect = Refresh | Quit | OpenUrl | StopTask
KeyResult = tuple[ScreenState, list[Effect]]


def handle_key(screen: ScreenState, news: ScreenData, key: str, size: tuple[int, int]) -> KeyResult:
    """Handle one key; `size` is the screen's columns and lines."""
    screen = replace(screen, said="")
    if key in ("q", "ctrl+c"):
        return screen, [Quit()]
    match screen.over:
        case StopDialog(task=task):
            return replace(screen, over=None), [StopTask(task)] if key == "y" else []
        case RepositoryDialog() as over:
            return _handle_choice_key(screen, news, over, key), []
        case DetailsDialog() | UrlDialog() | HelpDialog():
            return _handle_dialog_key(screen, news, key, size)
        case _:
            return _handle_panel_key(screen, news, key)


def current_row(screen: ScreenState, news: ScreenData) -> PanelRow | None:
    """Return the row that a key applies to."""
    if isinstance(screen.over, DetailsDialog):
        return find_detailed_row(screen.over, screen, news)
    rows = build_rows(screen.panel, screen, news)
    return rows[find_selected(screen.panel, rows, screen.picks.get(screen.panel))] if rows else None


def _handle_panel_key(screen: ScreenState, news: ScreenData, key: str) -> KeyResult:
    if key in KEY_STEPS:
        return _move_selection(screen, news, KEY_STEPS[key]), []
    act = _ACTIONS.get(key)
    return act(screen, news) if act else (screen, [])


def _move_selection(screen: ScreenState, news: ScreenData, step: int) -> ScreenState:
    rows = build_rows(screen.panel, screen, news)
    if not rows:
        return screen
    at = find_selected(screen.panel, rows, screen.picks.get(screen.panel))
    at = max(min(at + step, len(rows) - 1), 0)
    picks = {**screen.picks, screen.panel: RowSelection(rows[at].key, at)}
    if screen.panel is Panel.LOG and at == len(rows) - 1:
        # At its end, the log follows new lines again.
        del picks[Panel.LOG]
    return replace(screen, picks=picks)


def _handle_choice_key(
    screen: ScreenState, news: ScreenData, over: RepositoryDialog, key: str
) -> ScreenState:
    names = list_choices(news)
    if key in KEY_STEPS:
        at = max(min(over.at + KEY_STEPS[key], len(names) - 1), 0)
        return replace(screen, over=RepositoryDialog(at))
    if key == "enter":
        return replace(screen, over=None, project=names[min(over.at, len(names) - 1)])
    return replace(screen, over=None) if key in ("escape", "f") else screen


def _handle_dialog_key(
    screen: ScreenState, news: ScreenData, key: str, size: tuple[int, int]
) -> KeyResult:
    """Handle a key in a dialog: scroll it, close it, or act on its task."""
    over = screen.over
    assert isinstance(over, DetailsDialog | UrlDialog | HelpDialog)
    if key in KEY_STEPS:
        many = len(dialog_lines(screen, news, size[0]))
        last = max(many - dialog_height(screen, news, *size), 0)
        scroll = max(min(over.scroll + KEY_STEPS[key], last), 0)
        return replace(screen, over=replace(over, scroll=scroll)), []
    if isinstance(over, DetailsDialog) and key in ("o", "s"):
        return _ACTIONS[key](screen, news)
    if isinstance(over, DetailsDialog) and key not in ("escape", "enter"):
        return screen, []
    return replace(screen, over=None), []


def _refresh(screen: ScreenState, _news: ScreenData) -> KeyResult:
    return replace(screen, said="Refreshing."), [Refresh()]


def _filter(screen: ScreenState, news: ScreenData) -> KeyResult:
    names = list_choices(news)
    at = names.index(screen.project) if screen.project in names else 0
    return replace(screen, over=RepositoryDialog(at)), []


def _next_window(screen: ScreenState, _news: ScreenData) -> KeyResult:
    after = HISTORY_WINDOWS[(HISTORY_WINDOWS.index(screen.window) + 1) % len(HISTORY_WINDOWS)]
    return replace(screen, window=after, said=f"History of the last {after}."), []


def _switch_panel(step: int) -> Callable[[ScreenState, ScreenData], KeyResult]:
    def turn(screen: ScreenState, _news: ScreenData) -> KeyResult:
        panels = screen.panels
        after = panels[(panels.index(screen.panel) + step) % len(panels)]
        return replace(screen, panel=after), []

    return turn


def _show_details(screen: ScreenState, news: ScreenData) -> KeyResult:
    row = current_row(screen, news)
    if row is None:
        return screen, []
    rows = build_rows(screen.panel, screen, news)
    # Keep this row selected even if rows are inserted before it.
    picks = {**screen.picks, screen.panel: RowSelection(row.key, rows.index(row))}
    return replace(screen, over=DetailsDialog(screen.panel, row.key), picks=picks), []


def _open(screen: ScreenState, news: ScreenData) -> KeyResult:
    row = current_row(screen, news)
    if row is None or not (row.task or row.url):
        return replace(screen, said=NO_TASK), []
    if not row.url:
        return replace(screen, said=NO_PAGE + row.task), []
    return screen, [OpenUrl(row.url)]


def _stop(screen: ScreenState, news: ScreenData) -> KeyResult:
    row = current_row(screen, news)
    if row is None or not row.task:
        return replace(screen, said=NO_TASK), []
    if not screen.console:
        return replace(screen, said=STOP_UNAVAILABLE + row.task), []
    item = row.item or {}
    about = f"{describe_work(item)} {item.get('title') or ''}".strip()
    return replace(screen, over=StopDialog(row.task, about)), []


def _help(screen: ScreenState, _news: ScreenData) -> KeyResult:
    return replace(screen, over=HelpDialog()), []


_ACTIONS: Mapping[str, Callable[[ScreenState, ScreenData], KeyResult]] = {
    "r": _refresh,
    "f": _filter,
    "w": _next_window,
    "tab": _switch_panel(1),
    "shift+tab": _switch_panel(-1),
    "enter": _show_details,
    "o": _open,
    "s": _stop,
    "?": _help,
    "question_mark": _help,
}

"""The state of the screen, the data it shows, and the keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from enum import StrEnum
from typing import Any

from hostler.model import EPOCH, parse_timestamp

# Keys (by Textual's names) and what they do.
KEY_HELP: tuple[tuple[str, str], ...] = (
    ("r", "refresh now"),
    ("f", "filter: one repository, or all"),
    ("w", "window of the history: 1h, 24h, 7d, 30d"),
    ("tab, shift+tab", "next panel, previous panel"),
    ("up, down, k, j", "select a row; in a text: scroll"),
    ("pageup, pagedown, home, end", "the same, in larger steps"),
    ("enter", "details, with full URLs"),
    ("o", "open the page in the browser"),
    ("s", "stop the task (console only; asks first)"),
    ("?", "this help"),
    ("escape", "back"),
    ("q, ctrl+c", "quit; agents keep running"),
)
# How far a key moves; the ends are farther than any list.
KEY_STEPS = {
    "up": -1,
    "k": -1,
    "down": 1,
    "j": 1,
    "pageup": -10,
    "pagedown": 10,
    "home": -(10**9),
    "end": 10**9,
}
# At the foot of the screen, as many as fit.
KEY_HINTS = ("? help", "q quit", "tab panel", "enter details", "f filter", "o open", "w window")
STOP_HINT = "s stop"
# All of them, by Textual's names.
BOUND_KEYS = tuple(
    {"?": "question_mark"}.get(key, key) for keys, _ in KEY_HELP for key in keys.split(", ")
)


# The windows of the history, in the order of the key.
HISTORY_WINDOWS = ("1h", "24h", "7d", "30d")


class Panel(StrEnum):
    """The panels, in their order."""

    AGENTS = "Agents"
    QUEUE = "Queue"
    NEEDS_YOU = "Needs you"
    PRS = "PRs"
    HISTORY = "History"
    LOG = "Log"


@dataclass(frozen=True, slots=True)
class ScreenData:
    """What is known: a snapshot as programs get it, how old it is, and what keeps us from more."""

    seen: Mapping[str, Any] | None = None
    late: float = 0.0
    trouble: str = ""
    log: tuple[str, ...] = ()
    # How many lines were in the log before these.
    forgotten: int = 0
    zone: tzinfo | None = None

    @property
    def now(self) -> datetime:
        """The moment of the snapshot."""
        return parse_timestamp(self.seen["now"]) if self.seen else EPOCH


@dataclass(frozen=True, slots=True)
class RowSelection:
    """The row that was chosen, and its place, for when it is gone."""

    key: str
    at: int


@dataclass(frozen=True, slots=True)
class DetailsDialog:
    """All about one row."""

    panel: Panel
    key: str
    scroll: int = 0


@dataclass(frozen=True, slots=True)
class RepositoryDialog:
    """Which repository is to be shown: the one at this place."""

    at: int = 0


@dataclass(frozen=True, slots=True)
class StopDialog:
    """Whether a task is to be stopped; `about`: what people know it by."""

    task: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class UrlDialog:
    """An address, shown if there is no browser."""

    url: str
    scroll: int = 0


@dataclass(frozen=True, slots=True)
class HelpDialog:
    """What the keys do."""

    scroll: int = 0


Dialog = DetailsDialog | RepositoryDialog | StopDialog | UrlDialog | HelpDialog


@dataclass(frozen=True, slots=True)
class ScreenState:
    """Where a person stands. `console`: tasks can be stopped from here, and there is a log."""

    console: bool = False
    panel: Panel = Panel.AGENTS
    project: str = ""
    window: str = "24h"
    picks: Mapping[Panel, RowSelection] = field(default_factory=dict)
    over: Dialog | None = None
    said: str = ""

    @property
    def panels(self) -> tuple[Panel, ...]:
        """Those that there are."""
        return tuple(one for one in Panel if self.console or one is not Panel.LOG)

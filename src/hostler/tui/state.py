"""What a screen is: where a person stands in it, and what it knows. Values, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from enum import StrEnum
from typing import Any

from hostler.model import EPOCH, parse_stamp

# The windows of the history, in the order of the key.
WINDOWS = ("1h", "24h", "7d", "30d")


class Panel(StrEnum):
    """The panels, in their order."""

    AGENTS = "Agents"
    QUEUE = "Queue"
    BLOCKED = "Blocked"
    PRS = "PRs"
    HISTORY = "History"
    LOG = "Log"


@dataclass(frozen=True, slots=True)
class News:
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
        return parse_stamp(self.seen["now"]) if self.seen else EPOCH


@dataclass(frozen=True, slots=True)
class Pick:
    """The row that was chosen, and its place, for when it is gone."""

    key: str
    at: int


@dataclass(frozen=True, slots=True)
class Details:
    """All about one row."""

    panel: Panel
    key: str
    scroll: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """Which repository is to be shown: the one at this place."""

    at: int = 0


@dataclass(frozen=True, slots=True)
class Question:
    """Whether a task is to be stopped; `about`: what people know it by."""

    task: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """An address, for whoever has no browser here."""

    url: str
    scroll: int = 0


@dataclass(frozen=True, slots=True)
class Help:
    """What the keys do."""

    scroll: int = 0


Over = Details | Choice | Question | Page | Help


@dataclass(frozen=True, slots=True)
class Screen:
    """Where a person stands. `console`: tasks can be stopped from here, and there is a log."""

    console: bool = False
    panel: Panel = Panel.AGENTS
    project: str = ""
    window: str = "24h"
    picks: Mapping[Panel, Pick] = field(default_factory=dict)
    over: Over | None = None
    said: str = ""

    @property
    def panels(self) -> tuple[Panel, ...]:
        """Those that there are."""
        return tuple(one for one in Panel if self.console or one is not Panel.LOG)

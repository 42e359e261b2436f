"""Inputs and results of a garbage collection, and the protocol of its collectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from hostler.config.settings import Settings
from hostler.model import parse_timestamp
from hostler.service.context import StepObserver, ignore_step
from hostler.service.gc.folders import TrashBin
from hostler.service.gc.rules import KeepReason, age_limit
from hostler.store import Store, Transaction


class GcKind(StrEnum):
    """What can be cleaned up, in the order in which it is done."""

    CHECKOUTS = "checkouts"
    TASKS = "tasks"
    RUNS = "runs"
    MIRRORS = "mirrors"
    OUTBOX = "outbox"
    INBOX = "inbox"
    BUS = "bus"
    LOGS = "logs"


@dataclass(frozen=True, slots=True)
class GcItem:
    """One thing: it goes, or stays and why. By `key` its broom finds it again."""

    name: str
    size: int = 0
    why: KeepReason | None = None
    detail: str = ""
    key: Any = None

    @property
    def goes(self) -> bool:
        return self.why is None


class Collector(Protocol):
    """Looks over one kind, and removes of it."""

    @property
    def kind(self) -> GcKind: ...

    def look(self) -> Iterator[list[GcItem]]:
        """Everything that is old enough to be asked about, in pages of bounded size."""
        ...

    def remove(self, going: Sequence[GcItem]) -> list[GcItem]:
        """Ask again, and remove what may still go; what became of each."""
        ...


@dataclass(slots=True)
class GcResult:
    """What became of one kind."""

    kind: GcKind
    gone: list[GcItem] = field(default_factory=list)
    kept: list[GcItem] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes that went, or would go."""
        return sum(one.size for one in self.gone)

    @property
    def refused(self) -> bool:
        """Whether something should have gone and could not."""
        return any(one.why is KeepReason.REFUSED for one in self.kept)

    def add(self, found: Sequence[GcItem]) -> None:
        """Count these. What is too young is not worth telling."""
        self.gone += (one for one in found if one.goes)
        self.kept += (one for one in found if not one.goes and one.why is not KeepReason.YOUNG)

    def reasons(self) -> Counter[KeepReason]:
        """How many stay, by reason."""
        return Counter(one.why for one in self.kept if one.why is not None)


class RemovedItems:
    """What went so far, or would go in a dry run: it holds nothing else any more."""

    def __init__(self) -> None:
        self._names: dict[GcKind, set[str]] = {kind: set() for kind in GcKind}

    def add(self, swept: GcResult) -> None:
        """A kind is through."""
        self._names[swept.kind] |= {one.name for one in swept.gone}

    def has(self, kind: GcKind, name: str) -> bool:
        """Whether this goes."""
        return name in self._names[kind]


# Whoever begins, resumes or hears anything names one of these.
GC_SCOPES = ("admission", "outbox", "tasks")


@dataclass(frozen=True, slots=True)
class GcContext:
    """A home with its settings and its database, and what is too old there."""

    home: Path
    settings: Settings
    store: Store
    days: int
    now: datetime
    going: RemovedItems = field(default_factory=RemovedItems)
    observe: StepObserver = ignore_step

    @property
    def limit(self) -> str:
        """What is older has a lower stamp."""
        return age_limit(self.now, self.days)

    @property
    def moment(self) -> datetime:
        """The same as a moment."""
        return parse_timestamp(self.limit)

    @contextmanager
    def removing(self) -> Iterator[tuple[Transaction, TrashBin]]:
        """A transaction to ask again in, and to remove; folders are deleted after it."""
        with TrashBin(self.home, self.observe) as aside:
            with self.store.write(*GC_SCOPES) as tx:
                yield tx, aside
            self.observe("stored", "")


def build_gc_context(
    home: Path, settings: Settings, store: Store, days: int, observe: StepObserver = ignore_step
) -> GcContext:
    """The same from the database's own clock."""
    with store.read() as tx:
        now = tx.now()
    return GcContext(home, settings, store, days, now, observe=observe)

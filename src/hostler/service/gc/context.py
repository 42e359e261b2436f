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
from hostler.service.context import StepHook, ignore_step
from hostler.service.gc.folders import TrashBin
from hostler.service.gc.rules import KeepReason, age_limit
from hostler.store import Store, Transaction


class GcKind(StrEnum):
    """What can be collected, in this order."""

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
    """One item: removable if `why` is None. Its collector finds it again by `key`."""

    name: str
    size: int = 0
    why: KeepReason | None = None
    detail: str = ""
    key: Any = None

    @property
    def goes(self) -> bool:
        return self.why is None


class Collector(Protocol):
    """Scans and removes items of one kind."""

    @property
    def kind(self) -> GcKind: ...

    def scan(self) -> Iterator[list[GcItem]]:
        """Yield pages of old items."""
        ...

    def remove(self, going: Sequence[GcItem]) -> list[GcItem]:
        """Check again, remove what may still be removed, and return the result of each."""
        ...


@dataclass(slots=True)
class GcResult:
    """The result of one kind."""

    kind: GcKind
    gone: list[GcItem] = field(default_factory=list)
    kept: list[GcItem] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes that were removed, or would be."""
        return sum(one.size for one in self.gone)

    @property
    def refused(self) -> bool:
        """Whether something could not be removed."""
        return any(one.why is KeepReason.REFUSED for one in self.kept)

    def add(self, found: Sequence[GcItem]) -> None:
        """Add items. Items that are too young are not listed."""
        self.gone += (one for one in found if one.goes)
        self.kept += (one for one in found if not one.goes and one.why is not KeepReason.YOUNG)

    def reasons(self) -> Counter[KeepReason]:
        """Count kept items by reason."""
        return Counter(one.why for one in self.kept if one.why is not None)


class RemovedItems:
    """What was removed so far, or would be in a dry run: nothing else is kept because of it."""

    def __init__(self) -> None:
        self._names: dict[GcKind, set[str]] = {kind: set() for kind in GcKind}

    def add(self, swept: GcResult) -> None:
        """Add the result of a kind."""
        self._names[swept.kind] |= {one.name for one in swept.gone}

    def has(self, kind: GcKind, name: str) -> bool:
        """Return True if this item was removed."""
        return name in self._names[kind]


# Everything that starts, resumes or ingests work uses one of these scopes.
GC_SCOPES = ("admission", "outbox", "tasks")


@dataclass(frozen=True, slots=True)
class GcContext:
    """A home with its settings and database, and the age limit."""

    home: Path
    settings: Settings
    store: Store
    days: int
    now: datetime
    going: RemovedItems = field(default_factory=RemovedItems)
    observe: StepHook = ignore_step

    @property
    def limit(self) -> str:
        """Items with a lower timestamp are old."""
        return age_limit(self.now, self.days)

    @property
    def moment(self) -> datetime:
        """The limit as a datetime."""
        return parse_timestamp(self.limit)

    @contextmanager
    def removing(self) -> Iterator[tuple[Transaction, TrashBin]]:
        """Open a transaction for checks and removals; folders are deleted after it."""
        with TrashBin(self.home, self.observe) as aside:
            with self.store.write(*GC_SCOPES) as tx:
                yield tx, aside
            self.observe("stored", "")


def build_gc_context(
    home: Path, settings: Settings, store: Store, days: int, observe: StepHook = ignore_step
) -> GcContext:
    """Return the context, with the time of the database."""
    with store.read() as tx:
        now = tx.now()
    return GcContext(home, settings, store, days, now, observe=observe)

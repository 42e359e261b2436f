"""What was found, what went, and what stays, as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from hostler.service.gc.rules import Why


class Kind(StrEnum):
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
class Found:
    """One thing: it goes, or stays and why. By `key` its broom finds it again."""

    name: str
    size: int = 0
    why: Why | None = None
    detail: str = ""
    key: Any = None

    @property
    def goes(self) -> bool:
        return self.why is None


class Broom(Protocol):
    """Looks over one kind, and removes of it."""

    @property
    def kind(self) -> Kind: ...

    def look(self) -> Iterator[list[Found]]:
        """Everything that is old enough to be asked about, in pages of bounded size."""
        ...

    def remove(self, going: Sequence[Found]) -> list[Found]:
        """Ask again, and remove what may still go; what became of each."""
        ...


@dataclass(slots=True)
class Swept:
    """What became of one kind."""

    kind: Kind
    gone: list[Found] = field(default_factory=list)
    kept: list[Found] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes that went, or would go."""
        return sum(one.size for one in self.gone)

    @property
    def refused(self) -> bool:
        """Whether something should have gone and could not."""
        return any(one.why is Why.REFUSED for one in self.kept)

    def add(self, found: Sequence[Found]) -> None:
        """Count these. What is too young is not worth telling."""
        self.gone += (one for one in found if one.goes)
        self.kept += (one for one in found if not one.goes and one.why is not Why.YOUNG)

    def reasons(self) -> Counter[Why]:
        """How many stay, by reason."""
        return Counter(one.why for one in self.kept if one.why is not None)


class Going:
    """What went so far, or would go in a dry run: it holds nothing else any more."""

    def __init__(self) -> None:
        self._names: dict[Kind, set[str]] = {kind: set() for kind in Kind}

    def add(self, swept: Swept) -> None:
        """A kind is through."""
        self._names[swept.kind] |= {one.name for one in swept.gone}

    def has(self, kind: Kind, name: str) -> bool:
        """Whether this goes."""
        return name in self._names[kind]

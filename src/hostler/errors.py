"""Every error that Hostler raises on purpose.

    HostlerError                  what happened, what is safe, what to do next
    ├── ConfigError               hostler.toml has mistakes (all of them, at once)
    ├── StoreError                the database
    │   ├── StoreMissing          there is none yet
    │   ├── StoreBusy             another process holds the write lock for too long
    │   ├── StoreNewer            written by a newer Hostler
    │   ├── StoreOutdated         needs `hostler db upgrade`
    │   ├── StoreReadOnly         its file or folder cannot be written
    │   ├── StoreFull             no space is left
    │   ├── StoreCorrupt          its content is damaged
    │   ├── StoreUnreachable      the PostgreSQL server does not answer or refuses us
    │   └── StoreConflict         a write met a row that is not as expected
    ├── HomeLocked                another process works on this home
    ├── SandboxError              the local GitHub could not start or read its file
    └── MissingExtra              an optional dependency is not installed

Callers match types and read facts from attributes; nobody matches the wording.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


class HostlerError(Exception):
    """Something a person should read: what happened, what is safe, what to do next."""

    exit_code = 1

    def __init__(self, what: str, *, safe: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.safe = safe
        self.remedy = remedy

    def lines(self) -> list[str]:
        """The sentences to show, in order, without empty ones."""
        return [part for part in (self.what, self.safe, self.remedy) if part]


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a settings file. `line` is 0 where no single line is to blame."""

    key: str
    found: str
    allowed: str
    suggestion: str = ""
    line: int = 0

    def sentence(self) -> str:
        """The mistake in one line for a person."""
        place = f"line {self.line}: " if self.line else ""
        hint = f" {self.suggestion}" if self.suggestion else ""
        return f"{place}{self.key}: found {self.found}; allowed: {self.allowed}.{hint}"


class ConfigError(HostlerError):
    """The settings have mistakes; all of them are here."""

    exit_code = 2

    def __init__(self, path: Path, problems: Iterable[Problem]) -> None:
        self.path = path
        self.problems = sorted(problems, key=lambda problem: (problem.line, problem.key))
        count = len(self.problems)
        super().__init__(
            f"{path} has {count} mistake{'s' if count != 1 else ''}:",
            remedy="`hostler config schema` and docs/configuration.md list every key.",
        )

    def lines(self) -> list[str]:
        return [self.what, *(problem.sentence() for problem in self.problems), self.remedy]


class StoreError(HostlerError):
    """The database could not do what was asked."""


class StoreMissing(StoreError):
    """There is no database yet."""


class StoreBusy(StoreError):
    """Another process kept the write lock for longer than we wait."""

    def __init__(self, holder: str, waited_seconds: float) -> None:
        super().__init__(
            f"The database is busy: {holder} holds its write lock (waited {waited_seconds:.0f} s).",
            safe="Nothing was written.",
            remedy="Try again; if it stays so, look at that process.",
        )
        self.holder = holder
        self.waited_seconds = waited_seconds


class StoreNewer(StoreError):
    """The database was written by a newer Hostler."""


class StoreOutdated(StoreError):
    """The database has an older layout than this program."""


class StoreReadOnly(StoreError):
    """The database cannot be written."""


class StoreFull(StoreError):
    """No space is left for the database."""


class StoreCorrupt(StoreError):
    """The database's content is damaged."""


class StoreUnreachable(StoreError):
    """The database server does not answer or refuses us."""


class StoreConflict(StoreError):
    """A write met a row that is not as the writer expected."""


class HomeLocked(HostlerError):
    """Another process works on this home."""

    def __init__(self, home: object, holder: object | None) -> None:
        super().__init__(
            f"{holder or 'Another process'} works on the home {home}.",
            safe="Nothing was touched.",
            remedy="Wait until it has ended, or stop it.",
        )
        self.holder = holder


class SandboxError(HostlerError):
    """The local GitHub could not start or read its file."""


class MissingExtra(HostlerError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs packages that are not installed.",
            remedy=f"Install them with: pip install 'hostler[{extra}]'",
        )
        self.extra = extra

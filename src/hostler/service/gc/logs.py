"""Logs of days that the settings do not keep any more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from hostler.service.gc.folders import is_ours, listed, size_of
from hostler.service.gc.premises import Premises
from hostler.service.gc.report import Found, Kind
from hostler.service.gc.rules import Why, is_past_log

SUFFIX = ".jsonl"


@dataclass(frozen=True, slots=True)
class Logs:
    """The files in `logs/` that are named for a day."""

    at: Premises
    kind: Kind = Kind.LOGS

    def look(self) -> Iterator[list[Found]]:
        found = [
            Found(path.name, size_of(path), key=path)
            for path in listed(self.at.home / "logs")
            if self._is_past(path) and is_ours(self.at.home, path)
        ]
        if found:
            yield found

    def remove(self, going: Sequence[Found]) -> list[Found]:
        return [_remove(one, one.key) for one in going]

    def _is_past(self, path: Path) -> bool:
        day = _day(path)
        kept = self.at.settings.runtime.log_retention_days
        return day is not None and is_past_log(day, self.at.now.date(), self.at.days, kept)


def _day(path: Path) -> date | None:
    try:
        return date.fromisoformat(path.stem) if path.suffix == SUFFIX else None
    except ValueError:
        return None


def _remove(found: Found, path: Path) -> Found:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        return replace(found, why=Why.REFUSED, detail=error.strerror or "")
    return found

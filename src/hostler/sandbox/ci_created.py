"""The search syntax of `created`: 2026-01-31, >=2026-01-31T10:00:00Z, 2026-01-01..2026-01-31."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hostler.sandbox.paging import moment_of

_DAY = 86_400
_BOUND = re.compile(r"(>=|<=|>|<)?(.+)")
_FAR = 2**60


@dataclass(frozen=True)
class Span:
    """Seconds from `low` to `high`, both included."""

    low: int = 0
    high: int = _FAR

    def holds(self, second: int) -> bool:
        """Whether a second lies inside."""
        return self.low <= second <= self.high


def created_span(text: str) -> Span:
    """The span that a text means; 422 where it means none."""
    if not text.strip():
        return Span()
    first, dots, last = text.partition("..")
    if dots:
        low = 0 if first in ("", "*") else _start(first)
        return Span(low, _FAR if last in ("", "*") else _end(last))
    found = _BOUND.fullmatch(text.strip())
    sign, moment = found.groups() if found else (None, text)
    if sign == ">=":
        return Span(_start(moment))
    if sign == ">":
        return Span(_end(moment) + 1)
    if sign == "<=":
        return Span(0, _end(moment))
    if sign == "<":
        return Span(0, _start(moment) - 1)
    return Span(_start(moment), _end(moment))


def _start(text: str) -> int:
    return moment_of(text, "created") or 0


def _end(text: str) -> int:
    """A day without a time lasts until its last second."""
    return _start(text) + (_DAY - 1 if len(text.strip()) == 10 else 0)

"""What was asked and answered, for tests to count."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

from hostler.sandbox.state.world import InvalidInput


@dataclass(slots=True)
class LedgerEntry:
    """One request and its answer. A status of 0 means that the connection was cut."""

    time: float
    method: str
    path: str
    query: str
    route: str = ""
    status: int = 0
    primary: int = 0
    secondary: int = 0
    bytes: int = 0
    login: str = ""
    fault: str = ""


class Ledger:
    """The newest requests in full, and totals of all."""

    def __init__(self, keep: int = 100_000) -> None:
        self._entries: deque[LedgerEntry] = deque(maxlen=keep)
        self._totals = _zero_totals()

    def add(self, entry: LedgerEntry) -> None:
        """Keep a finished request."""
        self._entries.append(entry)
        totals = self._totals
        totals["requests"] += 1
        totals["primary"] += entry.primary
        totals["secondary"] += entry.secondary
        totals["bytes"] += entry.bytes
        totals["faults"] += bool(entry.fault)

    def answer(self, query: dict[str, str]) -> dict[str, Any]:
        """Rows that pass the filters (newest last), with their sums and the sums of everything."""
        known = {"method", "route", "path", "status", "login", "fault", "limit"}
        for name in query:
            if name not in known:
                raise InvalidInput(name, f"unknown filter; there are {', '.join(sorted(known))}")
        wanted = {name: value for name, value in query.items() if name != "limit"}
        rows = [row for row in self._entries if _matches(row, wanted)]
        sums = Ledger()
        for row in rows:
            sums.add(row)
        shown = rows[-_parse_limit(query.get("limit", "1000")) :]
        return {
            "entries": [asdict(row) for row in shown],
            "matching": sums._totals,
            "totals": self._totals,
        }

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._totals = _zero_totals()


def _zero_totals() -> dict[str, int]:
    return {"requests": 0, "primary": 0, "secondary": 0, "bytes": 0, "faults": 0}


def _matches(row: LedgerEntry, wanted: dict[str, str]) -> bool:
    return all(str(getattr(row, name)) == value for name, value in wanted.items())


def _parse_limit(text: str) -> int:
    short = text.isascii() and text.isdigit() and len(text) < 19
    if not short or not 0 < int(text) <= 10**6:
        raise InvalidInput("limit", "must be a whole number from 1 to 1000000")
    return int(text)

"""What was asked and answered, for tests to count."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict, dataclass
from typing import Any

from hostler.sandbox.settings import BadInput


@dataclass(slots=True)
class Entry:
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
        self._entries: deque[Entry] = deque(maxlen=keep)
        self._totals = _zero()

    def add(self, entry: Entry) -> None:
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
                raise BadInput(name, f"unknown filter; there are {', '.join(sorted(known))}")
        wanted = {name: value for name, value in query.items() if name != "limit"}
        rows = [row for row in self._entries if _passes(row, wanted)]
        sums = Ledger()
        for row in rows:
            sums.add(row)
        shown = rows[-_limit(query.get("limit", "1000")) :]
        return {
            "entries": [asdict(row) for row in shown],
            "matching": sums._totals,
            "totals": self._totals,
        }

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._totals = _zero()


def _zero() -> dict[str, int]:
    return {"requests": 0, "primary": 0, "secondary": 0, "bytes": 0, "faults": 0}


def _passes(row: Entry, wanted: dict[str, str]) -> bool:
    return all(str(getattr(row, name)) == value for name, value in wanted.items())


def _limit(text: str) -> int:
    short = text.isascii() and text.isdigit() and len(text) < 19
    if not short or not 0 < int(text) <= 10**6:
        raise BadInput("limit", "must be a whole number from 1 to 1000000")
    return int(text)

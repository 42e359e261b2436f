"""The newest events of the log files, read backwards: an old log costs nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from hostler.agents.lines import Stream
from hostler.service.outputs import last_lines

# So many lines are looked through at most, whatever is searched for.
MOST_LINES = 5_000
FILES = "????-??-??.jsonl"


def newest_events(
    folder: Path, count: int, *, task: str = "", event: str = "", most: int = MOST_LINES
) -> list[dict[str, Any]]:
    """The last events, oldest first; of one task or one name, where these are given."""

    def wanted(fields: dict[str, Any]) -> bool:
        return (not task or fields.get("task") == task) and event in ("", fields.get("event"))

    found = list(islice(filter(wanted, _backward(folder, most)), count))
    return found[::-1]


def _backward(folder: Path, most: int) -> Iterator[dict[str, Any]]:
    left = most
    for path in sorted(folder.glob(FILES), reverse=True):
        lines = last_lines(path, Stream.STDOUT, left).lines if left > 0 else ()
        left -= len(lines)
        for line in reversed(lines):
            fields = _fields(line.text)
            if fields is not None:
                yield fields


def _fields(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None

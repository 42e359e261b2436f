"""Read values from JSON of other programs, which may have any form. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from hostler.agents.events import MAX_NUMBER
from hostler.model import format_timestamp

MAX_DETAIL_LENGTH = 200
# Until the year 2100: larger values are not seconds.
_MAX_SECOND = 4_102_444_800


def parse_object(text: str) -> Mapping[str, Any] | None:
    """Parse a text that is one JSON object; empty otherwise."""
    stripped = text.lstrip()
    if not stripped.startswith("{"):
        return None
    try:
        found = json.loads(stripped)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def parse_leading_object(text: str) -> Mapping[str, Any] | None:
    """Parse the JSON object at the start of a text; other text may follow."""
    stripped = text.lstrip()
    if not stripped.startswith("{"):
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(stripped)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def get_object(raw: object, *path: str) -> Mapping[str, Any]:
    """Return the object at a path; an empty one if there is none."""
    for name in path:
        raw = raw.get(name) if isinstance(raw, dict) else None
    return raw if isinstance(raw, dict) else {}


def get_text(raw: Mapping[str, Any], name: str) -> str:
    """Return a text; empty if there is none."""
    found = raw.get(name)
    return found if isinstance(found, str) else ""


def get_count(raw: Mapping[str, Any], name: str) -> int:
    """Return a count; 0 if there is none."""
    return int(get_number(raw, name))


def get_number(raw: Mapping[str, Any], name: str) -> float:
    """Return a number that is not negative; 0 if there is none."""
    found = raw.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return 0.0
    return float(found) if 0 <= found <= MAX_NUMBER and isfinite(found) else 0.0


def get_timestamp(raw: Mapping[str, Any], name: str) -> str:
    """Return seconds since 1970 as our timestamp; empty if there is none."""
    seconds = get_number(raw, name)
    if not 0 < seconds < _MAX_SECOND:
        return ""
    return format_timestamp(datetime.fromtimestamp(int(seconds), UTC))


def describe_tool_input(raw: Mapping[str, Any]) -> str:
    """Describe a tool's use in one line: its command, path or pattern; else its arguments."""
    for name in ("command", "file_path", "filePath", "path", "pattern", "query", "url", "prompt"):
        if found := get_text(raw, name):
            return " ".join(found.split())[:MAX_DETAIL_LENGTH]
    return json.dumps(dict(raw), ensure_ascii=False)[:MAX_DETAIL_LENGTH] if raw else ""

"""Read values from JSON of other programs, which may have any shape. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from hostler.agents.events import MAX_NUMBER
from hostler.model import format_timestamp

MAX_DETAIL_LENGTH = 200
# Until the year 2100: what lies behind it is no time in seconds.
_MAX_SECOND = 4_102_444_800


def parse_object(text: str) -> Mapping[str, Any] | None:
    """The JSON object that a text is, from its first to its last character."""
    begun = text.lstrip()
    if not begun.startswith("{"):
        return None
    try:
        found = json.loads(begun)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def parse_leading_object(text: str) -> Mapping[str, Any] | None:
    """The JSON object that a text begins with; something else may follow."""
    begun = text.lstrip()
    if not begun.startswith("{"):
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(begun)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def get_object(raw: object, *path: str) -> Mapping[str, Any]:
    """The object at a path; an empty one where there is none."""
    for name in path:
        raw = raw.get(name) if isinstance(raw, dict) else None
    return raw if isinstance(raw, dict) else {}


def get_text(raw: Mapping[str, Any], name: str) -> str:
    """A text; empty where there is none."""
    found = raw.get(name)
    return found if isinstance(found, str) else ""


def get_count(raw: Mapping[str, Any], name: str) -> int:
    """A count; 0 where there is none."""
    return int(get_number(raw, name))


def get_number(raw: Mapping[str, Any], name: str) -> float:
    """A number that is not negative; 0 where there is none."""
    found = raw.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return 0.0
    return float(found) if 0 <= found <= MAX_NUMBER and isfinite(found) else 0.0


def get_timestamp(raw: Mapping[str, Any], name: str) -> str:
    """A time in seconds since 1970, as our stamp; empty where there is none."""
    seconds = get_number(raw, name)
    if not 0 < seconds < _MAX_SECOND:
        return ""
    return format_timestamp(datetime.fromtimestamp(int(seconds), UTC))


def describe_tool_input(raw: Mapping[str, Any]) -> str:
    """What a tool is used for, in one line: its command, path or pattern; else its arguments."""
    for name in ("command", "file_path", "filePath", "path", "pattern", "query", "url", "prompt"):
        if found := get_text(raw, name):
            return " ".join(found.split())[:MAX_DETAIL_LENGTH]
    return json.dumps(dict(raw), ensure_ascii=False)[:MAX_DETAIL_LENGTH] if raw else ""

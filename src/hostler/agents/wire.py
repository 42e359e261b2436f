"""Our own stream of events: one JSON object per line, its `type` first.

The scripted agent speaks it. Whatever does not fit exactly is noise, never a guess.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from math import isfinite
from typing import Any

from hostler.agents.events import (
    Cost,
    Event,
    Fault,
    Finished,
    Headroom,
    LimitSignal,
    Noise,
    Retrying,
    Session,
    Started,
    Text,
    ToolUse,
    Usage,
)
from hostler.agents.outcomes import LIMITS, Outcome

TYPES: dict[str, type[Any]] = {
    "started": Started,
    "session": Session,
    "text": Text,
    "tool": ToolUse,
    "retrying": Retrying,
    "usage": Usage,
    "cost": Cost,
    "limit": LimitSignal,
    "headroom": Headroom,
    "fault": Fault,
    "result": Finished,
}
_NAMES = {kind: name for name, kind in TYPES.items()}
# Larger counts are damage; they would not survive other programs' JSON either.
LARGEST = 2**53


def encode(event: Event) -> str:
    """An event as one line, without its end. Noise has no form of its own."""
    if isinstance(event, Noise):
        raise TypeError("noise is not written as an event")
    return json.dumps({"type": _NAMES[type(event)], **asdict(event)})


def decode(text: str) -> Event:
    """The event on a line; noise where there is none."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return Noise(text)
    kind = TYPES.get(raw["type"]) if _names_a_type(raw) else None
    if kind is None:
        return Noise(text)
    try:
        given = {field.name: field.type for field in fields(kind) if field.name in raw}
        event: Event = kind(**{name: _fit(form, raw[name]) for name, form in given.items()})
    except (TypeError, ValueError):
        return Noise(text)
    return Noise(text) if _is_no_limit(event) else event


def _names_a_type(raw: object) -> bool:
    return isinstance(raw, dict) and isinstance(raw.get("type"), str)


def _is_no_limit(event: Event) -> bool:
    return isinstance(event, LimitSignal) and event.reason not in LIMITS


def _fit(form: object, value: object) -> object:
    """The value of a field, or an error: nothing is converted but a number without fraction."""
    if form == "str" and isinstance(value, str):
        return value
    if form == "bool" and isinstance(value, bool):
        return value
    if form in {"int", "float"}:
        return _number(form == "int", value)
    if form in {"Outcome", "Outcome | None"}:
        return None if value is None and form != "Outcome" else Outcome(str(value))
    raise TypeError(f"{value!r} is not {form}")


def _number(whole: bool, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise TypeError(f"{value!r} is not a number")
    if not (0 <= value <= LARGEST and isfinite(value)):
        raise ValueError(f"{value!r} is out of range")
    return value if whole else float(value)

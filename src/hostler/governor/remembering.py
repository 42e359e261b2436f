"""Rule: what is learned of a pool, as text and back. What is damaged is read as the safe side."""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass
from datetime import UTC, datetime
from enum import StrEnum
from math import isfinite
from typing import Any, Union, get_args, get_origin, get_type_hints

from hostler.governor.overlay import Breaker, Overlay
from hostler.model import parse_stamp, stamp

# A damaged moment: it is believed as the latest that there could be, a past one as now.
LATEST = datetime(9999, 1, 1, tzinfo=UTC)
# No number of ours is larger; a sum or a power of larger ones would not fit anywhere.
LARGEST = 10**9
# What cannot be read at all: nobody for as long as a break may last, then one who tries.
DAMAGED = Overlay(
    dynamic_cap=1,
    settle_until=LATEST,
    breaker_state=Breaker.OPEN,
    breaker_open_at=LATEST,
    breaker_break_seconds=float(LARGEST),
    damaged_at=LATEST,
)
# Without one of these nobody can say who may start.
OF_THE_BREAKER = frozenset({"breaker_state", "breaker_open_at", "probe", "probe_admitted_at"})
_NOTHING = Overlay()
_FORMS: dict[str, Any] = get_type_hints(Overlay)


def as_text(overlay: Overlay) -> str:
    """All that is not as it was at the beginning; empty where nothing is known."""
    known = {
        one.name: getattr(overlay, one.name)
        for one in fields(overlay)
        if getattr(overlay, one.name) != getattr(_NOTHING, one.name)
    }
    return json.dumps(known, default=_plain, separators=(",", ":")) if known else ""


def from_text(text: str) -> Overlay:
    """What a text says. Names that nobody knows are dropped."""
    if not text:
        return _NOTHING
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return DAMAGED
    return from_table(raw) if isinstance(raw, dict) else DAMAGED


def from_table(raw: dict[str, Any]) -> Overlay:
    """The same of an object that was read already."""
    known: dict[str, Any] = {}
    broken = False
    for name, form in _FORMS.items():
        if name not in raw:
            continue
        try:
            known[name] = _fit(form, raw[name])
        except (TypeError, ValueError, OverflowError):
            known[name] = _safe(name, form)
            known["damaged_at"] = LATEST
            broken = broken or name in OF_THE_BREAKER
    if broken and known.get("breaker_state", Breaker.CLOSED) is not Breaker.CLOSED:
        # Who tries, or since when, is lost: it is as if it had just opened.
        known |= {"breaker_state": Breaker.OPEN, "breaker_open_at": LATEST, "probe": None}
        known["probe_admitted_at"] = None
        known["breaker_break_seconds"] = known.get("breaker_break_seconds") or float(LARGEST)
    return Overlay(**known)


def _safe(name: str, form: Any) -> Any:
    """What stands in for a damaged value: never one that lets more in."""
    if name == "dynamic_cap":
        return 1
    if name == "breaker_state":
        return Breaker.OPEN
    if name == "breaker_break_seconds":
        return float(LARGEST)
    is_moment = get_origin(form) is not tuple and datetime in get_args(form)
    return LATEST if is_moment else getattr(_NOTHING, name)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return stamp(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{value!r} has no text")


def _fit(form: Any, value: Any) -> Any:
    """A value in its form, or an error: nothing is guessed."""
    arms = get_args(form)
    if get_origin(form) in (Union, types.UnionType):
        if value is None and type(None) in arms:
            return None
        return _fit(next(arm for arm in arms if arm is not type(None)), value)
    if get_origin(form) is tuple:
        if not isinstance(value, list):
            raise TypeError(f"{value!r} is no list")
        return tuple(_fit(arms[0], one) for one in value)
    if is_dataclass(form):
        return _filled(form, value)
    return _PLAIN[form](value) if form in _PLAIN else _word(form, value)


def _filled(form: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is no object")
    forms = get_type_hints(form)
    return form(**{name: _fit(forms[name], value[name]) for name in forms if name in value})


def _word(form: Any, value: Any) -> Any:
    if not (isinstance(form, type) and issubclass(form, StrEnum) and isinstance(value, str)):
        raise TypeError(f"{value!r} is not {form}")
    return form(value)


def _whole(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise ValueError(f"{value!r} is no number of ours")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not isfinite(value) or not 0 <= value <= LARGEST:
        raise ValueError(f"{value!r} is no number of ours")
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _moment(value: Any) -> datetime:
    return parse_stamp(_text(value))


_PLAIN: dict[Any, Callable[[Any], Any]] = {
    int: _whole,
    float: _number,
    bool: _flag,
    str: _text,
    datetime: _moment,
}

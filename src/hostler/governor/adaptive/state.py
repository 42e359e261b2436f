"""Store the state of adaptive pools as JSON, and sanitise what was stored."""

from __future__ import annotations

import json
import types
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import isfinite
from typing import Any, Union, get_args, get_origin, get_type_hints

from hostler.governor.adaptive.model import Breaker, PoolConfig, PoolState, RateLimitEvent
from hostler.model import format_timestamp, parse_timestamp
from hostler.store.transaction import clamped_deadline, not_after

# The longest break there is, unless the operator asks for a longer first one.
MAX_BREAK_SECONDS = 3600.0
# The jitter of the spacing reaches from half of it to half of it more.
MAX_SPACING_FACTOR = 1.5
# A provider's word on when to come back is believed for a day: a longer pause parks the pool.
MAX_GATE = timedelta(days=1)


def sanitize(knobs: PoolConfig, overlay: PoolState, now: datetime) -> PoolState:
    """Past moments are not after now, and deadlines no farther ahead than they could be set.

    What it changes must be stored: a deadline that is clamped anew at each look never passes.
    """
    overlay = _whole_number(knobs, overlay, now)
    if not _is_off(knobs, overlay, now):
        return overlay
    return replace(
        overlay,
        settle_until=_deadline(overlay.settle_until, now, knobs.settle_seconds),
        last_decrease_at=_past(overlay.last_decrease_at, now),
        last_rate_limit_at=_past(overlay.last_rate_limit_at, now),
        last_probe_at=_past(overlay.last_probe_at, now),
        recent_rate_limit_events=tuple(
            RateLimitEvent(not_after(seen.at, now), seen.slot)
            for seen in overlay.recent_rate_limit_events
        ),
        recent_decreases=tuple(not_after(at, now) for at in overlay.recent_decreases),
        breaker_open_at=_past(overlay.breaker_open_at, now),
        breaker_break_seconds=min(overlay.breaker_break_seconds, max_break(knobs)),
        probe_admitted_at=_past(overlay.probe_admitted_at, now),
        last_dispatch_at=_past(overlay.last_dispatch_at, now),
        next_dispatch_at=_deadline(overlay.next_dispatch_at, now, max_spacing(knobs)),
        window_at=_past(overlay.window_at, now),
        looked_at=_past(overlay.looked_at, now),
        deaf_since=_past(overlay.deaf_since, now),
        announced_at=_past(overlay.announced_at, now),
        gate_until=_deadline(overlay.gate_until, now, max_gate(overlay)),
        damaged_at=_past(overlay.damaged_at, now),
    )


def max_break(knobs: PoolConfig) -> float:
    """How long the breaker may stay open at most, in seconds."""
    return max(MAX_BREAK_SECONDS, knobs.break_seconds)


def max_gate(overlay: PoolState) -> float:
    """How long the gate may stay closed at most, in seconds: as was said, if that is known."""
    most = MAX_GATE.total_seconds()
    return min(overlay.gate_seconds, most) if overlay.gate_seconds > 0 else most


def max_spacing(knobs: PoolConfig) -> float:
    """How far ahead of a start the next one may be held, in seconds."""
    return MAX_SPACING_FACTOR * max(0.0, knobs.min_dispatch_interval_seconds)


def _whole_number(knobs: PoolConfig, overlay: PoolState, now: datetime) -> PoolState:
    """What belongs together, where damaged rows hold only a part of it."""
    if overlay.breaker_state is Breaker.OPEN and overlay.breaker_open_at is None:
        least = max(overlay.breaker_break_seconds, knobs.break_seconds)
        overlay = replace(overlay, breaker_open_at=now, breaker_break_seconds=least)
    if overlay.probe is None:
        return overlay
    if overlay.breaker_state is not Breaker.HALF_OPEN:
        return replace(overlay, probe=None, probe_admitted_at=None)
    if overlay.probe_admitted_at is None:
        return replace(overlay, probe_admitted_at=now)
    return overlay


def _is_off(knobs: PoolConfig, overlay: PoolState, now: datetime) -> bool:
    return (
        _is_ahead(knobs, overlay, now)
        or any(at is not None and at > now for at in _past_moments(overlay))
        or overlay.breaker_break_seconds > max_break(knobs)
    )


def _past_moments(overlay: PoolState) -> tuple[datetime | None, ...]:
    return (
        overlay.last_decrease_at,
        overlay.last_rate_limit_at,
        overlay.last_probe_at,
        overlay.breaker_open_at,
        overlay.probe_admitted_at,
        overlay.last_dispatch_at,
        overlay.window_at,
        overlay.looked_at,
        overlay.deaf_since,
        overlay.announced_at,
        overlay.damaged_at,
        *overlay.recent_decreases,
        *[seen.at for seen in overlay.recent_rate_limit_events],
    )


def _is_ahead(knobs: PoolConfig, overlay: PoolState, now: datetime) -> bool:
    """Whether a deadline lies farther ahead than it could have been set."""
    deadlines = (
        (overlay.settle_until, knobs.settle_seconds),
        (overlay.next_dispatch_at, max_spacing(knobs)),
        (overlay.gate_until, max_gate(overlay)),
    )
    return any(
        at is not None and at > now and at > now + timedelta(seconds=most) for at, most in deadlines
    )


def _past(stored: datetime | None, now: datetime) -> datetime | None:
    return stored and not_after(stored, now)


def _deadline(stored: datetime | None, now: datetime, seconds: float) -> datetime | None:
    return stored and clamped_deadline(stored, now, timedelta(seconds=max(0.0, seconds)))


# A damaged moment: it is believed as the latest that there could be, a past one as now.
MAX_TIME = datetime(9999, 1, 1, tzinfo=UTC)
# No number of ours is larger; a sum or a power of larger ones would not fit anywhere.
MAX_NUMBER = 10**9
# What cannot be read at all: nobody for as long as a break may last, then one who tries.
DAMAGED = PoolState(
    dynamic_cap=1,
    settle_until=MAX_TIME,
    breaker_state=Breaker.OPEN,
    breaker_open_at=MAX_TIME,
    breaker_break_seconds=float(MAX_NUMBER),
    damaged_at=MAX_TIME,
)
# Without one of these nobody can say who may start.
BREAKER_FIELDS = frozenset({"breaker_state", "breaker_open_at", "probe", "probe_admitted_at"})
_NOTHING = PoolState()
_FORMS: dict[str, Any] = get_type_hints(PoolState)


def dump_state(overlay: PoolState) -> str:
    """All that is not as it was at the beginning; empty where nothing is known."""
    known = {
        one.name: getattr(overlay, one.name)
        for one in fields(overlay)
        if getattr(overlay, one.name) != getattr(_NOTHING, one.name)
    }
    return json.dumps(known, default=_plain, separators=(",", ":")) if known else ""


def load_state(text: str) -> PoolState:
    """What a text says. Names that nobody knows are dropped."""
    if not text:
        return _NOTHING
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return DAMAGED
    return load_table(raw) if isinstance(raw, dict) else DAMAGED


def load_table(raw: dict[str, Any]) -> PoolState:
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
            known["damaged_at"] = MAX_TIME
            broken = broken or name in BREAKER_FIELDS
    if broken and known.get("breaker_state", Breaker.CLOSED) is not Breaker.CLOSED:
        # Who tries, or since when, is lost: it is as if it had just opened.
        known |= {"breaker_state": Breaker.OPEN, "breaker_open_at": MAX_TIME, "probe": None}
        known["probe_admitted_at"] = None
        known["breaker_break_seconds"] = known.get("breaker_break_seconds") or float(MAX_NUMBER)
    return PoolState(**known)


def _safe(name: str, form: Any) -> Any:
    """What stands in for a damaged value: never one that lets more in."""
    if name == "dynamic_cap":
        return 1
    if name == "breaker_state":
        return Breaker.OPEN
    if name == "breaker_break_seconds":
        return float(MAX_NUMBER)
    is_moment = get_origin(form) is not tuple and datetime in get_args(form)
    return MAX_TIME if is_moment else getattr(_NOTHING, name)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return format_timestamp(value)
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
    if type(value) is not int or not 0 <= value <= MAX_NUMBER:
        raise ValueError(f"{value!r} is no number of ours")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not isfinite(value) or not 0 <= value <= MAX_NUMBER:
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
    return parse_timestamp(_text(value))


_PLAIN: dict[Any, Callable[[Any], Any]] = {
    int: _whole,
    float: _number,
    bool: _flag,
    str: _text,
    datetime: _moment,
}

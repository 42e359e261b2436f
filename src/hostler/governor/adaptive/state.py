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

from hostler.governor.adaptive.model import (
    SPACING_JITTER,
    BreakerState,
    PoolConfig,
    PoolState,
    RateLimitEvent,
)
from hostler.model import format_timestamp, parse_timestamp
from hostler.store.transaction import clamped_deadline, not_after

# The longest break, unless the operator sets a longer first one.
MAX_BREAK_SECONDS = 3600.0
# A provider's retry time closes the gate for at most a day: a longer pause parks the pool.
MAX_GATE = timedelta(days=1)


def sanitize(config: PoolConfig, state: PoolState, now: datetime) -> PoolState:
    """Limit times to what is possible: past ones to now, deadlines to their maximum.

    The result must be stored: a deadline that is clamped at every read would never pass.
    """
    state = _complete(config, state, now)
    if not _is_off(config, state, now):
        return state
    return replace(
        state,
        settle_until=_deadline(state.settle_until, now, config.settle_seconds),
        last_decrease_at=_past(state.last_decrease_at, now),
        last_rate_limit_at=_past(state.last_rate_limit_at, now),
        last_probe_at=_past(state.last_probe_at, now),
        recent_rate_limit_events=tuple(
            RateLimitEvent(not_after(seen.at, now), seen.slot)
            for seen in state.recent_rate_limit_events
        ),
        recent_decreases=tuple(not_after(at, now) for at in state.recent_decreases),
        breaker_open_at=_past(state.breaker_open_at, now),
        breaker_break_seconds=min(state.breaker_break_seconds, max_break(config)),
        probe_admitted_at=_past(state.probe_admitted_at, now),
        last_dispatch_at=_past(state.last_dispatch_at, now),
        next_dispatch_at=_deadline(state.next_dispatch_at, now, max_spacing(config)),
        window_at=_past(state.window_at, now),
        sampled_at=_past(state.sampled_at, now),
        unanswered_since=_past(state.unanswered_since, now),
        announced_at=_past(state.announced_at, now),
        gate_until=_deadline(state.gate_until, now, max_gate(state)),
        damaged_at=_past(state.damaged_at, now),
    )


def max_break(config: PoolConfig) -> float:
    """Return the longest time that the breaker may stay open, in seconds."""
    return max(MAX_BREAK_SECONDS, config.break_seconds)


def max_gate(state: PoolState) -> float:
    """Return the longest time that the gate may stay closed, in seconds."""
    limit = MAX_GATE.total_seconds()
    return min(state.gate_seconds, limit) if state.gate_seconds > 0 else limit


def max_spacing(config: PoolConfig) -> float:
    """Return the longest time between two starts, in seconds."""
    return (1 + SPACING_JITTER) * max(0.0, config.min_dispatch_interval_seconds)


def _complete(config: PoolConfig, state: PoolState, now: datetime) -> PoolState:
    """Fill in values that belong together, where a damaged row holds only some of them."""
    if state.breaker_state is BreakerState.OPEN and state.breaker_open_at is None:
        shortest = max(state.breaker_break_seconds, config.break_seconds)
        state = replace(state, breaker_open_at=now, breaker_break_seconds=shortest)
    if state.probe is None:
        return state
    if state.breaker_state is not BreakerState.HALF_OPEN:
        return replace(state, probe=None, probe_admitted_at=None)
    if state.probe_admitted_at is None:
        return replace(state, probe_admitted_at=now)
    return state


def _is_off(config: PoolConfig, state: PoolState, now: datetime) -> bool:
    return (
        _is_ahead(config, state, now)
        or any(at is not None and at > now for at in _past_moments(state))
        or state.breaker_break_seconds > max_break(config)
    )


def _past_moments(state: PoolState) -> tuple[datetime | None, ...]:
    return (
        state.last_decrease_at,
        state.last_rate_limit_at,
        state.last_probe_at,
        state.breaker_open_at,
        state.probe_admitted_at,
        state.last_dispatch_at,
        state.window_at,
        state.sampled_at,
        state.unanswered_since,
        state.announced_at,
        state.damaged_at,
        *state.recent_decreases,
        *[seen.at for seen in state.recent_rate_limit_events],
    )


def _is_ahead(config: PoolConfig, state: PoolState, now: datetime) -> bool:
    """Return True if a deadline is later than it could have been set."""
    deadlines = (
        (state.settle_until, config.settle_seconds),
        (state.next_dispatch_at, max_spacing(config)),
        (state.gate_until, max_gate(state)),
    )
    return any(
        at is not None and at > now and at > now + timedelta(seconds=limit)
        for at, limit in deadlines
    )


def _past(stored: datetime | None, now: datetime) -> datetime | None:
    return stored and not_after(stored, now)


def _deadline(stored: datetime | None, now: datetime, seconds: float) -> datetime | None:
    return stored and clamped_deadline(stored, now, timedelta(seconds=max(0.0, seconds)))


# Stands for a damaged time: sanitising makes it the latest possible, or now.
MAX_TIME = datetime(9999, 1, 1, tzinfo=UTC)
# The largest number that is accepted: sums and powers of larger ones could overflow.
MAX_NUMBER = 10**9
# State that cannot be read at all: no start for the longest break, then one probe.
DAMAGED = PoolState(
    dynamic_cap=1,
    settle_until=MAX_TIME,
    breaker_state=BreakerState.OPEN,
    breaker_open_at=MAX_TIME,
    breaker_break_seconds=float(MAX_NUMBER),
    damaged_at=MAX_TIME,
)
# If one of these is damaged, the breaker's state is unknown.
BREAKER_FIELDS = frozenset({"breaker_state", "breaker_open_at", "probe", "probe_admitted_at"})
_NOTHING = PoolState()
_FORMS: dict[str, Any] = get_type_hints(PoolState)


def dump_state(state: PoolState) -> str:
    """Return the fields that differ from the initial state as JSON; empty if none does."""
    known = {
        one.name: getattr(state, one.name)
        for one in fields(state)
        if getattr(state, one.name) != getattr(_NOTHING, one.name)
    }
    return json.dumps(known, default=_plain, separators=(",", ":")) if known else ""


def load_state(text: str) -> PoolState:
    """Parse a stored state. Unknown names are dropped."""
    if not text:
        return _NOTHING
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        return DAMAGED
    return load_table(raw) if isinstance(raw, dict) else DAMAGED


def load_table(raw: dict[str, Any]) -> PoolState:
    """Build a state from a parsed object."""
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
    if broken and known.get("breaker_state", BreakerState.CLOSED) is not BreakerState.CLOSED:
        # The probe or its time is lost: treat the breaker as just opened.
        known |= {"breaker_state": BreakerState.OPEN, "breaker_open_at": MAX_TIME, "probe": None}
        known["probe_admitted_at"] = None
        known["breaker_break_seconds"] = known.get("breaker_break_seconds") or float(MAX_NUMBER)
    return PoolState(**known)


def _safe(name: str, form: Any) -> Any:
    """Return the substitute for a damaged value: never one that lets more agents in."""
    if name == "dynamic_cap":
        return 1
    if name == "breaker_state":
        return BreakerState.OPEN
    if name == "breaker_break_seconds":
        return float(MAX_NUMBER)
    is_time = get_origin(form) is not tuple and datetime in get_args(form)
    return MAX_TIME if is_time else getattr(_NOTHING, name)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return format_timestamp(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{value!r} cannot be stored")


def _fit(form: Any, value: Any) -> Any:
    """Convert a value to its type, or raise: nothing is guessed."""
    arms = get_args(form)
    if get_origin(form) in (Union, types.UnionType):
        if value is None and type(None) in arms:
            return None
        return _fit(next(arm for arm in arms if arm is not type(None)), value)
    if get_origin(form) is tuple:
        if not isinstance(value, list):
            raise TypeError(f"{value!r} is not a list")
        return tuple(_fit(arms[0], one) for one in value)
    if is_dataclass(form):
        return _filled(form, value)
    return _PLAIN[form](value) if form in _PLAIN else _enum_member(form, value)


def _filled(form: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is not an object")
    forms = get_type_hints(form)
    return form(**{name: _fit(forms[name], value[name]) for name in forms if name in value})


def _enum_member(form: Any, value: Any) -> Any:
    if not (isinstance(form, type) and issubclass(form, StrEnum) and isinstance(value, str)):
        raise TypeError(f"{value!r} is not {form}")
    return form(value)


def _integer(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= MAX_NUMBER:
        raise ValueError(f"{value!r} is out of range")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not isfinite(value) or not 0 <= value <= MAX_NUMBER:
        raise ValueError(f"{value!r} is out of range")
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is not a boolean")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _time(value: Any) -> datetime:
    return parse_timestamp(_text(value))


_PLAIN: dict[Any, Callable[[Any], Any]] = {
    int: _integer,
    float: _number,
    bool: _flag,
    str: _text,
    datetime: _time,
}

"""Rule: what older files kept of a pool's state beside the operator's caps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hostler.config.pools import DEFAULT_POOL
from hostler.governor.overlay import Overlay
from hostler.governor.remembering import from_table

# As an older program named them, without its underscores and capitals.
_ALIKE = (
    "dynamic_cap",
    "settle_until",
    "last_decrease_at",
    "last_rate_limit_at",
    "last_probe_at",
    "rate_limit_events",
    "recent_rate_limit_events",
    "recent_decreases",
    "breaker_state",
    "breaker_open_at",
    "breaker_break_seconds",
    "breaker_reopen_count",
    "probe_admitted_at",
    "last_dispatch_at",
    "next_dispatch_at",
)
_PROBE = {"probeproject": "project", "probebead": "task", "probetask": "task"}
_NAMES = {name.replace("_", ""): name for name in _ALIKE}
_CAP = frozenset({"dynamiccap", "lastprobeat"})
# How a program that has no empty moment writes one.
_NEVER = "0001-01-01T00:00:00"


def states_in(content: Mapping[str, Any]) -> dict[str, Overlay]:
    """By pool, what a file says of its state; pools of which it says nothing are not there."""
    tables = _tables(content)
    found = {name: _state(table) for name, table in tables.items()}
    return {name: state for name, state in found.items() if state is not None}


def without_state(content: Mapping[str, Any]) -> dict[str, Any]:
    """The same in the shape with pools: what is the operator's, and what is of other programs."""
    if "pools" not in content:
        return {"pools": {DEFAULT_POOL: _kept(content)}}
    pools = {
        name: _kept(table) if isinstance(table, Mapping) else table
        for name, table in content["pools"].items()
    }
    return {**content, "pools": pools}


def without_cap(table: Mapping[str, Any]) -> dict[str, Any]:
    """One pool's table without the cap that was learned, and since when it grows."""
    return {key: value for key, value in table.items() if _plain(key) not in _CAP}


def _tables(content: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    raw = content.get("pools", {DEFAULT_POOL: content})
    return {
        name.strip() or DEFAULT_POOL: table
        for name, table in raw.items()
        if isinstance(table, Mapping)
    }


def _plain(key: str) -> str:
    return key.replace("_", "").lower()


def _is_state(key: str) -> bool:
    return _plain(key) in _NAMES or _plain(key) in _PROBE


def _kept(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if not _is_state(key)}


def _state(table: Mapping[str, Any]) -> Overlay | None:
    said = {_plain(key): value for key, value in table.items() if _is_state(key)}
    if not said:
        return None
    known = {name: _value(said[key]) for key, name in _NAMES.items() if key in said}
    known = {name: value for name, value in known.items() if value is not None}
    if known.get("breaker_state") == "closed":
        known["breaker_state"] = ""
    if isinstance(reports := known.get("recent_rate_limit_events"), list):
        known["recent_rate_limit_events"] = [_report(one) for one in reports]
    probe = {_PROBE[key]: value for key, value in said.items() if key in _PROBE and value}
    if "project" in probe:
        known["probe"] = probe
    return from_table(known)


def _value(value: Any) -> Any:
    """None where there was nothing."""
    never = isinstance(value, str) and value.startswith(_NEVER)
    return None if never else value


def _report(raw: Any) -> Any:
    """One remembered report: when, and whose."""
    if not isinstance(raw, Mapping):
        return raw
    said = {_plain(key): value for key, value in raw.items()}
    slot = {"project": said.get("project"), "task": said.get("task", said.get("bead", ""))}
    return {"at": said.get("at"), "slot": slot}

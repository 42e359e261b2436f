"""What differs between two states of the settings, and what of it waits for a restart. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hostler.config.keys import Section, needs_restart
from hostler.config.settings import PLAIN_TABLES, Settings


@dataclass(frozen=True, slots=True)
class Change:
    """`settings`: what is in force from now on; `taken` and `waiting`: names of changed keys."""

    settings: Settings
    taken: tuple[str, ...]
    waiting: tuple[str, ...]


def change(present: Settings, wanted: Settings) -> Change:
    """Take up everything that needs no restart; the rest keeps its present value."""
    tables: dict[str, Section] = {}
    taken: list[str] = []
    waiting: list[str] = []
    for name in PLAIN_TABLES:
        old, new = getattr(present, name), getattr(wanted, name)
        changed = _differing(old, new)
        kept = [key for key in changed if needs_restart(type(new).model_fields[key])]
        waiting += [f"{name}.{key}" for key in kept]
        taken += [f"{name}.{key}" for key in changed if key not in kept]
        tables[name] = new.model_copy(update={key: getattr(old, key) for key in kept})
    for name in ("repo", "agent"):
        taken += [f"{name}.{key}" for key in _named(getattr(present, name), getattr(wanted, name))]
    return Change(wanted.model_copy(update=tables), tuple(taken), tuple(waiting))


def _differing(old: Section, new: Section) -> list[str]:
    return [key for key in type(new).model_fields if getattr(old, key) != getattr(new, key)]


def _named(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Tables that came, went or are different."""
    return [name for name in {**old, **new} if old.get(name) != new.get(name)]

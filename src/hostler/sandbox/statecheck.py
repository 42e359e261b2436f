"""Whether what a state holds fits together. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from hostler.sandbox.ci_entities import CiScript, Run
from hostler.sandbox.entities import Issue, Label, Moved
from hostler.sandbox.tables import Entity

# Fields that name an entity, and its kind. Without it, what holds the field means nothing.
_NEEDS = {
    "repo_id": "repo",
    "issue_id": "issue",
    "pull_id": "pull",
    "review_id": "review",
    "hook_id": "hook",
    "workflow_id": "workflow",
    "run_id": "run",
}


def twins(items: Iterable[Entity]) -> str | None:
    """Two entities under one id or name, in words; None where there are none."""
    keys: Counter[tuple[object, ...]] = Counter()
    for item in items:
        # Old names may be shared: the latest to give one up has it.
        names = [name for name in item.names() if name[0] != "former"]
        keys.update([(item.kind, "id", item.id), *((item.kind, "name", *name) for name in names)])
    double = next((key for key, count in keys.items() if count > 1), None)
    if double is None:
        return None
    return f"entities.{double[0]}: two have the {double[1]} {'/'.join(map(str, double[2:]))}"


def connected(items: list[Entity]) -> list[Entity]:
    """Those whose repository, issue and so on are there, without labels that are not."""
    while True:
        there = {(item.kind, item.id) for item in items}
        kept = [item for item in items if _stands(item, there)]
        if len(kept) == len(items):
            return [_labelled(item, there) for item in kept]
        items = kept


def raised(counters: dict[str, int], items: Iterable[Entity]) -> dict[str, int]:
    """Counters that give no id and no number a second time."""
    found = {name: max(value, 0) for name, value in counters.items()}
    for item in items:
        for name, value in _used(item):
            if value > found.get(name, 0):
                found[name] = value
    return found


def _stands(item: Entity, there: set[tuple[str, int]]) -> bool:
    needs = ((kind, getattr(item, field, None)) for field, kind in _NEEDS.items())
    return all(number is None or (kind, number) in there for kind, number in needs)


def _labelled(item: Entity, there: set[tuple[str, int]]) -> Entity:
    if not isinstance(item, Issue):
        return item
    kept = tuple(number for number in item.labels if (Label.kind, number) in there)
    return item if kept == item.labels else replace(item, labels=kept)


def _used(item: Entity) -> Iterable[tuple[str, int]]:
    if not isinstance(item, CiScript):  # it has its repository's id
        yield f"id:{item.kind}", item.id
    if isinstance(item, Issue | Moved):
        yield f"number:{item.repo_id}", item.number
    if isinstance(item, Run):
        yield f"run:{item.workflow_id}", item.run_number

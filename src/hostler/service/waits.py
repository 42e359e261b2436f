"""Who waits for whom: agents whose place is lent, and what their tasks wait for."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from itertools import chain

from hostler.flows.lineage import belongs
from hostler.planner import graph_of
from hostler.planner.queue import is_root
from hostler.store import Transaction
from hostler.store.runs import Run
from hostler.store.tasks import Task

# In what is noted about whoever lent a place, beside its identity.
WAITS_FOR = "waits_for"
# By task: what it waits for.
Waits = Mapping[str, tuple[str, ...]]


def waits_of(runs: Iterable[Run]) -> dict[str, tuple[str, ...]]:
    """Tasks whose agents wait now, and for which tasks."""
    waiting = (run for run in runs if run.lent_at and not run.back_wanted_at)
    return {run.task_id: awaited(run) for run in waiting}


def awaited(run: Run) -> tuple[str, ...]:
    """The tasks that a run with a lent place waits for."""
    names = json.loads(run.lent_by or "{}").get(WAITS_FOR, ())
    return tuple(name for name in names if isinstance(name, str))


def graph_with(tx: Transaction, names: Collection[str], waits: Waits) -> Waits:
    """What can be reached from these tasks and from all who wait, by dependencies and waits."""
    reached = graph_of(tx, {*names, *waits, *chain.from_iterable(waits.values())})
    both = {*reached, *waits}
    return {name: (*reached.get(name, ()), *waits.get(name, ())) for name in both}


def roots_waiting_for(
    tx: Transaction, runs: Collection[Run], tasks: Mapping[str, Task]
) -> dict[str, int]:
    """By task: how many root tasks have lent their place and wait for it, in whatever way."""
    waits = waits_of(runs)
    graph = graph_with(tx, (), waits) if waits else {}
    counts: dict[str, int] = {}
    for name in waits:
        if name in tasks and is_root(tasks[name]):
            for reached in _reach(graph, name):
                counts[reached] = counts.get(reached, 0) + 1
    return counts


def waited_for(tx: Transaction, runs: Collection[Run], tasks: Iterable[Task]) -> frozenset[str]:
    """Which of these tasks somebody with a lent place may wait for.

    Those that it names, what they depend on, and what came from any of them or from itself: who
    waits for the first of several names none.
    """
    waits = waits_of(runs)
    if not waits:
        return frozenset()
    graph = graph_with(tx, (), waits)
    roots = set(waits).union(*(_reach(graph, name) for name in waits))
    return frozenset(task.id for task in tasks if belongs(tx, task, roots))


def _reach(graph: Waits, start: str) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        new = [name for name in graph.get(waiting.pop(), ()) if name not in found]
        found.update(new)
        waiting += new
    return found

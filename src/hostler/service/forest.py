"""Tasks in the order in which a tree of them is read. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hostler.store.tasks import Task


def forest(tasks: Iterable[Task]) -> list[tuple[int, Task]]:
    """Every task once, with its depth: each before its children, all in their order.

    One whose parent is not among them stands at the edge, as does one of a damaged circle.
    """
    found = {task.id: task for task in sorted(tasks, key=lambda task: (task.order, task.id))}
    below: dict[str, list[Task]] = {}
    for task in found.values():
        below.setdefault(task.parent_task or "", []).append(task)
    roots = [task for task in found.values() if task.parent_task not in found]
    seen: dict[str, tuple[int, Task]] = {}
    for task in (*roots, *found.values()):
        for depth, one in _walk(task, below, frozenset(seen)):
            seen.setdefault(one.id, (depth, one))
    return list(seen.values())


def _walk(
    root: Task, below: dict[str, list[Task]], seen: frozenset[str]
) -> Iterator[tuple[int, Task]]:
    waiting, known = [(0, root)], set(seen)
    while waiting:
        depth, task = waiting.pop()
        if task.id in known:
            continue
        known.add(task.id)
        yield depth, task
        waiting += [(depth + 1, child) for child in reversed(below.get(task.id, []))]

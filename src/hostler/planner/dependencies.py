"""Rules of dependencies: how they are written, and that none leads back. Pure."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping

from hostler.model import RepoName
from hostler.planner.errors import BadDependency, DependencyCycle
from hostler.store.tasks import IssueRef

# Who waits for whom, by names. An issue leads to its tasks.
Graph = Mapping[str, tuple[str, ...]]

MOST = 100
_TASK = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def normalize(
    values: Iterable[str], own: Collection[str] | str | None = None, repo: RepoName | None = None
) -> tuple[str, ...]:
    """Dependencies in the form in which they are stored. `own`: names of the task itself."""
    ours = {own} if isinstance(own, str) else set(own or ())
    parts = (part.strip() for value in values for part in value.split(","))
    names = dict.fromkeys(_name(part, repo) for part in parts if part)
    for name in names:
        if name in ours:
            raise BadDependency(name, "it is the task itself")
    if len(names) > MOST:
        raise BadDependency(list(names)[MOST], f"{MOST} are the most that one task can have")
    return tuple(names)


def _name(text: str, repo: RepoName | None) -> str:
    if text.startswith("#") and repo is None:
        raise BadDependency(text, "its repository is not named")
    ref = IssueRef.parse(f"{repo}{text}" if text.startswith("#") else text)
    if ref is not None:
        return str(ref)
    if not _TASK.fullmatch(text):
        raise BadDependency(text, "it is neither a task's id nor an issue")
    return text


def require_no_cycle(graph: Graph, task: str, depends_on: Iterable[str]) -> None:
    """Raise if a task that waited for these would wait for itself."""
    found = find_cycle(graph, task, depends_on)
    if found is not None:
        raise DependencyCycle(found)


def without_cycles(
    graph: Graph, task: str, depends_on: Iterable[str]
) -> tuple[tuple[str, ...], tuple[DependencyCycle, ...]]:
    """Those that a task can wait for, and a cycle for each one that it cannot."""
    names = tuple(depends_on)
    found = {name: find_cycle(graph, task, (name,)) for name in names}
    kept = tuple(name for name in names if found[name] is None)
    return kept, tuple(DependencyCycle(path) for path in found.values() if path is not None)


def find_cycle(graph: Graph, task: str, depends_on: Iterable[str]) -> tuple[str, ...] | None:
    """The shortest way from a task back to itself; of equal ones, the first by order of names."""
    came_from: dict[str, str] = {}
    waiting = deque([task])
    edges = {**graph, task: tuple(depends_on)}
    while waiting:
        here = waiting.popleft()
        for name in edges.get(here, ()):
            if name == task:
                return _in_words(_way(came_from, task, here))
            if name not in came_from:
                came_from[name] = here
                waiting.append(name)
    return None


def is_issue(name: str) -> bool:
    """Whether a name is that of an issue; no task's id has this letter."""
    return "#" in name


def _way(came_from: Mapping[str, str], start: str, end: str) -> list[str]:
    way = [end]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]


def _in_words(way: list[str]) -> tuple[str, ...]:
    """A circle as it is told: an issue stands for the task that it leads to."""
    before = [way[-1], *way[:-1]]
    told = [name for earlier, name in zip(before, way, strict=True) if not is_issue(earlier)]
    if is_issue(way[-1]):
        told = [told[-1], *told[:-1]]
    return (*told, told[0])

"""Rules of chains: which names can never become ready, and what at their end is to blame. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from hostler.planner.dependencies import Graph, find_cycle


def blamed(graph: Graph, dead: Collection[str]) -> dict[str, str]:
    """Every name that leads to a dead one, with the nearest of them; dead ones with themselves."""
    behind = _turned(graph)
    found = {name: name for name in sorted(dead)}
    waiting = deque(found)
    while waiting:
        here = waiting.popleft()
        for name in behind.get(here, ()):
            if name not in found:
                found[name] = found[here]
                waiting.append(name)
    return found


def circles(graph: Graph) -> dict[str, tuple[str, ...]]:
    """Every name from which a way leads back to it, with the shortest such way."""
    left = _unresolved(graph)
    core = {name: tuple(n for n in graph[name] if n in left) for name in sorted(left)}
    found = {name: find_cycle(core, name, core[name]) for name in core}
    return {name: path for name, path in found.items() if path is not None}


def _unresolved(graph: Graph) -> set[str]:
    """Names that are on a circle or lead to one: all others can be done one after another."""
    behind = _turned(graph)
    open_ends = {name: len(set(names)) for name, names in graph.items()}
    done = deque(name for name in _names(graph) if not open_ends.get(name))
    left = {name for name, count in open_ends.items() if count}
    while done:
        for name in behind.get(done.popleft(), ()):
            open_ends[name] -= 1
            if not open_ends[name]:
                left.discard(name)
                done.append(name)
    return left


def _turned(graph: Graph) -> dict[str, list[str]]:
    """The same with every arrow the other way round."""
    turned: dict[str, list[str]] = {}
    for name in sorted(graph):
        for target in dict.fromkeys(graph[name]):
            turned.setdefault(target, []).append(name)
    return turned


def _names(graph: Graph) -> Iterable[str]:
    return dict.fromkeys([*graph, *(name for names in graph.values() for name in names)])

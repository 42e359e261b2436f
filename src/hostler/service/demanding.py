"""What this service would start, told to the governor: it deals the slots out by that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from hostler.governor import Ask, Policy, demand, width_warning
from hostler.service.admission import Office
from hostler.service.candidates import Place, Yard, gate_of

# Pool and project.
Key = tuple[str, str]
Warn = Callable[[Key, str | None], None]


def unheard(_key: Key, _words: str | None) -> None:
    """Warns nobody."""


class Demander:
    """Says it when it has changed or is getting old. `warn`: of projects wider than their share."""

    def __init__(self, office: Office, warn: Warn = unheard) -> None:
        self._office = office
        self._warn = warn
        self._said: dict[Key, tuple[int, float]] = {}

    def say(self, now: float, yard: Yard) -> None:
        """Tell the governor."""
        wanted = wanted_by(yard)
        policy = self._office.policy()
        ttl = policy.demand_ttl_seconds
        due = {
            key: (count, place)
            for key, (count, place) in wanted.items()
            if self._said.get(key, (None, 0.0))[0] != count or now - self._said[key][1] > ttl / 3
        }
        gone = [key for key in self._said if key not in wanted]
        if due or gone:
            self._write(due, gone, policy)
        for key, (count, _) in due.items():
            self._said[key] = (count, now)
        for key in gone:
            del self._said[key]

    def drop(self) -> None:
        """We want nothing any more."""
        if self._said:
            self._write({}, list(self._said), self._office.policy())
            self._said.clear()

    def _write(
        self, due: Mapping[Key, tuple[int, Place]], gone: Iterable[Key], policy: Policy
    ) -> None:
        here = self._office.look()
        with self._office.store.write("admission", relaxed=True) as tx:
            for (pool, project), (count, place) in due.items():
                weight, width = place.weight, place.width
                demand(tx, pool, project, here, wanted=count, weight=weight, width=width)
            for pool, project in gone:
                demand(tx, pool, project, here, wanted=0)
            wide = {key: width_warning(tx, _ask(*one), policy, here) for key, one in due.items()}
        for key, words in wide.items():
            self._warn(key, words)


def wanted_by(yard: Yard) -> dict[Key, tuple[int, Place]]:
    """Agents that could start by every gate but the governor's, by pool and project."""
    able = [task for task in yard.waiting if not task.finishing and gate_of(task, yard) is None]
    placed = [yard.places[task.id] for task in able]
    counts = Counter((place.pool, place.project) for place in placed)
    places = {(place.pool, place.project): place for place in placed}
    return {key: (count, places[key]) for key, count in counts.items()}


def _ask(_count: int, place: Place) -> Ask:
    return Ask("", place.project, place.pool, width=place.width, weight=place.weight)

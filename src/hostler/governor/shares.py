"""Rule: how many slots of a pool each project may have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd

# As much as anybody could want: a number, so that it can be compared and summed.
ENDLESS = 1_000_000


@dataclass(frozen=True, slots=True)
class Wish:
    """One project in a pool: what it runs there, and how many more it wants; None: unknown."""

    project: str
    active: int = 0
    more: int | None = None
    weight: int = 1

    @property
    def total(self) -> int:
        """All that it wants to run at once."""
        return ENDLESS if self.more is None else self.active + self.more


def shares(cap: int, wishes: Iterable[Wish], turn: int) -> dict[str, int]:
    """Deal the slots out around the circle, one each, to whoever wants another.

    The names of the projects must differ.
    """
    ordered = sorted(wishes, key=lambda wish: wish.project)
    left = {wish.project: max(0, wish.total) for wish in ordered}
    dealt = dict.fromkeys(left, 0)
    circle = _started_at(turn, ordered)
    while cap > 0 and (circle := [project for project in circle if left[project] > 0]):
        rounds = _whole_rounds(cap, circle, left)
        for project in circle:
            given = min(left[project], rounds or 1, cap)
            dealt[project] += given
            left[project] -= given
            cap -= given
    return dealt


def turn_at(seconds: float, window_seconds: int) -> int:
    """Which turn a moment belongs to, by its seconds since 1970."""
    return int(seconds // window_seconds)


def _started_at(turn: int, wishes: Sequence[Wish]) -> list[str]:
    """The places of the circle, from the one where this turn's dealing starts."""
    places = circle_of(tuple(max(1, wish.weight) for wish in wishes))
    start = -turn % len(places) if places else 0
    return [wishes[index].project for index in (*places[start:], *places[:start])]


def _whole_rounds(cap: int, circle: Sequence[str], left: dict[str, int]) -> int:
    """How often the circle can be gone around at once with nobody getting too much.

    Dealing one by one would come to the same, in as many steps as there are slots.
    """
    places = {project: circle.count(project) for project in set(circle)}
    enough = min(left[project] // number for project, number in places.items())
    return min(cap // len(circle), enough)


@lru_cache(maxsize=64)
def circle_of(weights: tuple[int, ...]) -> tuple[int, ...]:
    """The places of a circle by index: as many for each as its weight, spread evenly.

    With equal weights it is everybody once, in order.
    """
    common = gcd(*weights) or 1
    places = [
        ((2 * number + 1) / (2 * (weight // common)), index)
        for index, weight in enumerate(weights)
        for number in range(weight // common)
    ]
    return tuple(index for _, index in sorted(places))

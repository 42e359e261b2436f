"""Random streams: what happens, in which order, as data that a seed decides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from hostler.forge.github.polling.poller import PollPlan

PLANS: Mapping[str, PollPlan] = {
    "repository": PollPlan(),
    "threads": PollPlan(feeds="threads"),
    "shadow": PollPlan(incremental="shadow"),
}
# How often each plan is played, in ten streams.
SHARES = {"repository": 6, "threads": 2, "shadow": 2}
PEOPLE = {
    "say": 6,
    "line": 3,
    "review": 3,
    "burst": 3,
    "edit": 5,
    "edit_line": 2,
    "edit_review": 2,
    "edit_old": 2,
    "flap": 2,
    "delete": 3,
    "rewrite": 1,
    "file": 1,
    "label": 1,
    "ignore": 1,
    "unlabel": 1,
    "close": 1,
    "reopen": 1,
    "merge": 1,
    "wait": 12,
}
US = {
    "poll": 12,
    "drift": 6,
    "die": 5,
    "die_anywhere": 1,
    "restart": 1,
    "work": 4,
    "block": 2,
    "unblock": 1,
    "resume": 2,
    "away": 1,
    "jump": 1,
}
PAGES = (2, 3, 5, 100)
SHORT, LONG = 26, 80

Move = tuple[str, int, int]


@dataclass(frozen=True)
class Stream:
    """One stream. `fresh`: the service begins in the middle of it, with an empty database."""

    seed: int
    plan: str
    page: int
    fresh: bool
    moves: tuple[Move, ...]

    def with_moves(self, moves: tuple[Move, ...]) -> Stream:
        return replace(self, moves=moves)


def stream_of(seed: int, longest: int = SHORT) -> Stream:
    """The stream of a seed."""
    chance = Random(seed)
    moves = _moves(chance, PEOPLE | US, chance.randint(6, longest))
    fresh = chance.random() < 0.2
    plan = chance.choice(list(Counter(SHARES).elements()))
    return Stream(seed, plan, chance.choice(PAGES), fresh, moves)


def meanwhile_of(which: int, how: int) -> list[list[Move]]:
    """What people do between the pages of a poll."""
    chance = Random(which * 1000 + how)
    return [_moves(chance, PEOPLE, chance.choice((0, 0, 1, 2))) for _ in range(6)]


def _moves(chance: Random, weights: Mapping[str, int], count: int) -> tuple[Move, ...]:
    names = chance.choices(list(weights), list(weights.values()), k=count)
    return tuple((name, chance.randrange(1000), chance.randrange(1000)) for name in names)

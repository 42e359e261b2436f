"""The contestants by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from hostler.governor.adaptive.controller import POLICIES
from hostler.governor.adaptive.model import AdaptivePolicy, PoolConfig
from hostler.sim.rivals import Netflix, Oracle
from hostler.sim.scenario import Scenario

Ceiling = Callable[[datetime], float]


@dataclass(frozen=True, slots=True)
class Contestant:
    """A policy, what the operator told it, and what its world gives it beside refusals."""

    control: Callable[[Ceiling], AdaptivePolicy]
    knobs: Callable[[Scenario], PoolConfig]
    headers: bool = False
    strict_shares: bool = False


def _learning(scenario: Scenario) -> PoolConfig:
    return PoolConfig(max_global=scenario.max_global, hard_max=scenario.hard_max, adaptive=True)


def _fixed(cap: int) -> Contestant:
    knobs = PoolConfig(max_global=cap, hard_max=cap)
    return Contestant(lambda _: POLICIES["aimd"], lambda _: knobs)


def _real(name: str, *, headers: bool = False, strict_shares: bool = False) -> Contestant:
    return Contestant(lambda _: POLICIES[name], _learning, headers, strict_shares)


CONTESTANTS: Mapping[str, Contestant] = {
    "fixed_8": _fixed(8),
    "fixed_24": _fixed(24),
    "aimd_strict": _real("aimd", strict_shares=True),
    "aimd": _real("aimd"),
    "served": _real("served"),
    "served_headers": _real("served", headers=True),
    "netflix": Contestant(lambda _: Netflix(), _learning),
    "oracle": Contestant(Oracle, _learning),
}

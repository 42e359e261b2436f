"""Rules of stretching: how much longer polls should pause, by what they need and what is left."""

from __future__ import annotations

from math import inf, sqrt

from hostler.forge.budget.caps import AIM_PERCENT, MINUTE

HOUR_MEMORY = 900.0
MINUTE_MEMORY = 300.0
LEAST_HORIZON = 60.0
IDLE_FIRST = 2.0
MOST_STRETCH = 30.0


def hour_pressure(demand: float, left: float, seconds: float) -> float:
    """How many times what is left would be spent before the reset; `demand` is per second."""
    if left <= 0:
        return inf
    # As if one more were to come: what is left may vanish while nobody asks.
    wanted = demand + 1 / HOUR_MEMORY
    return wanted * max(seconds, LEAST_HORIZON) / left


def minute_pressure(demand: float, share: int, written: int) -> float:
    """How many times too many points would be spent; `demand` is per second."""
    room = min(share * AIM_PERCENT / 100, share - written)
    return demand * MINUTE / room if room > 0 else inf


def idle_stretch(pressure: float) -> float:
    """By how much an idle repository's pause grows."""
    return min(max(pressure, 1.0), MOST_STRETCH)


def active_stretch(idle: float) -> float:
    """By how much an active repository's pause grows, beside that of the idle ones."""
    return max(sqrt(idle / IDLE_FIRST), 1.0)

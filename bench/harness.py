"""What benchmarks share: figures, and timing that resists a noisy machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any

# A benchmark returns numbers (and short strings) under names, nested where it helps.
Figures = Mapping[str, Any]


def flat(figures: Figures, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every figure with its dotted name."""
    for key, value in figures.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def interleaved(rounds: int, **actions: Callable[[], object]) -> dict[str, float]:
    """The median seconds of each action, measured in turns so that noise hits all alike."""
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            start = time.perf_counter()
            action()
            taken[name].append(time.perf_counter() - start)
    return {name: median(times) for name, times in taken.items()}

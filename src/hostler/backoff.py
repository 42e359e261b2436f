"""Exponential back-off."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

Delay = TypeVar("Delay", float, timedelta)

# A delay of up to 22 hours can be doubled this often without overflowing a timedelta.
MAX_DOUBLINGS = 30


def backoff(tries: int, first: Delay, longest: Delay) -> Delay:
    """Return the delay after this many earlier tries: doubled for each, at most `longest`."""
    return min(first * float(1 << min(max(tries, 0), MAX_DOUBLINGS)), longest)

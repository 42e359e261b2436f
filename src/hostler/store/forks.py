"""What a forked child must not share with its parent.

A child gets copies of open connections and of locks that other threads held. Using or even
closing such a connection can damage the parent's; waiting for such a lock never ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from hostler.forks import renew_after_fork as renew_after_fork

T = TypeVar("T")

# For the child's whole life: forgetting them would close them.
_inherited: list[object] = []


def set_aside(item: object) -> None:
    """Keep something inherited, so that nothing ever closes it here."""
    _inherited.append(item)


class PerProcess(Generic[T]):
    """A value that each process makes for itself; an inherited one is set aside, never closed."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.value = make()
        renew_after_fork(self)

    def after_fork(self) -> None:
        set_aside(self.value)
        self.value = self._make()

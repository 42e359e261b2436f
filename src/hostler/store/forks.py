"""What a forked child must not share with its parent.

A child gets copies of open connections and of locks that other threads held. Using or even
closing such a connection can damage the parent's; waiting for such a lock never ends.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")

# For the child's whole life: forgetting them would close them.
_inherited: list[object] = []


class Forkable(Protocol):
    """Something that starts anew in a forked child."""

    def after_fork(self) -> None: ...


_known: weakref.WeakSet[Forkable] = weakref.WeakSet()


def renew_after_fork(item: Forkable) -> None:
    """Have the item told in every child of this process."""
    _known.add(item)


def _in_child() -> None:
    for item in list(_known):
        item.after_fork()


os.register_at_fork(after_in_child=_in_child)


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

"""Reset locks and other per-process state in a forked child."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Something that resets itself in a forked child."""

    def after_fork(self) -> None: ...


_registered: weakref.WeakSet[Forkable] = weakref.WeakSet()


def reset_after_fork(item: Forkable) -> None:
    """Call the item's `after_fork` in every forked child of this process."""
    _registered.add(item)


def _reset_in_child() -> None:
    for item in list(_registered):
        item.after_fork()


os.register_at_fork(after_in_child=_reset_in_child)

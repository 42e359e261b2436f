"""What must start anew in a forked child: a lock that another thread held is never let go there."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


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

"""A full disk, met by ourselves and not by git, as our error."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from hostler.checkouts.errors import DiskFull

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextlib.contextmanager
def minding_space(place: Path) -> Iterator[None]:
    """Say `DiskFull` where the system says that nothing more can be written."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise DiskFull(place) from None

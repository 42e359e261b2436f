"""Transactions counted, and writers' waits measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import STORE_TRANSACTIONS, STORE_WRITE_WAIT


@contextmanager
def metered(kind: str) -> Iterator[Callable[[], None]]:
    """Count a transaction by how its block ends; call what is yielded when a writer's turn came."""
    asked = time.monotonic()
    try:
        yield lambda: metrics.observe(STORE_WRITE_WAIT, time.monotonic() - asked)
    except BaseException:
        metrics.count(STORE_TRANSACTIONS, kind=kind, end="rollback")
        raise
    metrics.count(STORE_TRANSACTIONS, kind=kind, end="commit")

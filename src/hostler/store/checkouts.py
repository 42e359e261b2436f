"""Taking a connection out of an engine's pool for the length of a block."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine

from hostler.store.forks import set_aside


@contextmanager
def connected(engine: Engine) -> Iterator[Connection]:
    """A connection that goes back at the end, unless a forked child is the one that ends."""
    process = os.getpid()
    connection = engine.connect()
    try:
        yield connection
    finally:
        # Going back means rolling back, and in a child that would be the parent's transaction.
        if os.getpid() == process:
            connection.close()
        else:
            set_aside(connection)

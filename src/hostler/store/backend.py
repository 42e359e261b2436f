"""What a database must offer to be our store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from sqlalchemy import Connection

from hostler.store.place import Place


class Backend(Protocol):
    """The seam between the store and a database."""

    @property
    def place(self) -> Place:
        """Where the database is."""
        ...

    @property
    def poll_seconds(self) -> float | None:
        """How often a waiter asks for `version`; None where it is told instead."""
        ...

    def writing(
        self, scopes: tuple[str, ...], *, relaxed: bool
    ) -> AbstractContextManager[Connection]:
        """A connection in a write transaction that no writer of the same scopes shares."""
        ...

    def reading(self) -> AbstractContextManager[Connection]:
        """A connection in a transaction that sees one moment and cannot write."""
        ...

    def now(self, connection: Connection) -> datetime:
        """The moment of a transaction."""
        ...

    def before_commit(self, connection: Connection) -> None:
        """What has to be done as the last thing of a write transaction."""
        ...

    def version(self) -> int:
        """A number that changes when another process commits."""
        ...

    def on_change(self, tell: Callable[[], None]) -> None:
        """Whom to tell when `version` has changed, where the database tells us."""
        ...

    def close(self) -> None:
        """Close all connections of this process."""
        ...

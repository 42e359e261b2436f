"""One open transaction, as rooms see it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection, CursorResult, Executable

from hostler.model import stamp
from hostler.store.place import Place, PostgresPlace
from hostler.store.translate import translated

T = TypeVar("T")
Values = Mapping[str, Any] | Sequence[Mapping[str, Any]]

# Databases limit how many values one statement may carry.
MAX_VALUES_PER_STATEMENT = 400


def batches(values: Iterable[T]) -> Iterator[list[T]]:
    """Yield the values in lists that fit into one statement each."""
    left = iter(values)
    while batch := list(islice(left, MAX_VALUES_PER_STATEMENT)):
        yield batch


class Transaction:
    """What can be done between the begin and the end of a block."""

    def __init__(
        self, place: Place, connection: Connection, clock: Callable[[], datetime], *, reading: bool
    ) -> None:
        self.reading = reading
        self._place = place
        self._connection = connection
        self._clock = clock
        self._now: datetime | None = None
        self._process = os.getpid()
        self._closed = False
        self.failure: Exception | None = None
        self._afterwards: list[Callable[[], None]] = []

    @property
    def on_postgres(self) -> bool:
        """Which dialect statements are for, where that matters."""
        return isinstance(self._place, PostgresPlace)

    def execute(self, statement: Executable, values: Values | None = None) -> CursorResult[Any]:
        """Run a statement of SQLAlchemy Core."""
        return self._run(lambda: self._connection.execute(statement, values))

    def constant(self, sql: str, values: Sequence[Any] = ()) -> CursorResult[Any]:
        """Run a constant statement straight through the driver; `?` marks a value.

        For hot paths only: it saves building and compiling, and gives up their checks.
        """
        if self.on_postgres:
            sql = _for_psycopg(sql)
        return self._run(lambda: self._connection.exec_driver_sql(sql, tuple(values)))

    def now(self) -> datetime:
        """This transaction's one moment, by the server's clock or the injected one."""
        if self._now is None:
            self._require_open()
            moment = self._clock()
            # As precise as it is stored, so that a moment compares equal to its own stamp.
            self._now = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        return self._now

    def stamp(self) -> str:
        """This transaction's moment as stored."""
        return stamp(self.now())

    def after_commit(self, act: Callable[[], None]) -> None:
        """Do this when all of it is stored, and not at all if it is undone. For counting."""
        self._afterwards.append(act)

    def committed(self) -> None:
        """It is stored."""
        for act in self._afterwards:
            act()

    def close(self) -> None:
        """The block is over; whoever kept this object must not use it."""
        self._closed = True

    def inherited(self) -> bool:
        """Whether this is a forked child's copy of its parent's transaction."""
        return self._process != os.getpid()

    def _run(self, action: Callable[[], CursorResult[Any]]) -> CursorResult[Any]:
        self._require_open()
        try:
            with translated(self._place, reading=self.reading):
                return action()
        except Exception as error:
            # Some errors end SQLite's transaction unasked: going on would commit piece by piece.
            self.failure = self.failure or error
            raise

    def _require_open(self) -> None:
        if self._closed:
            raise RuntimeError("this transaction is over: its block has ended")
        if self.inherited():
            raise RuntimeError("this transaction belongs to the parent process")
        if self.failure is not None:
            raise RuntimeError("a statement failed in this transaction: leave its block")


@cache
def _for_psycopg(sql: str) -> str:
    if "%" in sql:
        raise ValueError("constant statements contain no %, which psycopg would read as a value")
    return sql.replace("?", "%s")

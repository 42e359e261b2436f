"""Hears other processes' commits on PostgreSQL: one connection and thread, once somebody waits."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hostler.store.place import PostgresPlace

if TYPE_CHECKING:
    import psycopg

CHANNEL = "hostler_changes"
LISTEN = f"LISTEN {CHANNEL}"


class Listener:
    """Counts notifications that are not our own."""

    def __init__(
        self, place: PostgresPlace, me: Callable[[], str], tell: Callable[[], None]
    ) -> None:
        self._place = place
        self._me = me
        self._tell = tell
        self._guard = threading.Lock()
        self._ear: _Ear | None = None
        self._heard = 0

    def heard(self) -> int:
        """How many so far; counting begins with the first call."""
        with self._guard:
            if self._ear is None or not self._ear.is_alive():
                # Forget it first: connecting again may fail, and it must be stopped only once.
                ended, self._ear = self._ear, None
                if ended is not None:
                    ended.stop()
                # What was said while nobody listened is unknown, so it counts as one.
                self._heard += 1
                self._ear = _Ear(self._place, self._hear, self._tell)
                self._ear.start()
            return self._heard

    def close(self) -> None:
        """Stop listening."""
        with self._guard:
            ear, self._ear = self._ear, None
        if ear is not None:
            ear.stop()

    def _hear(self, payload: bytes) -> None:
        if payload != self._me().encode():
            with self._guard:
                self._heard += 1
            self._tell()


class _Ear(threading.Thread):
    """Sleeps on the connection's socket, and on a pipe by which it is told to stop."""

    def __init__(
        self, place: PostgresPlace, hear: Callable[[bytes], None], lost: Callable[[], None]
    ) -> None:
        super().__init__(name="hostler-listener", daemon=True)
        self._hear = hear
        self._lost = lost
        # Before the thread starts: who asks for a mark must be heard from then on.
        self._connection = _connect(place)
        self._stop_reader, self._stop_writer = os.pipe()

    def run(self) -> None:
        import psycopg

        try:
            while self._wait():
                self._receive()
        except psycopg.Error:
            # The server is gone: waiters look, and whoever listens next connects anew.
            pass
        finally:
            self._connection.close()
            os.close(self._stop_reader)
        self._lost()

    def stop(self) -> None:
        """End the thread and its connection."""
        os.close(self._stop_writer)
        self.join()

    def _wait(self) -> bool:
        poll = select.poll()
        for descriptor in (self._connection.pgconn.socket, self._stop_reader):
            poll.register(descriptor, select.POLLIN)
        return self._stop_reader not in dict(poll.poll())

    def _receive(self) -> None:
        pgconn: Any = self._connection.pgconn
        pgconn.consume_input()
        while (notify := pgconn.notifies()) is not None:
            self._hear(notify.extra)


def _connect(place: PostgresPlace) -> psycopg.Connection[Any]:
    import psycopg
    from sqlalchemy import exc

    try:
        connection = psycopg.connect(place.bounded(), autocommit=True)
        connection.execute(LISTEN)
    except psycopg.Error as error:
        # Into the wrapper that all other errors of the driver come in.
        raise exc.DBAPIError.instance(LISTEN, None, error, psycopg.Error) from error
    return connection

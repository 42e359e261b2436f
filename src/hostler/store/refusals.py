"""Why a PostgreSQL server would not have us: down, a wrong password, or no such database.

libpq gives no code for a failed connection, only words, so we ask the server again.
"""

from __future__ import annotations

from hostler.errors import StoreError, StoreMissing, StoreUnreachable
from hostler.store.place import PostgresPlace
from hostler.store.translate import first_line

_NOTHING = "Nothing was written, unless the connection broke during a commit."


def explain(place: PostgresPlace, cause: BaseException) -> StoreError:
    """The error that says what is the matter and what to do."""
    from psycopg import pq

    words = first_line(cause)
    if pq.PGconn.ping(place.bounded().encode()) != pq.Ping.OK:
        return StoreUnreachable(
            f"The PostgreSQL server at {place} does not answer: {words}",
            safe=_NOTHING,
            remedy="Start it, or look at host and port in the database URL.",
        )
    if _lacks_the_database(place):
        return StoreMissing(
            f"The PostgreSQL server has no database called {place.database!r}.",
            safe="Nothing was touched.",
            remedy=f"Create it with `createdb {place.database}`, then run `hostler db upgrade`.",
        )
    if _wants_a_password(cause):
        return StoreUnreachable(
            f"The PostgreSQL server at {place} does not accept our password: {words}",
            safe=_NOTHING,
            remedy="Give the right one in PGPASSFILE or PGPASSWORD, never in the URL.",
        )
    return StoreUnreachable(
        f"The PostgreSQL server at {place} refuses us: {words}",
        safe=_NOTHING,
        remedy="Look at the server's log, and at user and database in the URL.",
    )


def _wants_a_password(cause: object) -> bool:
    connection = getattr(cause, "pgconn", None)
    return connection is not None and bool(connection.needs_password or connection.used_password)


def _lacks_the_database(place: PostgresPlace) -> bool:
    import psycopg

    # `postgres` is there on every server for exactly such questions.
    try:
        with psycopg.connect(place.bounded(database="postgres")) as connection:
            found = connection.execute(
                "SELECT 1 FROM pg_database WHERE datname = %s", (place.database,)
            ).fetchone()
    except psycopg.Error:
        return False
    return found is None

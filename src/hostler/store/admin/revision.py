"""The schema revision of a database, and which ones this program can use."""

from __future__ import annotations

from sqlalchemy import Connection, inspect

from hostler.errors import StoreCorrupt, StoreError, StoreNewer, StoreOutdated
from hostler.store.engine.backend import Place
from hostler.store.engine.errors import missing

# All schema revisions, oldest first; the last is this program's. A test compares them with the
# migrations.
REVISIONS = ("0001",)
HEAD = REVISIONS[-1]
# Alembic's record of the revision.
READ_REVISION = "SELECT version_num FROM alembic_version"


def read_revision(connection: Connection, place: Place) -> str | None:
    """Return the revision noted in the database; None if it is empty."""
    tables = set(inspect(connection).get_table_names())
    if not tables:
        return None
    if "alembic_version" not in tables:
        raise StoreError(
            f"The database {place} has tables, but not those of Hostler.",
            safe="Nothing was touched.",
            remedy="Use another home or database.",
        )
    return one_revision([str(row[0]) for row in connection.exec_driver_sql(READ_REVISION)], place)


def one_revision(found: list[str], place: Place) -> str | None:
    """Return the one revision that a database notes; None if it notes none."""
    if len(found) > 1:
        raise StoreCorrupt(
            f"The database {place} notes {len(found)} layouts ({', '.join(sorted(found))}), "
            "and can have only one.",
            safe="Nothing was touched.",
            remedy="Go back to a backup with `hostler db restore FILE`.",
        )
    return found[0] if found else None


def require_head(found: str | None, place: Place) -> None:
    """Raise unless the database has this program's schema."""
    if found is None:
        raise missing(place)
    require_known(found, place)
    if found != HEAD:
        raise StoreOutdated(
            f"The database {place} has layout {found}; this program needs {HEAD}.",
            safe="The data is as it was.",
            remedy="Run: hostler db upgrade",
        )


def require_known(found: str, place: Place) -> None:
    """Raise if a newer program created the database."""
    if found not in REVISIONS:
        raise StoreNewer(
            f"The database {place} has layout {found}; this program knows up to {HEAD}.",
            safe="The data is as it was.",
            remedy="Use the newer Hostler, or restore a backup from before its upgrade.",
        )

"""Which tables of a database are ours; a newer program may have made more than we know of."""

from __future__ import annotations

from sqlalchemy import Connection, inspect

from hostler.errors import StoreNewer
from hostler.store.meta import noted_tables
from hostler.store.place import Place, PostgresPlace
from hostler.store.postgres import make_engine
from hostler.store.revision import REVISIONS, read_revision
from hostler.store.tables import metadata
from hostler.store.translate import translated
from hostler.store.writers import Patience

VERSION_TABLE = "alembic_version"


def owned_on_server(place: PostgresPlace, patience: Patience) -> list[str]:
    """Our tables on a server; none where the database is empty. Raises where that is unknown."""
    engine = make_engine(place, patience)
    try:
        # A transaction of its own: its locks must be gone before anybody drops a table.
        with translated(place, reading=True), engine.connect() as connection:
            return owned_tables(connection, place)
    finally:
        engine.dispose()


def owned_tables(connection: Connection, place: Place) -> list[str]:
    """Our tables, in the order of their names."""
    revision = read_revision(connection, place)
    if revision is None:
        return []
    noted = noted_tables(connection)
    if revision not in REVISIONS and not noted:
        raise StoreNewer(
            f"The database {place} has layout {revision}, which this program does not know, "
            "and does not say which tables belong to it.",
            safe="Nothing was touched: a copy could have lacked some of them.",
            remedy="Use the newer Hostler for this.",
        )
    present = set(inspect(connection).get_table_names())
    return sorted(present & {*noted, *metadata.tables, VERSION_TABLE})

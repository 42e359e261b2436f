"""Whether a database has exactly the tables that this program expects."""

from __future__ import annotations

import re
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, inspect

from hostler.store.tables import metadata


def differences(connection: Connection) -> list[str]:
    """Every difference in a line of its own; none for a database as it should be."""
    context = MigrationContext.configure(
        connection,
        opts={"compare_type": True, "compare_server_default": _default_differs},
    )
    found = [_words(difference) for difference in compare_metadata(context, metadata)]
    return found or _other_keys(connection)


def _words(difference: Any) -> str:
    # A changed column comes as a list of changes, everything else as one tuple.
    change = difference[0] if isinstance(difference, list) else difference
    return " ".join(str(part) for part in change if part is not None)


def _default_differs(
    _context: Any, _found: Any, _expected: Any, found: str | None, _text: Any, expected: str | None
) -> bool:
    return _plain(found) != _plain(expected)


def _plain(default: str | None) -> str:
    """A default without what PostgreSQL adds when it prints one: casts, brackets, quotes."""
    return re.sub(r"::\w+|[\s()'\"]", "", default or "").lower()


def _other_keys(connection: Connection) -> list[str]:
    """Primary keys that differ, which Alembic does not compare."""
    inspector = inspect(connection)
    return [
        f"primary key of {table.name}"
        for table in metadata.sorted_tables
        if inspector.get_pk_constraint(table.name)["constrained_columns"]
        != [column.name for column in table.primary_key]
    ]

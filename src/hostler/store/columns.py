"""Column types and defaults that mean the same on both databases.

Migrations rely on them, so they only grow.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Integer, Text, text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

# GitHub's ids outgrew 32 bits, which is all that INTEGER has on PostgreSQL.
BIG = BigInteger().with_variant(Integer, "sqlite")
EMPTY = text("''")
ZERO = text("0")


class StampNow(FunctionElement[str]):
    """This moment as stored text, said by the database."""

    type = Text()
    name = "stamp_now"
    inherit_cache = True


@compiles(StampNow, "sqlite")
def _sqlite(_element: StampNow, _compiler: Any, **_options: Any) -> str:
    return "strftime('%Y-%m-%dT%H:%M:%fZ','now')"


@compiles(StampNow, "postgresql")
def _postgresql(_element: StampNow, _compiler: Any, **_options: Any) -> str:
    return "to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"

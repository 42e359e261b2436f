"""Statements compiled once for all stores of a process: a short life is half spent on that."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, create_engine

from hostler.store.engine import sqlite

# More than the program has; what is thrown out would be compiled again.
MANY = 5000


def share_statements() -> None:
    """From now on, all engines of this process and of its forks share what is compiled."""
    warm = create_engine("sqlite://", query_cache_size=MANY)
    warm.connect().close()

    def make(*given: Any, **named: Any) -> Engine:
        made = create_engine(*given, **named)
        # What is compiled is kept by dialect.
        made.dialect, made._compiled_cache = warm.dialect, warm._compiled_cache
        return made

    sqlite.create_engine = make

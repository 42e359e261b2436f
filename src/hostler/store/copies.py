"""Copies of a SQLite database, made by SQLite: nothing here opens the database file itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from hostler.store.parts import part_of
from hostler.store.place import SqlitePlace
from hostler.store.sqlite import connect
from hostler.store.translate import translated

# Told of pages done and pages in all.
Progress = Callable[[int, int], None]
_PAGES_PER_STEP = 4096
_COPY_TIMEOUT = 5.0


def copy_database(source: SqlitePlace, target: Path, progress: Progress, *, mode: str) -> None:
    """Write one moment of a database into a new file, which appears only when it is whole."""
    with (
        translated(source),
        closing(connect(source.path, mode, _COPY_TIMEOUT)) as origin,
        part_of(target) as part,
        translated(SqlitePlace(target)),
        closing(connect(part, "rw", _COPY_TIMEOUT)) as copy,
    ):
        _pin(origin)
        _copy(origin, copy, progress)


def _pin(origin: sqlite3.Connection) -> None:
    # Reading pins one moment: writers go on, and the copy need not start again for them.
    origin.execute("BEGIN")
    origin.execute("SELECT count(*) FROM sqlite_master").fetchone()


def _copy(origin: sqlite3.Connection, copy: sqlite3.Connection, progress: Progress) -> None:
    origin.backup(
        copy,
        pages=_PAGES_PER_STEP,
        progress=lambda _status, left, total: progress(total - left, total),
        sleep=0,
    )
    # One file alone: a copy that needs its -wal beside it is easily torn apart.
    copy.execute("PRAGMA journal_mode=DELETE")

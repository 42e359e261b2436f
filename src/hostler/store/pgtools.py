"""PostgreSQL's own programs for dumps; they find the password as libpq does."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from hostler.errors import StoreError
from hostler.store.parts import part_of
from hostler.store.place import PostgresPlace

# How long a dump or a restore waits for tables that others use.
LOCK_MILLISECONDS = 15_000


def find_tool(name: str) -> str | None:
    """A program of PostgreSQL: on the path, or where Debian keeps the newest one."""
    found = shutil.which(name)
    if found:
        return found
    beside = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    return str(beside[0]) if beside else None


def dump(place: PostgresPlace, target: Path, tables: Sequence[str]) -> None:
    """Write one moment of the tables into a new file, which appears only when it is whole."""
    if find_tool("pg_dump") is None:
        raise StoreError(
            "No backup can be taken: pg_dump is not installed.",
            safe="Nothing was touched.",
            remedy="Install PostgreSQL's client programs, or take a backup of your own "
            "and say --no-backup.",
        )
    # Quoted, or it would be a pattern.
    which = [f'--table="{name}"' for name in tables]
    how = ("--format=custom", "--no-owner", f"--lock-wait-timeout={LOCK_MILLISECONDS}")
    with part_of(target) as part:
        _run("pg_dump", *how, f"--file={part}", *which, _at(place))


def revisions_in(file: Path) -> list[str]:
    """The layouts that a dump notes, which should be one; fails on what is not a dump."""
    only = ("--data-only", "--table=alembic_version", "--file=-")
    lines = iter(_run("pg_restore", *only, str(file)).splitlines())
    if not any(line.startswith("COPY ") and "alembic_version" in line for line in lines):
        return []
    return [line.strip() for line in takewhile(lambda line: line != "\\.", lines)]


def undump(place: PostgresPlace, file: Path, tables: Sequence[str]) -> None:
    """Put a dump in place of the tables, in one transaction."""
    script = _run("pg_restore", "--no-owner", "--file=-", str(file))
    # All of ours, not only those in the dump: an older one has fewer.
    names = ", ".join(f'"{name}"' for name in tables)
    drop = [f"--command=DROP TABLE IF EXISTS {names}"] if tables else []
    how = ("--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1", _at(place))
    _run("psql", *how, *drop, "--file=-", stdin=script)


def _at(place: PostgresPlace) -> str:
    return f"--dbname={place.bounded(LOCK_MILLISECONDS)}"


def _run(name: str, *argv: str, stdin: str = "") -> str:
    tool = find_tool(name)
    if tool is None:
        raise StoreError(
            f"{name} is not installed.",
            safe="Nothing was touched.",
            remedy="Install PostgreSQL's client programs.",
        )
    # Without a terminal to ask on, a missing password is an error and not a silent wait.
    quiet = [] if name == "pg_restore" else ["--no-password"]
    done = subprocess.run(
        [tool, *quiet, *argv], capture_output=True, text=True, check=False, input=stdin
    )
    if done.returncode:
        words = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        raise StoreError(f"{name} failed: {words}", safe="Nothing was changed.")
    return done.stdout

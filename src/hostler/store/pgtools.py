"""PostgreSQL's own programs for dumps; they find the password as libpq does."""

from __future__ import annotations

import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

from hostler.errors import StoreError
from hostler.store.place import PostgresPlace


def find_tool(name: str) -> str | None:
    """A program of PostgreSQL: on the path, or where Debian keeps the newest one."""
    found = shutil.which(name)
    if found:
        return found
    beside = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    return str(beside[0]) if beside else None


def dump(place: PostgresPlace, target: Path) -> None:
    """Write one moment of a database into a new file, which appears only when it is whole."""
    tool = find_tool("pg_dump")
    if tool is None:
        raise StoreError(
            "No backup can be taken: pg_dump is not installed.",
            safe="Nothing was touched.",
            todo="Install PostgreSQL's client programs, or take a backup of your own "
            "and say --no-backup.",
        )
    part = target.with_name(target.name + ".part")
    try:
        _run(tool, "--format=custom", "--no-owner", f"--file={part}", f"--dbname={place.conninfo}")
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def revision_in(file: Path) -> str | None:
    """The layout that a dump was taken from; fails on what is not a dump."""
    text = _run(
        _pg_restore(), "--data-only", "--table=alembic_version", "--file=-", str(file)
    ).splitlines()
    for line, following in pairwise(text):
        if line.startswith("COPY ") and "alembic_version" in line:
            return following.strip()
    return None


def undump(place: PostgresPlace, file: Path) -> None:
    """Put a dump in place of what the database holds, in one transaction."""
    _run(
        _pg_restore(),
        "--clean",
        "--if-exists",
        "--no-owner",
        "--single-transaction",
        f"--dbname={place.conninfo}",
        str(file),
    )


def _pg_restore() -> str:
    tool = find_tool("pg_restore")
    if tool is None:
        raise StoreError(
            "pg_restore is not installed.",
            safe="Nothing was touched.",
            todo="Install PostgreSQL's client programs.",
        )
    return tool


def _run(*argv: str) -> str:
    # Without a terminal to ask on, a missing password is an error and not a silent wait.
    done = subprocess.run(
        [*argv[:1], "--no-password", *argv[1:]],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        words = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        raise StoreError(f"{Path(argv[0]).name} failed: {words}", safe="Nothing was changed.")
    return done.stdout

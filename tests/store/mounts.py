"""Small real file systems, so that full and read-only disks are real."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from missing_tools import skip_without


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of the given size at a folder; skips where we may not mount."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = done.stderr.strip() or "refused"
        skip_without("root", f"cannot mount a small disk ({reason})")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The mounted folder, made read-only for a while."""
    # As a bind mount: its own options name users that a user namespace may not know.
    subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["mount", "-o", "remount,bind,rw", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Use up all space that is left."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for block in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * block)
            except OSError:
                continue
    return filler


def empty_wal(database: Path) -> None:
    """Truncate the WAL of a SQLite database: room inside it would take writes on a full disk."""
    with closing(sqlite3.connect(database, timeout=60)) as connection:
        (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert not busy, "somebody reads or writes without a pause"

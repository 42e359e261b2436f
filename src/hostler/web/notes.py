"""Where the API of a home answers: a note in the home, as long as it does."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from hostler import __version__
from hostler.store.engine.locks import part_of

FILE_NAME = "web.json"


@dataclass(frozen=True, slots=True)
class Note:
    """An address, the process that answers there, and its version."""

    url: str
    pid: int
    version: str


@contextmanager
def noted(home: Path, url: str) -> Iterator[None]:
    """Say where it is, for the length of a block."""
    path, mine = home / FILE_NAME, Note(url, os.getpid(), __version__)
    with part_of(path) as part:
        part.write_text(json.dumps(asdict(mine)), encoding="utf-8")
    try:
        yield
    finally:
        if _read(path) == mine:
            path.unlink(missing_ok=True)


def known_note(home: Path) -> Note | None:
    """What a process that lives said of itself; None: nobody did, or it is gone."""
    found = _read(home / FILE_NAME)
    return found if found and Path(f"/proc/{found.pid}").exists() else None


def known_url(home: Path) -> str:
    """Where an API of this home answers, by its own word; empty: nobody said so."""
    found = known_note(home)
    return found.url if found else ""


def _read(path: Path) -> Note | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Note(str(found["url"]), int(found["pid"]), str(found.get("version", "")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None

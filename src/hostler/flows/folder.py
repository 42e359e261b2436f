"""How far the work in a folder of the user's is: a word that changes when the files do."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

# More files than this are not looked at: what changed among them may go unseen.
MOST_FILES = 20_000
# Git's own store changes without any work; its HEAD and refs change with commits.
_NOT_WORK = frozenset({"objects", "lfs", "hooks"})


def footprint(folder: Path) -> str:
    """A digest of names, sizes and times. Reads no file; empty where there is no folder."""
    if not folder.is_dir():
        return ""
    digest = hashlib.sha256()
    for line in islice(_files(str(folder)), MOST_FILES):
        digest.update(line.encode("utf-8", "surrogateescape") + b"\0")
    return digest.hexdigest()[:24]


def _files(folder: str) -> Iterator[str]:
    """Every file below, in the order of names; links are not followed."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                if not (entry.name in _NOT_WORK and folder.endswith("/.git")):
                    yield from _files(entry.path)
                continue
            found = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        yield f"{entry.path} {found.st_size} {found.st_mtime_ns}"

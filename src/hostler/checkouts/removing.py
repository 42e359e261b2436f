"""Deleting a folder that an agent could write, without leaving it."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from pathlib import Path
from uuid import uuid4


def remove_folder(path: Path) -> None:
    """Rename it away, then delete it: cut off in between, its name is free already."""
    if not os.path.lexists(path):
        return
    trash = path.with_name(f".{path.name.lstrip('.')}.{uuid4().hex}.trash")
    path.rename(trash)
    empty_trash(path.parent)


def empty_trash(folder: Path) -> None:
    """Delete what was renamed away, also by a process that was killed."""
    for trash in folder.glob(".*.trash"):
        if trash.is_symlink() or not trash.is_dir():
            trash.unlink(missing_ok=True)
            continue
        _make_writable(trash)
        shutil.rmtree(trash, ignore_errors=True)


def _make_writable(folder: Path) -> None:
    """Tools leave folders that nobody may write; links are not followed."""
    for _, folders, _, here in os.fwalk(folder, follow_symlinks=False):
        os.fchmod(here, stat.S_IRWXU)
        for name in folders:
            with contextlib.suppress(OSError):
                if stat.S_ISDIR(os.lstat(name, dir_fd=here).st_mode):
                    os.chmod(name, stat.S_IRWXU, dir_fd=here)

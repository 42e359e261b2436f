"""Measure, list and remove folders below the home without following links."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from uuid import uuid4

from hostler.checkouts.agent_folder import empty_trash
from hostler.service.context import StepHook, ignore_step

TRASH_PATTERN = ".*.trash"


def is_inside_home(home: Path, path: Path) -> bool:
    """Return True if no link on the way to a path leaves the home: agents can create links."""
    try:
        steps = path.parent.relative_to(home)
        return path.parent.resolve(strict=True) == home.resolve(strict=True) / steps
    except (OSError, ValueError):
        return False


def exists(path: Path) -> bool:
    """Return True if a path exists, even as a broken link."""
    return os.path.lexists(path)


def measure_size(path: Path) -> int:
    """Return the bytes of a folder or file; unreadable files count as 0."""
    if not path.is_dir() or path.is_symlink():
        return _file_size(path)
    return sum(
        _file_size(Path(folder, name)) for folder, _, names in os.walk(path) for name in names
    )


def _file_size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def list_folder(folder: Path) -> list[Path]:
    """Return the visible entries of a folder by name; none if it does not exist."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []


def clear_trash(home: Path, folders: Iterator[Path]) -> None:
    """Delete folders that a killed collection had renamed."""
    for folder in folders:
        if is_inside_home(home, folder / "any") and any(folder.glob(TRASH_PATTERN)):
            _empty_trash(folder)


def _empty_trash(folder: Path) -> None:
    # Another collection may delete the same; the next one removes the rest.
    with suppress(FileNotFoundError):
        empty_trash(folder)


class TrashBin:
    """Folders that are renamed inside a transaction and deleted at the end of the block."""

    def __init__(self, home: Path, observe: StepHook = ignore_step) -> None:
        self._home = home
        self._observe = observe
        self._parents: set[Path] = set()

    def __enter__(self) -> TrashBin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        # Also after an error: renamed folders were found removable.
        for parent in sorted(self._parents):
            _empty_trash(parent)
            self._observe("deleted", str(parent))

    def take(self, path: Path) -> bool:
        """Rename a folder. Return False if a link leads elsewhere or the system denies it."""
        if not exists(path):
            return True
        if not is_inside_home(self._home, path):
            return False
        try:
            path.rename(path.with_name(f".{path.name.lstrip('.')}.{uuid4().hex}.trash"))
        except FileNotFoundError:
            return True  # another process removed it
        except OSError:
            return False
        self._parents.add(path.parent)
        self._observe("aside", path.name)
        return True

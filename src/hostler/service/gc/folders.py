"""Measure, list and remove folders below the home without following links."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from uuid import uuid4

from hostler.checkouts.agent_folder import empty_trash
from hostler.service.context import StepObserver, ignore_step

TRASH_PATTERN = ".*.trash"


def is_inside_home(home: Path, path: Path) -> bool:
    """Whether no link leads away from the home on the way to a path: agents can make some."""
    try:
        steps = path.parent.relative_to(home)
        return path.parent.resolve(strict=True) == home.resolve(strict=True) / steps
    except (OSError, ValueError):
        return False


def exists(path: Path) -> bool:
    """Whether something has this name, be it a link that leads nowhere."""
    return os.path.lexists(path)


def measure_size(path: Path) -> int:
    """Bytes of everything below a folder, or of a file; what cannot be read counts as nothing."""
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
    """What is in a folder, by name, without what is hidden; nothing where there is none."""
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []


def clear_trash(home: Path, folders: Iterator[Path]) -> None:
    """Delete what a gc that was killed has renamed away."""
    for folder in folders:
        if is_inside_home(home, folder / "any") and any(folder.glob(TRASH_PATTERN)):
            _empty_trash(folder)


def _empty_trash(folder: Path) -> None:
    # Another round may delete the same at this moment; what is left is left for the next.
    with suppress(FileNotFoundError):
        empty_trash(folder)


class TrashBin:
    """Folders renamed away inside a transaction, and deleted at the end of the block."""

    def __init__(self, home: Path, observe: StepObserver = ignore_step) -> None:
        self._home = home
        self._observe = observe
        self._parents: set[Path] = set()

    def __enter__(self) -> TrashBin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        # Also after an error: what was renamed was found fit to go, and nobody looks at it again.
        for parent in sorted(self._parents):
            _empty_trash(parent)
            self._observe("deleted", str(parent))

    def take(self, path: Path) -> bool:
        """Rename a folder away; False: it is not where it seems to be, or the system refuses."""
        if not exists(path):
            return True
        if not is_inside_home(self._home, path):
            return False
        try:
            path.rename(path.with_name(f".{path.name.lstrip('.')}.{uuid4().hex}.trash"))
        except FileNotFoundError:
            return True  # somebody else was faster
        except OSError:
            return False
        self._parents.add(path.parent)
        self._observe("aside", path.name)
        return True

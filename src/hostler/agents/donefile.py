"""The DONE marker: a file in the task's folder that says that there is nothing left to do."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from hostler.agents.plainfile import kind_of

FILE_NAME = "DONE"


@dataclass(frozen=True, slots=True)
class Done:
    """Whether the marker is there; `wrong` is a sentence where something else is in its place."""

    marked: bool = False
    wrong: str = ""


def read_done(path: Path) -> Done:
    """Look at the marker without following or opening it."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return Done()
    except OSError as error:
        return Done(wrong=f"DONE cannot be looked at: {error.strerror}.")
    if stat.S_ISREG(mode):
        return Done(marked=True)
    found = "a symbolic link" if stat.S_ISLNK(mode) else kind_of(mode)
    return Done(wrong=f"DONE must be a regular file; it is {found}.")


def write_done(path: Path) -> None:
    """Set the marker; once set it stays as it is."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    os.close(os.open(path, flags, 0o600))

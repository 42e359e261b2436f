"""The kernel's word that something changed in a folder. Linux only; Python does not offer it."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

_MODIFY, _MOVED_TO, _CREATE = 0x2, 0x80, 0x100
_DELETE_SELF, _MOVE_SELF, _IGNORED = 0x400, 0x800, 0x8000
_ONLY_FOLDERS = 0x01000000
_MASK = _MODIFY | _MOVED_TO | _CREATE | _DELETE_SELF | _MOVE_SELF | _ONLY_FOLDERS
# Beside what is watched there already: names that appear.
_ABOVE = _MOVED_TO | _CREATE | _ONLY_FOLDERS | 0x20000000
_GONE = _DELETE_SELF | _MOVE_SELF | _IGNORED
_EVENT = struct.Struct("iIII")
_ROOM = 64 * 1024


class Inotify:
    """One queue of events for any number of folders. OSError where there is no such thing."""

    def __init__(self) -> None:
        try:
            self._libc = ctypes.CDLL(None, use_errno=True)
            descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except AttributeError as error:
            raise OSError(0, "this system has no inotify") from error
        if descriptor < 0:
            raise _error()
        self._file = os.fdopen(descriptor, "rb", buffering=0)
        self._folders: dict[int, Path] = {}

    def fileno(self) -> int:
        """What to wait for."""
        return self._file.fileno()

    def close(self) -> None:
        """Let go of all folders."""
        self._file.close()

    def add(self, folder: Path) -> None:
        """Tell of changes in this folder from now on."""
        self._folders[self._added(folder, _MASK)] = folder

    def add_above(self, folder: Path) -> None:
        """Tell of names that appear in this folder; that it goes is no news."""
        self._added(folder, _ABOVE)

    def _added(self, folder: Path, mask: int) -> int:
        watched: int = self._libc.inotify_add_watch(self.fileno(), os.fsencode(folder), mask)
        if watched < 0:
            raise _error()
        return watched

    def gone(self) -> list[Path]:
        """Empty the queue; the folders that cannot be watched any more, as they went or moved."""
        try:
            data = self._file.read(_ROOM) or b""
        except OSError:
            return []
        lost: list[Path] = []
        while data:
            watched, mask, _, length = _EVENT.unpack_from(data)
            data = data[_EVENT.size + length :]
            if mask & _GONE and watched in self._folders:
                lost.append(self._folders.pop(watched))
        return lost


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))

"""Changing a settings file on disk: whole or not at all, through links, with its mode kept.

Its folder is locked meanwhile, so that two of us do not undo each other. An editor knows nothing
of that lock; what it saved in between is noticed right before the file is replaced.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hostler.clock import Clock
from hostler.config.load import understand
from hostler.errors import HostlerError

# A change takes milliseconds; who waits longer waits for somebody who is stuck.
PATIENCE_SECONDS = 10.0
_NAP_SECONDS = 0.05
_SAFE = "The file is as it was."
_MARK = b"\xef\xbb\xbf"


Edit = Callable[[str], str]


def preview(path: Path, edit: Edit) -> None:
    """Raise what `rewrite` would raise about the text; nothing is written."""
    with _told(path):
        _edited(path.read_bytes(), path, edit)


def rewrite(path: Path, edit: Edit, clock: Clock) -> bool:
    """Give the file the text that `edit` makes of its text, if that has no mistakes.

    Whether anything changed. The text comes without a byte order mark, which is kept.
    """
    with _told(path):
        path.stat()  # a link that leads nowhere, or in a circle, is told here
        real = path.resolve()
        with _locked(real.parent, clock):
            return _rewrite(real, path, edit)


def _rewrite(real: Path, shown: Path, edit: Edit) -> bool:
    before = real.read_bytes()
    after = _edited(before, shown, edit)
    if after == before:
        return False
    if not os.access(real, os.W_OK):
        raise PermissionError(13, "it is read-only", str(real))
    draft = _draft(real, after)
    try:
        if real.read_bytes() != before:
            raise HostlerError(
                f"{shown} was changed by somebody else at this moment.",
                safe="What they wrote is kept.",
                remedy="Run the command again.",
            )
        draft.replace(real)
        _sync(real.parent)
    finally:
        draft.unlink(missing_ok=True)
    return True


def _edited(before: bytes, shown: Path, edit: Edit) -> bytes:
    """The new content, free of mistakes."""
    mark = _MARK if before.startswith(_MARK) else b""
    try:
        text = before.removeprefix(mark).decode()
    except UnicodeDecodeError as error:
        raise HostlerError(f"{shown} is not text in UTF-8.", safe=_SAFE) from error
    new = edit(text)
    understand(new, shown)
    return mark + new.encode()


def _draft(real: Path, content: bytes) -> Path:
    """The new content beside the old file, safe on disk, with its mode and owner."""
    # One name for all: under the lock, what lies there is what a killed one left.
    draft = real.with_name(f".{real.name}.hostler-new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            old = real.stat()
            file.write(content)
            file.flush()
            with suppress(PermissionError):  # only root gives files away
                os.fchown(descriptor, old.st_uid, old.st_gid)
            os.fchmod(descriptor, old.st_mode & 0o7777)
            os.fsync(descriptor)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HostlerError(
            f"{path} could not be changed: {error.strerror}.",
            safe=_SAFE,
            remedy="Look at the owner, permissions and mount of the file and its folder.",
        ) from error


@contextmanager
def _locked(folder: Path, clock: Clock) -> Iterator[None]:
    """The folder itself is locked: no file is left behind by that."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _wait_for(descriptor, folder, clock)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, folder: Path, clock: Clock) -> None:
    end = clock.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if clock.monotonic() >= end:
                raise HostlerError(
                    f"Another process keeps changing the settings in {folder}.",
                    safe=_SAFE,
                    remedy="Wait until it has ended, and run the command again.",
                ) from None
            clock.wakeup().wait(_NAP_SECONDS)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

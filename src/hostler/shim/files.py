"""Files that are whole or not there. They are versioned: shims outlive upgrades."""
# ruff: noqa: PTH104, PTH108, PTH120
# (Importing pathlib would cost more than all of the shim.)

from __future__ import annotations

import errno
import json
import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION = 1
SPEC, SHIM, STOP, EXIT = "spec.json", "shim.json", "stop.json", "exit.json"
LARGEST = 8 << 20
# Room for the last word, whose free texts are cut to LONGEST_TEXT.
RESERVED = 16384
LONGEST_TEXT = 500


class Unreadable(Exception):
    """A file is there, but it is not a JSON object of a version that we know."""


def read(path: str) -> dict[str, object] | None:
    """The JSON object in a file; None where there is no file."""
    try:
        text = _bytes(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Unreadable(f"{path} is not a JSON object")
    if value.get("version", VERSION) != VERSION:
        raise Unreadable(f"{path} has version {value['version']!r}, we know {VERSION}")
    return value


def _bytes(path: str) -> bytes:
    # An agent may have put anything in this place: a FIFO must not make us wait.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable(f"{path} is not a regular file")
        if status.st_size > LARGEST:
            raise Unreadable(f"{path} is larger than {LARGEST} bytes")
        return file.read(LARGEST)


def text(value: Mapping[str, object]) -> str:
    """One line of JSON with our version."""
    return json.dumps({"version": VERSION, **value}) + "\n"


def write(path: str, value: Mapping[str, object]) -> None:
    """Replace a file as a whole, durably."""
    data = text(value).encode()
    descriptor = _scratch(path)
    try:
        done = 0
        while done < len(data):
            done += os.pwrite(descriptor, data[done:], done)
        os.ftruncate(descriptor, len(data))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(f"{path}.new", path)
    _sync_folder(path)


def reserve(path: str) -> None:
    """Set room aside for a file that will be written at the very end."""
    descriptor = _scratch(path)
    try:
        os.posix_fallocate(descriptor, 0, RESERVED)
    finally:
        os.close(descriptor)


def remove(*paths: str) -> None:
    """Take files away, as far as that can be done."""
    for path in paths:
        try:
            os.unlink(path)
        except OSError:
            continue


def _scratch(path: str) -> int:
    """Where a file is prepared; with the room that was set aside, if it was."""
    name = f"{path}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW
    try:
        descriptor = os.open(name, flags, 0o600)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise  # not in our way, but no room or no rights
    os.unlink(name)
    return os.open(name, flags | os.O_EXCL, 0o600)


def _sync_folder(path: str) -> None:
    descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def stamp(seconds: float) -> str:
    """A moment as stored everywhere: UTC, milliseconds, fixed width."""
    milliseconds = int(seconds * 1000)
    moment = time.gmtime(milliseconds // 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", moment) + f".{milliseconds % 1000:03d}Z"

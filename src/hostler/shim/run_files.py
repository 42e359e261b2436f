"""The JSON files of a run, written atomically and with a version, and the lock of the run."""
# ruff: noqa: PTH104, PTH108, PTH120
# pathlib and typing are not imported: they would take longer to load than all of the shim.

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


FILE_VERSION = 1
SPEC_FILE, SHIM_FILE, STOP_FILE, EXIT_FILE = "spec.json", "shim.json", "stop.json", "exit.json"
MAX_FILE_BYTES = 8 << 20
# Reserved for `exit.json`, whose free texts are cut to MAX_TEXT_LENGTH.
RESERVED_BYTES = 16384
MAX_TEXT_LENGTH = 500


class UnreadableRunFile(Exception):
    """A file exists, but it is not a JSON object of a known version."""


def read_json(path: str) -> dict[str, object] | None:
    """Return the JSON object in a file, or None if there is no file."""
    try:
        text = _read_bytes(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableRunFile(f"{path}: {error.strerror}") from None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableRunFile(f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UnreadableRunFile(f"{path} is not a JSON object")
    if value.get("version", FILE_VERSION) != FILE_VERSION:
        raise UnreadableRunFile(f"{path} has version {value['version']!r}, we know {FILE_VERSION}")
    return value


def _read_bytes(path: str) -> bytes:
    # An agent may have replaced the file with a FIFO, which must not block the shim.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableRunFile(f"{path} is not a regular file")
        if status.st_size > MAX_FILE_BYTES:
            raise UnreadableRunFile(f"{path} is larger than {MAX_FILE_BYTES} bytes")
        return file.read(MAX_FILE_BYTES)


def format_json(value: Mapping[str, object]) -> str:
    """Return one line of JSON with the format version."""
    return json.dumps({"version": FILE_VERSION, **value}) + "\n"


def write_json(path: str, value: Mapping[str, object]) -> None:
    """Replace a file atomically and durably."""
    data = format_json(value).encode()
    descriptor = _open_scratch(path)
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


def reserve_space(path: str) -> None:
    """Reserve disk space for a file that is written at the very end."""
    descriptor = _open_scratch(path)
    try:
        os.posix_fallocate(descriptor, 0, RESERVED_BYTES)
    finally:
        os.close(descriptor)


def remove_files(*paths: str) -> None:
    """Delete files; ignore errors."""
    for path in paths:
        try:
            os.unlink(path)
        except OSError:
            continue


def _open_scratch(path: str) -> int:
    """Open the temporary file for an atomic write, using the reserved space if there is any."""
    name = f"{path}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW
    try:
        descriptor = os.open(name, flags, 0o600)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise  # not in the way, but no space or no permission
    os.unlink(name)
    return os.open(name, flags | os.O_EXCL, 0o600)


def _sync_folder(path: str) -> None:
    descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def format_timestamp(seconds: float) -> str:
    """Return a timestamp in the common format: UTC, milliseconds, fixed width."""
    milliseconds = int(seconds * 1000)
    moment = time.gmtime(milliseconds // 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", moment) + f".{milliseconds % 1000:03d}Z"


LOCK_FILE = "run.lock"
# `is_locked` holds the lock for a moment: that is not another shim.
LOCK_TIMEOUT_SECONDS = 0.25


class RunTaken(Exception):
    """Another shim owns this run."""


def acquire_lock() -> int:
    """Take the run in this folder until the process ends: the descriptor is never closed."""
    descriptor = os.open(LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    until = time.monotonic() + LOCK_TIMEOUT_SECONDS
    while not _try_lock(descriptor, fcntl.LOCK_EX):
        if time.monotonic() >= until:
            os.close(descriptor)
            raise RunTaken
        time.sleep(0.01)
    return descriptor


def is_locked(folder: str | os.PathLike[str]) -> bool:
    """Return whether a shim is running for the run in `folder`."""
    try:
        descriptor = os.open(f"{os.fspath(folder)}/{LOCK_FILE}", os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        return not _try_lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

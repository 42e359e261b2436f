"""Read and write inside an agent's folder without ever following a link."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

from hostler.checkouts.disk import minding_space
from hostler.checkouts.errors import CheckoutTampered

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not to wait for a writer, should the file be a FIFO.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_STRANGE = {
    errno.ELOOP: "a link",
    errno.ENOTDIR: "something that is no folder",
    errno.EISDIR: "a folder",
    errno.EACCES: "something that we may not open",
}


@contextlib.contextmanager
def refusing(root: Path, parts: Sequence[str]) -> Iterator[None]:
    """Turn what the system says about links and wrong kinds into our error."""
    try:
        yield
    except OSError as error:
        kind = _STRANGE.get(error.errno or 0)
        if kind is None:
            raise
        raise CheckoutTampered(root, f"{'/'.join(parts) or 'it'} is or lies in {kind}") from None


@contextlib.contextmanager
def folder(root: Path, parts: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """A descriptor of a folder, reached step by step without links."""
    with contextlib.ExitStack() as opened:
        with refusing(root, parts):
            here = os.open(root, _FOLDER)
            opened.callback(os.close, here)
            for part in parts:
                if create:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=here)
                here = os.open(part, _FOLDER, dir_fd=here)
                opened.callback(os.close, here)
        yield here


def read(root: Path, *parts: str, limit: int) -> bytes | None:
    """A small plain file's content; None if there is no such file."""
    with contextlib.suppress(FileNotFoundError), folder(root, parts[:-1]) as here:
        with refusing(root, parts):
            opened = os.open(parts[-1], _FILE, dir_fd=here)
        with os.fdopen(opened, "rb") as file:
            found = os.fstat(opened)
            if not stat.S_ISREG(found.st_mode):
                raise CheckoutTampered(root, f"{'/'.join(parts)} is not a plain file")
            if found.st_size > limit:
                raise CheckoutTampered(root, f"{'/'.join(parts)} is larger than {limit} bytes")
            return file.read(limit)
    return None


def write(root: Path, *parts: str, data: bytes) -> None:
    """Put a plain file in its place, whole or not at all; a link there is replaced."""
    temporary = f".hostler-{uuid4().hex}"
    with minding_space(root), folder(root, parts[:-1], create=True) as here, refusing(root, parts):
        try:
            with os.fdopen(os.open(temporary, _NEW, 0o644, dir_fd=here), "wb") as file:
                file.write(data)
            os.rename(temporary, parts[-1], src_dir_fd=here, dst_dir_fd=here)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=here)
            raise


def remove(root: Path, *parts: str) -> None:
    """Remove a file, if it is there."""
    with contextlib.suppress(FileNotFoundError), folder(root, parts[:-1]) as here:
        os.unlink(parts[-1], dir_fd=here)


def exists(root: Path, *parts: str) -> bool:
    """Whether something, of whatever kind, has this name."""
    with contextlib.suppress(FileNotFoundError), folder(root, parts[:-1]) as here:
        os.lstat(parts[-1], dir_fd=here)
        return True
    return False


def files(root: Path, *parts: str) -> Iterator[tuple[tuple[str, ...], os.stat_result]]:
    """Every entry below a folder that is not a folder itself, with its path from there."""
    with contextlib.suppress(FileNotFoundError), folder(root, parts) as here:
        for path, folders, names, place in os.fwalk(".", dir_fd=here, follow_symlinks=False):
            # A link to a folder is listed among the folders.
            for name in (*names, *folders):
                found = os.lstat(name, dir_fd=place)
                if not stat.S_ISDIR(found.st_mode):
                    yield (*Path(path).parts, name), found

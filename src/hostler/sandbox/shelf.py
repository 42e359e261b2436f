"""The state on disk: one JSON file, replaced whole, with the git repositories beside it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hostler.errors import SandboxError
from hostler.sandbox.saving import pack, unpack
from hostler.sandbox.world import World


@contextmanager
def claimed(path: Path) -> Iterator[Path]:
    """The file behind a path, for one sandbox alone; a place that cannot be written is told now."""
    # Behind a link: what is replaced is the file, and the link stays.
    real = path.resolve()
    if not real.parent.is_dir():
        raise SandboxError(
            f"There is no folder for the state file {path}.", remedy="Make the folder first."
        )
    try:
        lock = os.open(real.with_name(f".{real.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        _lock(lock, path)
        _try_out(real, path)
        yield real
    finally:
        os.close(lock)


async def save(world: World, path: Path) -> None:
    """Write the state. Whatever happens meanwhile, the file is the old one or the new one."""
    path = path.resolve()
    state = pack(world)
    try:
        if world.vault is not None:
            state["git"] = f"{path.name}.git-{uuid.uuid4().hex[:8]}"
            await world.vault.export(path.with_name(state["git"]))
            await asyncio.to_thread(_flush_below, path.with_name(state["git"]))
        replace_file(path, json.dumps(state, ensure_ascii=False).encode())
    except OSError as error:
        raise _unwritable(path, error) from error
    _forget_older(path, state.get("git"))


async def load(world: World, path: Path) -> None:
    """Take the state from a file, and the repositories beside it."""
    path = path.resolve()
    state = read_json(path, "state")
    unpack(world, state)
    name = state.get("git") if isinstance(state, dict) else None
    if world.vault is None or not isinstance(name, str):
        return
    folder = path.with_name(Path(name).name)
    if not folder.is_dir():
        raise SandboxError(
            f"The repositories of this state are missing: {folder}",
            remedy="Restore that folder beside the state, or start with a new state file.",
        )
    await world.vault.load(folder)


def replace_file(path: Path, content: bytes) -> None:
    """Put a file in place at once, with its content already on the disk."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    # The state holds tokens, if only the sandbox's own.
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    _flush(path.parent)


def read_json(path: Path, what: str) -> Any:
    """The JSON in a file, or a sentence that says what is wrong with it."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise SandboxError(f"There is no {what} file {path}.", remedy="Check the path.") from None
    except OSError as error:
        raise SandboxError(
            f"The {what} file {path} cannot be read: {error.strerror or error}.",
            remedy="Check the path and its permissions.",
        ) from None
    except (ValueError, RecursionError):
        raise SandboxError(
            f"The {what} file {path} is not JSON.",
            safe="It was left as it is.",
            remedy="Correct it, or name another file.",
        ) from None


def _lock(lock: int, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise SandboxError(
            f"Another sandbox is using the state file {path}.",
            safe="Nothing was changed.",
            remedy="Stop the other one, or choose another file with --state.",
        ) from None


def _try_out(real: Path, path: Path) -> None:
    """Make and remove what a save begins with."""
    trial = real.with_name(f".{real.name}.git-{uuid.uuid4().hex[:8]}.part")
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> SandboxError:
    return SandboxError(
        f"The sandbox's state could not be saved to {path}: {error.strerror or error}.",
        safe="An older state there is untouched.",
        remedy="Make room or choose another place with --state.",
    )


def _flush_below(folder: Path) -> None:
    """Put a folder with all that is in it onto the disk, and its name into its parent."""
    for place, _, files in os.walk(folder):
        for name in files:
            _flush(Path(place, name))
        _flush(Path(place))
    _flush(folder.parent)


def _flush(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _forget_older(path: Path, kept: str | None) -> None:
    """Remove repositories of states that are no longer there, and halves of unfinished saves."""
    # Exactly the names that a save gives: what else begins like the state is not ours.
    name = re.escape(path.name)
    ours = re.compile(rf"{name}\.git-[0-9a-f]{{8}}|\.{name}\.(git-[0-9a-f]{{8}}|[0-9]+)\.part")
    for old in path.parent.iterdir():
        if old.name == kept or not ours.fullmatch(old.name):
            continue
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                old.unlink()

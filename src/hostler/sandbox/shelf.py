"""The state on disk: one JSON file, replaced whole, with the git repositories beside it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from pathlib import Path
from typing import Any

from hostler.errors import SandboxError
from hostler.sandbox.saving import pack, unpack
from hostler.sandbox.world import World


async def save(world: World, path: Path) -> None:
    """Write the state. Whatever happens meanwhile, the file is the old one or the new one."""
    state = pack(world)
    try:
        if world.vault is not None:
            state["git"] = f"{path.name}.git-{uuid.uuid4().hex[:8]}"
            await world.vault.export(path.with_name(state["git"]))
        replace_file(path, json.dumps(state, ensure_ascii=False).encode())
    except OSError as error:
        raise SandboxError(
            f"The sandbox's state could not be saved to {path}: {error.strerror or error}.",
            safe="An older state there is untouched.",
            remedy="Make room or choose another place with --state.",
        ) from error
    _forget_older(path, state.get("git"))


async def load(world: World, path: Path) -> None:
    """Take the state from a file, and the repositories beside it."""
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


def _forget_older(path: Path, kept: str | None) -> None:
    """Remove repositories of states that are no longer there, and halves of unfinished saves."""
    for pattern in (f"{path.name}.git-*", f".{path.name}.git-*.part", f".{path.name}.*.part"):
        for old in path.parent.glob(pattern):
            if old.name == kept:
                continue
            if old.is_dir():
                shutil.rmtree(old, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    old.unlink()

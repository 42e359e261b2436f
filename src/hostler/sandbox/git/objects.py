"""Store small objects without a git process, in the format of loose objects."""

from __future__ import annotations

import os
import tempfile
import zlib
from hashlib import sha1
from pathlib import Path

_FAST = 1


def write(repository: Path, kind: str, data: bytes) -> str:
    """Store an object; return its sha."""
    body = f"{kind} {len(data)}\0".encode() + data
    # Git names objects so; nothing here depends on the strength of the digest.
    sha = sha1(body, usedforsecurity=False).hexdigest()
    target = repository / "objects" / sha[:2] / sha[2:]
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        # By this name git knows a file that a killed process left behind.
        handle, part = tempfile.mkstemp(prefix="tmp_obj_", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(zlib.compress(body, _FAST))
        Path(part).chmod(0o444)
        Path(part).replace(target)
    return sha


def tree_of_file(name: str, blob: str) -> bytes:
    """Return the content of a tree that holds one plain file."""
    return f"100644 {name}\0".encode() + bytes.fromhex(blob)

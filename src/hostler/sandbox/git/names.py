"""Which refs, shas and paths we accept. Pure rules; nothing here asks git."""

from __future__ import annotations

import re

from hostler.sandbox.git.errors import BadName

ZERO = "0" * 40

_SHA = re.compile(r"[0-9a-f]{40}")
_FORBIDDEN_IN_REF = re.compile(r"[\x00-\x20\x7f ~^:?*\[\\]|\.\.|@\{|//")
_MAX_REF_LENGTH = 244


def is_sha(text: str) -> bool:
    """Return whether a text is a full commit id in lower case."""
    return _SHA.fullmatch(text) is not None


def is_branch_name(text: str) -> bool:
    """Return whether git and GitHub accept a name for a branch or tag."""
    if not text or len(text) > _MAX_REF_LENGTH or text == "@" or text.startswith("-"):
        return False
    if _FORBIDDEN_IN_REF.search(text) or text.endswith((".", "/")):
        return False
    return all(_is_ref_part(part) for part in text.split("/"))


def _is_ref_part(part: str) -> bool:
    return bool(part) and not part.startswith(".") and not part.endswith(".lock")


def full_ref(text: str) -> str:
    """`heads/main` or `refs/heads/main` as a full ref; anything else is refused."""
    name = text.removeprefix("refs/")
    if "/" not in name or not is_branch_name(name):
        raise BadName("ref", text)
    return f"refs/{name}"


def branch_ref(branch: str) -> str:
    """Return the full ref of a branch."""
    if not is_branch_name(branch):
        raise BadName("branch", branch)
    return f"refs/heads/{branch}"


def sha(text: str) -> str:
    """Return the same sha, once it looks like one."""
    if not is_sha(text):
        raise BadName("sha", text)
    return text


def tree_path(text: str) -> str:
    """Return a path inside a tree, without leading or trailing slashes; "" is the root."""
    path = text.strip("/")
    if not path:
        return ""
    if "\0" in path or "\n" in path or not all(_is_path_part(part) for part in path.split("/")):
        raise BadName("path", text)
    return path


def _is_path_part(part: str) -> bool:
    return part not in {"", ".", ".."} and part.lower() != ".git"

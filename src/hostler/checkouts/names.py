"""Rules: what branches, folders and commits may be called. Touches nothing."""

from __future__ import annotations

import re
import unicodedata
from typing import NewType

Sha = NewType("Sha", str)

SLUG_LENGTH = 40
_SHA = re.compile(r"[0-9a-f]{40}")
_COMPONENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FLOW = re.compile(r"[a-z][a-z0-9_-]{0,30}")
_FORBIDDEN_IN_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")


def sha(text: str) -> Sha:
    """A commit's full name; anything shorter or else is refused."""
    if not _SHA.fullmatch(text):
        raise ValueError(f"not a commit: {text[:80]!r}")
    return Sha(text)


def slug(title: str) -> str:
    """A title as part of a branch name: short, plain, never empty."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    return words[:SLUG_LENGTH].rstrip("-") or "task"


def branch_name(flow: str, issue: int, title: str) -> str:
    """The branch of one task."""
    if not _FLOW.fullmatch(flow) or flow == "checkpoint":
        raise ValueError(f"not a flow: {flow!r}")
    return f"agent/{flow}/{_number(issue)}-{slug(title)}"


def checkpoint_name(issue: int, title: str, commit: Sha) -> str:
    """The branch that keeps blocked work; the same work always gets the same branch."""
    return f"agent/checkpoint/{_number(issue)}-{slug(title)}-{commit[:12]}"


def component(text: str) -> str:
    """One part of a path or ref, checked."""
    if not _COMPONENT.fullmatch(text) or ".." in text or text.endswith((".", ".lock")):
        raise ValueError(f"not usable as a folder name: {text!r}")
    return text


def is_branch(name: str) -> bool:
    """Whether git accepts this as a branch's name."""
    if not name or name in {"@", "HEAD"} or name.startswith(("-", "/")):
        return False
    if _FORBIDDEN_IN_BRANCH.search(name) or name.endswith(("/", ".")):
        return False
    return not any(part.startswith(".") or part.endswith(".lock") for part in name.split("/"))


def checked_branch(name: str) -> str:
    """A branch's name, or an error."""
    if not is_branch(name):
        raise ValueError(f"not a branch name: {name!r}")
    return name


def _number(issue: int) -> int:
    if issue < 1:
        raise ValueError(f"not an issue number: {issue}")
    return issue

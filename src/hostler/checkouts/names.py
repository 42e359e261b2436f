"""Names of branches, folders and commits, and their validation. Pure functions."""

from __future__ import annotations

import re
import unicodedata
from typing import NewType

Sha = NewType("Sha", str)

MAX_SLUG_LENGTH = 40
_SHA = re.compile(r"[0-9a-f]{40}")
_COMPONENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FLOW = re.compile(r"[a-z][a-z0-9_-]{0,30}")
_FORBIDDEN_IN_BRANCH = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")


def parse_sha(text: str) -> Sha:
    """Return a full commit id. Raise for anything else."""
    if not _SHA.fullmatch(text):
        raise ValueError(f"not a commit: {text[:80]!r}")
    return Sha(text)


def slugify(title: str) -> str:
    """Return a title as part of a branch name: short, plain, never empty."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    return slug[:MAX_SLUG_LENGTH].rstrip("-") or "task"


def build_branch_name(flow: str, issue: int, title: str) -> str:
    """Return the branch name of a task."""
    if not _FLOW.fullmatch(flow) or flow == "checkpoint":
        raise ValueError(f"not a flow: {flow!r}")
    return f"agent/{flow}/{_require_issue_number(issue)}-{slugify(title)}"


def build_checkpoint_name(issue: int, title: str, commit: Sha) -> str:
    """Return the branch name that keeps blocked work; the same for the same work."""
    return f"agent/checkpoint/{_require_issue_number(issue)}-{slugify(title)}-{commit[:12]}"


def require_path_component(text: str) -> str:
    """Return one component of a path or ref. Raise if it is invalid."""
    if not _COMPONENT.fullmatch(text) or ".." in text or text.endswith((".", ".lock")):
        raise ValueError(f"not usable as a folder name: {text!r}")
    return text


def is_branch_name(name: str) -> bool:
    """Return whether git accepts this branch name."""
    if not name or name in {"@", "HEAD"} or name.startswith(("-", "/")):
        return False
    if _FORBIDDEN_IN_BRANCH.search(name) or name.endswith(("/", ".")):
        return False
    return not any(part.startswith(".") or part.endswith(".lock") for part in name.split("/"))


def require_branch_name(name: str) -> str:
    """Return a branch name. Raise if it is invalid."""
    if not is_branch_name(name):
        raise ValueError(f"not a branch name: {name!r}")
    return name


def _require_issue_number(issue: int) -> int:
    if issue < 1:
        raise ValueError(f"not an issue number: {issue}")
    return issue

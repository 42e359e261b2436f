"""Filling the submodules of a fresh checkout. Never after an agent was in it."""

from __future__ import annotations

from pathlib import Path

from hostler.checkouts.changes import GITLINK
from hostler.checkouts.git import Access, Git
from hostler.checkouts.remote import Remote
from hostler.errors import CheckoutError

DEEPEST = 3


def fill_submodules(path: Path, remote: Remote, level: int = 1) -> tuple[str, ...]:
    """Fetch submodules without credentials; the ones that could not be had.

    The remote's own scheme and https are spoken, nothing else: no `ext::`, no ssh, and no
    local folder unless the remote is one.
    """
    links = _links(path)
    if level > DEEPEST:
        return tuple(links)
    missing: list[str] = []
    for link in links:
        if not _fill(path, link, remote):
            missing.append(link)
            continue
        missing += (f"{link}/{below}" for below in fill_submodules(path / link, remote, level + 1))
    return tuple(missing)


def _links(path: Path) -> list[str]:
    """The submodules that a repository records."""
    if not (path / ".gitmodules").is_file():
        return []
    listed = _inside(path, Access())("ls-files", "-s", "-z").items
    return [entry.split("\t", 1)[1] for entry in listed if entry.startswith(GITLINK)]


def _fill(path: Path, link: str, remote: Remote) -> bool:
    access = Access(remote.url, frozenset({remote.scheme, "https"}))
    try:
        _inside(path, access)("submodule", "--quiet", "update", "--init", "--checkout", "--", link)
    except CheckoutError:
        return False
    return True


def _inside(path: Path, access: Access) -> Git:
    """Git that finds its repository itself, in this folder and nowhere above it."""
    return Git(None, path, access=access, env={"GIT_CEILING_DIRECTORIES": str(path.parent)})

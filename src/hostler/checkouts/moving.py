"""A mirror under another name: those that borrow its objects follow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from hostler.checkouts import beneath
from hostler.checkouts.errors import CheckoutTampered
from hostler.checkouts.mirror import place_of
from hostler.model import RepoName

_ALTERNATES = (".git", "objects", "info", "alternates")
_LONGEST = 16_384


def move_mirror(mirrors: Path, checkouts: Path, old: RepoName, new: RepoName) -> None:
    """Move a mirror, if there is one, and lead its checkouts on. Cut off, it can be repeated.

    While it moves, checkouts name both places: an agent at work misses no object.
    """
    source, target = place_of(mirrors, old), place_of(mirrors, new)
    if source == target:
        return
    borrowers = list(_borrowing(checkouts, source))
    if source.is_dir():
        if target.exists():
            # Whatever was called so before gives way.
            move_mirror(mirrors, checkouts, new, _free_name(mirrors, new))
        for checkout in borrowers:
            _point(checkout, source, target)
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
    for checkout in borrowers if target.is_dir() else ():
        _point(checkout, target)


def _borrowing(checkouts: Path, mirror: Path) -> Iterator[Path]:
    """Checkouts that take objects from a mirror."""
    for checkout in sorted(checkouts.glob("*/*")):
        try:
            found = beneath.read(checkout, *_ALTERNATES, limit=_LONGEST) or b""
        except (CheckoutTampered, OSError):
            continue  # it is refused when somebody wants to work with it
        if os.fsencode(mirror / "objects") in found.splitlines():
            yield checkout


def _point(checkout: Path, *mirrors: Path) -> None:
    lines = (os.fsencode(mirror / "objects") for mirror in mirrors)
    beneath.write(checkout, *_ALTERNATES, data=b"\n".join(lines) + b"\n")


def _free_name(mirrors: Path, repo: RepoName) -> RepoName:
    number = 1
    while place_of(mirrors, named := RepoName(repo.owner, f"{repo.name}.former-{number}")).exists():
        number += 1
    return named

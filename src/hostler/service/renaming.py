"""A repository that was renamed on GitHub: what is stored of it follows its number.

GitHub is asked once for each name that we do not know yet, before anything of the project moves.
"""

from __future__ import annotations

from pathlib import Path

from hostler.config.repos import full_name
from hostler.config.settings import Settings
from hostler.errors import HostlerError
from hostler.forge import Hub
from hostler.model import RepoName
from hostler.store import Store
from hostler.store.repo import Repo
from hostler.store.repositories import Repository, find_by_github_id, find_repository

# Whoever decides or writes by a repository's name waits, and reads the new one.
SCOPES = ("admission", "outbox", "tasks")


class SameRepository(HostlerError):
    """Two sections of the settings mean one repository."""


def know_by_number(store: Store, hub: Hub, settings: Settings, name: RepoName, home: Path) -> None:
    """Make what is stored of a repository stand under the name that the settings give it."""
    with store.read() as tx:
        known = find_repository(tx, name)
    if known is not None and known.name == name and known.github_id is not None:
        return
    number = hub.repo(name).repository().id
    with store.write(*SCOPES) as tx:
        former = find_by_github_id(tx, number) or known
        if former is not None:
            _require_gone(settings, former, name)
            # First, and repeatable: whoever is cut off here does it again at the next start.
            move_mirror(home / "mirrors", former.name, name)
        Repo(name).add(tx, number)


def _require_gone(settings: Settings, former: Repository, name: RepoName) -> None:
    """Rows move to a new name only if nobody looks for them under the old one."""
    named = {full_name(repo) for repo in settings.repo.values()}
    if former.name != name and former.name in named:
        raise SameRepository(
            f"{former.name} and {name} are one repository: GitHub has renamed it.",
            safe=f"It goes on as {former.name}; nothing was stored under the other name.",
            remedy=f"Keep one of the two in the settings, under the id that {former.name} has.",
        )


def move_mirror(mirrors: Path, old: RepoName, new: RepoName) -> None:
    """Move a mirror to its new name. Checkouts that borrow from it find it by the old one too."""
    source, target = _path(mirrors, old), _path(mirrors, new)
    if source == target:
        return
    if target.is_symlink() and target.resolve() == source.resolve():
        # It has its first name again.
        target.unlink()
    if source.is_dir() and not source.is_symlink() and not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
    if target.is_dir() and not source.is_symlink() and not source.exists():
        source.parent.mkdir(parents=True, exist_ok=True)
        source.symlink_to(target)


def _path(mirrors: Path, repo: RepoName) -> Path:
    return mirrors / repo.owner / f"{repo.name}.git"

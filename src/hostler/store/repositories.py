"""The list of repositories, and what a rename means for all their rows."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import func, select, update

from hostler.errors import StoreConflict
from hostler.model import RepoName
from hostler.store.dependencies import rename_dependencies
from hostler.store.tables import repositories, tables_with_a_repository
from hostler.store.transaction import Transaction
from hostler.store.upserts import insert_if_absent

_SAFE = "Nothing was changed."


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository that we know."""

    name: RepoName
    github_id: int | None
    added_at: str


def known_repositories(tx: Transaction) -> list[Repository]:
    """All of them, by name."""
    rows = tx.execute(select(repositories)).mappings()
    return sorted((_repository(dict(row)) for row in rows), key=lambda found: found.name)


def find_repository(tx: Transaction, name: RepoName) -> Repository | None:
    """A repository by its name, which GitHub reads without regard to case."""
    same = func.lower(repositories.c.repo_full_name) == str(name).lower()
    row = tx.execute(select(repositories).where(same)).mappings().first()
    return _repository(dict(row)) if row else None


def find_by_github_id(tx: Transaction, github_id: int) -> Repository | None:
    """A repository by the number that a rename leaves alone."""
    same = repositories.c.github_id == github_id
    row = tx.execute(select(repositories).where(same)).mappings().one_or_none()
    return _repository(dict(row)) if row else None


def add_repository(tx: Transaction, name: RepoName, github_id: int | None) -> Repository:
    """Know a repository; one known under another name or spelling is renamed."""
    known = find_by_github_id(tx, github_id) if github_id is not None else None
    known = known or find_repository(tx, name)
    if known is None:
        insert_if_absent(
            tx,
            repositories,
            {"repo_full_name": str(name), "github_id": github_id, "added_at": tx.stamp()},
        )
    elif known.name != name:
        rename_repository(tx, known.name, name)
    if github_id is not None:
        _number(tx, name, github_id)
    found = find_repository(tx, name)
    assert found is not None
    return found


def rename_repository(tx: Transaction, old: RepoName, new: RepoName) -> None:
    """Move every row of a repository to its new name."""
    other = find_repository(tx, new)
    if other is not None and other.name != old:
        raise StoreConflict(f"Both {old} and {new} are known already.", safe=_SAFE)
    for table in tables_with_a_repository():
        tx.execute(
            update(table).where(table.c.repo_full_name == str(old)).values(repo_full_name=str(new))
        )
    rename_dependencies(tx, old, new)


def _number(tx: Transaction, name: RepoName, github_id: int) -> None:
    known = find_repository(tx, name)
    if known is not None and known.github_id not in (None, github_id):
        # Deleted and made anew under the old name: the rows of the old one are not the new one's.
        raise StoreConflict(
            f"{name} was repository {known.github_id} and is now {github_id}.", safe=_SAFE
        )
    tx.execute(
        update(repositories)
        .where(repositories.c.repo_full_name == str(name))
        .values(github_id=github_id)
    )


def _repository(row: dict[str, object]) -> Repository:
    github_id = row["github_id"]
    return Repository(
        name=RepoName.parse(str(row["repo_full_name"])),
        github_id=github_id if isinstance(github_id, int) else None,
        added_at=str(row["added_at"]),
    )

"""Rows of issues that tasks depend on, as they were last seen."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import select, tuple_

from hostler.model import RepoName
from hostler.store.task_tables import issue_states as table
from hostler.store.transaction import Transaction
from hostler.store.upserts import insert_or_update

# What an issue can be: the last means that GitHub shows us none of that number.
OPEN, CLOSED, MISSING = "open", "closed", "missing"


@dataclass(frozen=True, slots=True)
class IssueState:
    """One issue. `seen_at` is a stamp of ours."""

    repo_full_name: str
    issue_number: int
    state: str
    title: str
    seen_at: str


def note_issue(tx: Transaction, repo: RepoName, number: int, state: str, title: str = "") -> None:
    """Know what an issue is now."""
    row = {
        "repo_full_name": str(repo),
        "issue_number": number,
        "state": state,
        "title": title,
        "seen_at": tx.stamp(),
    }
    insert_or_update(tx, table, row)


def issues_seen(
    tx: Transaction, wanted: Collection[tuple[str, int]]
) -> dict[tuple[str, int], IssueState]:
    """What is known about these issues, by repository and number."""
    if not wanted:
        return {}
    chosen = tuple_(table.c.repo_full_name, table.c.issue_number).in_(list(wanted))
    rows = tx.execute(select(table).where(chosen)).mappings()
    return {(row["repo_full_name"], row["issue_number"]): IssueState(**row) for row in rows}

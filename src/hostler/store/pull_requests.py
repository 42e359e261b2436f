"""Rows of pull requests."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import and_, select, update

from hostler.errors import StoreConflict
from hostler.model import RepoName, Surface
from hostler.store.repositories import Repo
from hostler.store.schema import issue_comment_cursors, pull_requests
from hostler.store.transaction import Transaction, insert_if_new, insert_or_update


class PullStatus(StrEnum):
    """How a pull request stands with us. The last two are final."""

    AWAITING_FEEDBACK = "awaiting_feedback"
    BLOCKED = "blocked"
    CLOSED = "closed"
    MERGED = "merged"


WATCHED = (PullStatus.AWAITING_FEEDBACK, PullStatus.BLOCKED)


@dataclass(frozen=True, slots=True)
class PullRow:
    """One pull request of ours."""

    repo_full_name: str
    pr_number: int
    issue_number: int
    task: str
    branch: str
    status: PullStatus
    last_seen_head_sha: str = ""
    turns_without_person: int = 0
    url: str = ""

    @property
    def final(self) -> bool:
        return self.status not in WATCHED


@dataclass(frozen=True, slots=True)
class Floors:
    """The newest comments of an issue that went to an agent, and that were sent to the PR.

    `comments_since`: words that are older are not for agents; empty: there is no such moment.
    """

    pre_pr_last_consumed_comment_id: int = 0
    post_pr_last_redirected_comment_id: int = 0
    comments_since: str = ""


def add_pull(tx: Transaction, pull: PullRow) -> bool:
    """Know a pull request; whether it was new."""
    values = asdict(pull) | {"created_at": tx.stamp(), "updated_at": tx.stamp()}
    return insert_if_new(tx, pull_requests, values, key=("repo_full_name", "pr_number"))


def find_pull(tx: Transaction, repo: RepoName, number: int) -> PullRow | None:
    """A pull request of ours by its number."""
    chosen = and_(pull_requests.c.repo_full_name == str(repo), pull_requests.c.pr_number == number)
    found = tx.execute(select(pull_requests).where(chosen)).mappings().one_or_none()
    return _pull(dict(found)) if found else None


def pulls_numbered(tx: Transaction, number: int) -> list[PullRow]:
    """Our pull requests of this number, in whatever repository, by its name."""
    chosen = select(pull_requests).where(pull_requests.c.pr_number == number)
    rows = tx.execute(chosen.order_by(pull_requests.c.repo_full_name)).mappings()
    return [_pull(dict(row)) for row in rows]


def pulls_in(
    tx: Transaction, repo: RepoName, statuses: Collection[PullStatus] = WATCHED
) -> list[PullRow]:
    """A repository's pull requests with these statuses, by number."""
    chosen = and_(
        pull_requests.c.repo_full_name == str(repo),
        pull_requests.c.status.in_([status.value for status in statuses]),
    )
    rows = tx.execute(select(pull_requests).where(chosen).order_by(pull_requests.c.pr_number))
    return [_pull(dict(row)) for row in rows.mappings()]


def watched_heads(tx: Transaction, repo: RepoName) -> list[tuple[int, PullStatus, str]]:
    """Number, status and head of the pull requests that are watched: asked for in every poll."""
    table = pull_requests.c
    chosen = and_(
        table.repo_full_name == str(repo),
        table.status.in_([status.value for status in WATCHED]),
    )
    rows = tx.execute(select(table.pr_number, table.status, table.last_seen_head_sha).where(chosen))
    return [(row.pr_number, PullStatus(row.status), row.last_seen_head_sha) for row in rows]


def change_pull(tx: Transaction, before: PullRow, after: PullRow) -> None:
    """Store what became of a pull request; refused if somebody else has moved it meanwhile."""
    same = and_(
        pull_requests.c.repo_full_name == before.repo_full_name,
        pull_requests.c.pr_number == before.pr_number,
        pull_requests.c.status == before.status.value,
    )
    values = asdict(after) | {"updated_at": tx.stamp()}
    if tx.execute(update(pull_requests).where(same).values(values)).rowcount != 1:
        raise StoreConflict(f"Pull request {before.pr_number} is no longer {before.status}.")


def comment_floors(tx: Transaction, repo: RepoName, issue: int) -> Floors:
    """How far the comments of an issue were used."""
    table = issue_comment_cursors
    chosen = and_(table.c.repo_full_name == str(repo), table.c.issue_number == issue)
    found = tx.execute(select(table).where(chosen)).mappings().one_or_none()
    return (
        Floors(**{name: found[name] for name in (*_FLOORS, "comments_since")})
        if found
        else Floors()
    )


def hear_from(tx: Transaction, repo: RepoName, issue: int, moment: str) -> None:
    """Words about an issue that are older than this moment of GitHub's are not for agents."""
    where = {"repo_full_name": str(repo), "issue_number": issue, "updated_at": tx.stamp()}
    insert_or_update(tx, issue_comment_cursors, where | {"comments_since": moment})


def ask_for_scan(tx: Transaction, pull: PullRow) -> None:
    """Have the thread of a pull request read again, a bounded way back: its cursors say so."""
    repo = Repo(RepoName.parse(pull.repo_full_name))
    for surface in (Surface.PR_ISSUE_COMMENTS, Surface.PR_REVIEW_COMMENTS):
        known = repo.get_poll_cursor(tx, surface, pull.pr_number)
        if known is not None:
            repo.upsert_poll_cursor(
                tx,
                surface,
                pull.pr_number,
                last_updated_at=known.last_updated_at,
                last_comment_id=known.last_comment_id,
                bootstrap_complete=False,
            )


def raise_floors(tx: Transaction, repo: RepoName, issue: int, more: Floors) -> None:
    """Note that comments up to these were used. Floors never sink."""
    known, more_values = asdict(comment_floors(tx, repo, issue)), asdict(more)
    raised = {name: max(known[name], more_values[name]) for name in _FLOORS}
    where = {"repo_full_name": str(repo), "issue_number": issue, "updated_at": tx.stamp()}
    insert_or_update(tx, issue_comment_cursors, where | raised)


_FLOORS = ("pre_pr_last_consumed_comment_id", "post_pr_last_redirected_comment_id")


def _pull(row: dict[str, Any]) -> PullRow:
    for name in ("created_at", "updated_at"):
        del row[name]
    return PullRow(**row | {"status": PullStatus(row["status"])})

"""Rows of what the feeds remember: chains of pages, pull requests that moved, threads in step."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sqlalchemy import ColumnElement, and_, delete, select, update

from hostler.model import PollCursor, RepoName, Surface
from hostler.store.feed_tables import feed_chains, moved_pulls
from hostler.store.repo import cursor_of
from hostler.store.tables import poll_cursors
from hostler.store.transaction import Transaction
from hostler.store.upserts import insert_if_absent, insert_or_update

# The two feeds of a pull request's thread.
PULL_SURFACES = (Surface.PR_REVIEW_COMMENTS, Surface.PR_ISSUE_COMMENTS)


def find_chain(tx: Transaction, repo: RepoName, surface: str, number: int) -> str:
    """The stored pages of a list; empty where there are none."""
    statement = select(feed_chains.c.pages).where(_chain(repo, surface, number))
    return tx.execute(statement).scalar() or ""


def chains_at(tx: Transaction, repo: RepoName, number: int) -> dict[str, str]:
    """The stored pages of all lists of one scope, by surface."""
    chosen = and_(feed_chains.c.repo_full_name == str(repo), feed_chains.c.scope_number == number)
    rows = tx.execute(select(feed_chains).where(chosen)).mappings()
    return {row["surface"]: row["pages"] for row in rows}


def cursors_at(tx: Transaction, repo: RepoName, number: int) -> dict[Surface, PollCursor]:
    """All cursors of one scope, by surface."""
    same = and_(poll_cursors.c.repo_full_name == str(repo), poll_cursors.c.scope_number == number)
    found = (cursor_of(dict(r)) for r in tx.execute(select(poll_cursors).where(same)).mappings())
    return {cursor.surface: cursor for cursor in found}


def save_chain(tx: Transaction, repo: RepoName, surface: str, number: int, pages: str) -> None:
    """Keep the pages of a list; empty: keep none."""
    if not pages:
        tx.execute(delete(feed_chains).where(_chain(repo, surface, number)))
        return
    row = {
        "repo_full_name": str(repo),
        "surface": str(surface),
        "scope_number": number,
        "pages": pages,
        "updated_at": tx.stamp(),
    }
    insert_or_update(tx, feed_chains, row)


def mark_moved(tx: Transaction, repo: RepoName, numbers: Iterable[int]) -> None:
    """These pull requests are to be fetched."""
    for number in numbers:
        row = {"repo_full_name": str(repo), "pr_number": number, "marked_at": tx.stamp()}
        insert_if_absent(tx, moved_pulls, row)


def pulls_moved(tx: Transaction, repo: RepoName) -> list[int]:
    """Pull requests that are to be fetched, those marked first first."""
    chosen = select(moved_pulls.c.pr_number).where(moved_pulls.c.repo_full_name == str(repo))
    order = (moved_pulls.c.marked_at, moved_pulls.c.pr_number)
    return [int(number) for number in tx.execute(chosen.order_by(*order)).scalars()]


def clear_moved(tx: Transaction, repo: RepoName, number: int) -> None:
    """This one was fetched, in this transaction."""
    same = and_(moved_pulls.c.repo_full_name == str(repo), moved_pulls.c.pr_number == number)
    tx.execute(delete(moved_pulls).where(same))


def threads_in_step(tx: Transaction, repo: RepoName) -> set[int]:
    """Pull requests whose threads were scanned, and follow the feed since."""
    chosen = and_(
        poll_cursors.c.repo_full_name == str(repo),
        poll_cursors.c.surface.in_([surface.value for surface in PULL_SURFACES]),
        poll_cursors.c.bootstrap_complete == 1,
    )
    return {int(n) for n in tx.execute(select(poll_cursors.c.scope_number).where(chosen)).scalars()}


def forget_threads(tx: Transaction, repo: RepoName, numbers: Collection[int]) -> None:
    """Take the cursors of these threads away: the next scan is of all of it."""
    tx.execute(delete(poll_cursors).where(_threads(repo, numbers)))


def lapse_threads(tx: Transaction, repo: RepoName, numbers: Collection[int]) -> None:
    """These threads are not followed any more: the next scan is from their cursors on."""
    values = {"bootstrap_complete": 0, "updated_at": tx.stamp()}
    tx.execute(update(poll_cursors).where(_threads(repo, numbers)).values(values))


def _threads(repo: RepoName, numbers: Collection[int]) -> ColumnElement[bool]:
    return and_(
        poll_cursors.c.repo_full_name == str(repo),
        poll_cursors.c.surface.in_([surface.value for surface in PULL_SURFACES]),
        poll_cursors.c.scope_number.in_(list(numbers)),
    )


def _chain(repo: RepoName, surface: str, number: int) -> ColumnElement[bool]:
    return and_(
        feed_chains.c.repo_full_name == str(repo),
        feed_chains.c.surface == str(surface),
        feed_chains.c.scope_number == number,
    )

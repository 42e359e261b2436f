"""Rows of repositories: names and numbers, poll cursors, feeds and poll statistics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, delete, func, select, update

from hostler.errors import StoreConflict
from hostler.model import (
    ActionToken,
    PollCursor,
    RepoName,
    ScopeKind,
    Surface,
    TokenStatus,
    format_timestamp,
)
from hostler.store.dependencies import rename_dependencies
from hostler.store.inbox import FeedbackScan, Stored, Watermark, add_inbox_row
from hostler.store.outbox import TokenEvent, next_attempts, next_status
from hostler.store.schema import (
    action_tokens,
    changed_pull_requests,
    feed_pages,
    poll_cursors,
    poll_hours,
    repositories,
    tables_with_a_repository,
)
from hostler.store.transaction import Transaction, insert_if_absent, insert_or_update, normal_stamp
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import ACTION_TOKENS

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


@dataclass(frozen=True, slots=True)
class Repo:
    """One repository's rows."""

    name: RepoName

    def get(self, tx: Transaction) -> Repository | None:
        """What we know of the repository itself."""
        return find_repository(tx, self.name)

    def add(self, tx: Transaction, github_id: int | None = None) -> Repository:
        """Know this repository; a number known under another name is a rename."""
        return add_repository(tx, self.name, github_id)

    def rename(self, tx: Transaction, new: RepoName) -> Repo:
        """Move everything stored about it to its new name."""
        rename_repository(tx, self.name, new)
        return Repo(new)

    def get_poll_cursor(
        self, tx: Transaction, surface: Surface, scope_number: int
    ) -> PollCursor | None:
        """How far a stream has been read; None where it never was."""
        chosen = and_(
            poll_cursors.c.repo_full_name == str(self.name),
            poll_cursors.c.surface == surface.value,
            poll_cursors.c.scope_number == scope_number,
        )
        row = tx.execute(select(poll_cursors).where(chosen)).mappings().one_or_none()
        return cursor_of(dict(row)) if row else None

    def upsert_poll_cursor(
        self,
        tx: Transaction,
        surface: Surface,
        scope_number: int,
        *,
        last_updated_at: str,
        last_comment_id: int,
        bootstrap_complete: bool,
    ) -> PollCursor:
        """Note how far a stream has been read. It may move back: a reset is a decision too."""
        row = {
            "repo_full_name": str(self.name),
            "surface": surface.value,
            "scope_number": scope_number,
            "last_updated_at": normal_stamp(last_updated_at),
            "last_comment_id": last_comment_id,
            "bootstrap_complete": int(bootstrap_complete),
            "updated_at": tx.stamp(),
        }
        insert_or_update(tx, poll_cursors, row)
        return cursor_of(row)

    def ingest_feedback_scan_batch(self, tx: Transaction, scan: FeedbackScan) -> Stored:
        """Events, seen writes and both cursors of a pull request's thread, stored together."""
        return self._store(tx, scan, complete=None)

    def seed_feedback_cursors_from_full_scan(self, tx: Transaction, scan: FeedbackScan) -> Stored:
        """The same for a whole thread, whose cursors are complete from now on."""
        return self._store(tx, scan, complete=True)

    def get_action_token(self, tx: Transaction, token: str) -> ActionToken | None:
        """An outgoing write by its token."""
        return self._token(tx, select(action_tokens).where(self._is(token)))

    def record_action_token_planned(
        self, tx: Transaction, token: str, *, scope_kind: ScopeKind, scope_number: int, source: str
    ) -> ActionToken:
        """Note a write before it is made. A token that is known already stays as it is."""
        row = {
            "repo_full_name": str(self.name),
            "token": token,
            "scope_kind": scope_kind.value,
            "scope_number": scope_number,
            "source": source,
            "status": TokenStatus.PLANNED.value,
            "attempt_count": 0,
            "created_at": tx.stamp(),
            "updated_at": tx.stamp(),
        }
        known = self.get_action_token(tx, token)
        insert_if_absent(tx, action_tokens, row)
        found = self.get_action_token(tx, token)
        assert found is not None
        if known is None:
            _count(tx, found)
        if (found.scope_kind, found.scope_number) != (scope_kind, scope_number):
            raise StoreConflict(
                f"Token {token} is already used on {found.scope_kind} {found.scope_number}.",
                safe="Nothing was changed.",
            )
        return found

    def record_action_token_posted(self, tx: Transaction, token: str) -> ActionToken:
        """The write was answered with success."""
        return self._known(token, self._happened(tx, token, TokenEvent.POSTED))

    def record_action_token_failed(self, tx: Transaction, token: str) -> ActionToken:
        """The write was given up."""
        return self._known(token, self._happened(tx, token, TokenEvent.FAILED))

    def record_action_token_observed(
        self, tx: Transaction, token: str, *, comment_id: int, updated_at: str
    ) -> ActionToken | None:
        """The write was seen on GitHub; None for a token that is not ours, such as a pasted one."""
        seen = {
            "observed_comment_id": comment_id,
            "observed_updated_at": normal_stamp(updated_at),
        }
        return self._happened(tx, token, TokenEvent.OBSERVED, seen)

    def _store(self, tx: Transaction, scan: FeedbackScan, *, complete: bool | None) -> Stored:
        new = [row.event_key for row in scan.events if add_inbox_row(tx, row)]
        fresh = set(new)
        known = [row.event_key for row in scan.events if row.event_key not in fresh]
        for seen in scan.observed:
            self.record_action_token_observed(
                tx, seen.token, comment_id=seen.comment_id, updated_at=seen.updated_at
            )
        marks = {
            Surface.PR_REVIEW_COMMENTS: scan.review_comments,
            Surface.PR_ISSUE_COMMENTS: scan.issue_comments,
        }
        for surface, mark in marks.items():
            if mark is not None:
                self._advance(tx, surface, scan.pr_number, mark, complete)
        return Stored(tuple(new), tuple(known))

    def _advance(
        self,
        tx: Transaction,
        surface: Surface,
        number: int,
        mark: Watermark,
        complete: bool | None,
    ) -> None:
        known = self.get_poll_cursor(tx, surface, number)
        kept = known is not None and known.bootstrap_complete
        self.upsert_poll_cursor(
            tx,
            surface,
            number,
            last_updated_at=mark.last_updated_at,
            last_comment_id=mark.last_comment_id,
            bootstrap_complete=kept if complete is None else complete,
        )

    def _happened(
        self,
        tx: Transaction,
        token: str,
        event: TokenEvent,
        facts: Mapping[str, Any] | None = None,
    ) -> ActionToken | None:
        # Locked on PostgreSQL: what is decided on must still be so when it is written.
        chosen = select(action_tokens).where(self._is(token)).with_for_update()
        found = self._token(tx, chosen)
        if found is None:
            return None
        changed = {
            "status": next_status(found.status, event).value,
            "attempt_count": next_attempts(found.attempt_count, event),
            "updated_at": tx.stamp(),
            **(facts or {}),
        }
        tx.execute(update(action_tokens).where(self._is(token)).values(changed))
        after = self.get_action_token(tx, token)
        assert after is not None
        if after.status is not found.status:
            _count(tx, after)
        return after

    def _token(self, tx: Transaction, chosen: Select[Any]) -> ActionToken | None:
        row = tx.execute(chosen).mappings().one_or_none()
        return _token(dict(row)) if row else None

    def _is(self, token: str) -> ColumnElement[bool]:
        return and_(
            action_tokens.c.repo_full_name == str(self.name), action_tokens.c.token == token
        )

    def _known(self, token: str, found: ActionToken | None) -> ActionToken:
        if found is None:
            raise StoreConflict(f"Token {token} of {self.name} was never planned.")
        return found


def _count(tx: Transaction, token: ActionToken) -> None:
    """One step of a write, counted when it is stored."""
    status, source = token.status.value, token.source
    tx.after_commit(lambda: metrics.count(ACTION_TOKENS, status=status, source=source))


def cursor_of(row: dict[str, Any]) -> PollCursor:
    """A cursor as it is stored."""
    return PollCursor(
        surface=Surface(row["surface"]),
        scope_number=row["scope_number"],
        last_updated_at=row["last_updated_at"],
        last_comment_id=row["last_comment_id"],
        bootstrap_complete=bool(row["bootstrap_complete"]),
        updated_at=row["updated_at"],
    )


def _token(row: dict[str, Any]) -> ActionToken:
    return ActionToken(
        token=row["token"],
        scope_kind=ScopeKind(row["scope_kind"]),
        scope_number=row["scope_number"],
        source=row["source"],
        status=TokenStatus(row["status"]),
        attempt_count=row["attempt_count"],
        observed_comment_id=row["observed_comment_id"],
        observed_updated_at=row["observed_updated_at"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


# The two feeds of a pull request's thread.
PULL_SURFACES = (Surface.PR_REVIEW_COMMENTS, Surface.PR_ISSUE_COMMENTS)


def find_feed_pages(tx: Transaction, repo: RepoName, surface: str, number: int) -> str:
    """The stored pages of a list; empty where there are none."""
    statement = select(feed_pages.c.pages).where(_chain(repo, surface, number))
    return tx.execute(statement).scalar() or ""


def feed_pages_of_thread(tx: Transaction, repo: RepoName, number: int) -> dict[str, str]:
    """The stored pages of all lists of one scope, by surface."""
    chosen = and_(feed_pages.c.repo_full_name == str(repo), feed_pages.c.scope_number == number)
    rows = tx.execute(select(feed_pages).where(chosen)).mappings()
    return {row["surface"]: row["pages"] for row in rows}


def cursors_at(tx: Transaction, repo: RepoName, number: int) -> dict[Surface, PollCursor]:
    """All cursors of one scope, by surface."""
    same = and_(poll_cursors.c.repo_full_name == str(repo), poll_cursors.c.scope_number == number)
    found = (cursor_of(dict(r)) for r in tx.execute(select(poll_cursors).where(same)).mappings())
    return {cursor.surface: cursor for cursor in found}


def save_feed_pages(tx: Transaction, repo: RepoName, surface: str, number: int, pages: str) -> None:
    """Keep the pages of a list; empty: keep none."""
    if not pages:
        tx.execute(delete(feed_pages).where(_chain(repo, surface, number)))
        return
    row = {
        "repo_full_name": str(repo),
        "surface": str(surface),
        "scope_number": number,
        "pages": pages,
        "updated_at": tx.stamp(),
    }
    insert_or_update(tx, feed_pages, row)


def mark_pull_requests_changed(tx: Transaction, repo: RepoName, numbers: Iterable[int]) -> None:
    """These pull requests are to be fetched."""
    for number in numbers:
        row = {"repo_full_name": str(repo), "pr_number": number, "marked_at": tx.stamp()}
        insert_if_absent(tx, changed_pull_requests, row)


def list_changed_pull_requests(tx: Transaction, repo: RepoName) -> list[int]:
    """Pull requests that are to be fetched, those marked first first."""
    chosen = select(changed_pull_requests.c.pr_number).where(
        changed_pull_requests.c.repo_full_name == str(repo)
    )
    order = (changed_pull_requests.c.marked_at, changed_pull_requests.c.pr_number)
    return [int(number) for number in tx.execute(chosen.order_by(*order)).scalars()]


def clear_changed_pull_request(tx: Transaction, repo: RepoName, number: int) -> None:
    """This one was fetched, in this transaction."""
    same = and_(
        changed_pull_requests.c.repo_full_name == str(repo),
        changed_pull_requests.c.pr_number == number,
    )
    tx.execute(delete(changed_pull_requests).where(same))


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
        feed_pages.c.repo_full_name == str(repo),
        feed_pages.c.surface == str(surface),
        feed_pages.c.scope_number == number,
    )


POLL_HISTORY = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Polls:
    """Looks that are over. `late` saw all, too late; `failed` did not see all.

    Lags are from when a look was due to when it was over: in all, the worst, and of the last one,
    which was over at `last_at`. `late_since`: one that is not over was due then; empty: none is
    late.
    """

    polls: int = 0
    late: int = 0
    failed: int = 0
    lag_seconds: float = 0.0
    worst_seconds: float = 0.0
    last_at: str = ""
    last_seconds: float = 0.0
    late_since: str = ""

    def __add__(self, later: Polls) -> Polls:
        last = later if later.last_at else self
        return Polls(
            self.polls + later.polls,
            self.late + later.late,
            self.failed + later.failed,
            self.lag_seconds + later.lag_seconds,
            max(self.worst_seconds, later.worst_seconds),
            last.last_at,
            last.last_seconds,
            later.late_since,
        )


def add_polls(tx: Transaction, project: str, more: Polls) -> None:
    """Add looks of a project to those of this hour; what is old is forgotten."""
    hour = format_timestamp(tx.now().replace(minute=0, second=0, microsecond=0))
    known = polls_since(tx, hour).get(project, Polls())
    insert_or_update(tx, poll_hours, {"project": project, "hour": hour, **asdict(known + more)})
    tx.execute(
        delete(poll_hours).where(poll_hours.c.hour < format_timestamp(tx.now() - POLL_HISTORY))
    )


def polls_since(tx: Transaction, since: str) -> dict[str, Polls]:
    """Looks in the hours since a moment, by project."""
    found: dict[str, Polls] = {}
    chosen = select(poll_hours).where(poll_hours.c.hour >= since).order_by(poll_hours.c.hour)
    for row in tx.execute(chosen).mappings():
        values = {name: value for name, value in row.items() if name not in ("project", "hour")}
        found[row["project"]] = found.get(row["project"], Polls()) + Polls(**values)
    return found

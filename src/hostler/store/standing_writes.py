"""The outbox as a person asks about it: what was given up, and since when the oldest waits."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import and_, func, select

from hostler.store.forge_tables import outbox
from hostler.store.instants import seconds_between
from hostler.store.outbox import OPEN, WriteState
from hostler.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Failure:
    """A write that was given up, and why."""

    repo_full_name: str
    scope_number: int
    kind: str
    why: str


@dataclass(frozen=True, slots=True)
class StandingWrites:
    """How many were given up (and the newest of them), how many wait, and since when."""

    failed: int
    newest: tuple[Failure, ...]
    waiting: int
    oldest: str | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """A write that GitHub took: when it was decided on, and when it was sent."""

    created_at: str
    attempted_at: str

    @property
    def seconds(self) -> float:
        """How long it took."""
        return seconds_between(self.created_at, self.attempted_at)


def deliveries(tx: Transaction, most: int) -> list[Delivery]:
    """The newest writes that were sent, newest first."""
    columns = (outbox.c.created_at, outbox.c.attempted_at)
    chosen = select(*columns).where(outbox.c.state == WriteState.SENT.value)
    rows = tx.execute(chosen.order_by(outbox.c.sequence.desc()).limit(most)).mappings()
    return [Delivery(**row) for row in rows if row["attempted_at"]]


def standing_writes(tx: Transaction, since: str, most: int) -> StandingWrites:
    """All that wait, and those that were given up since a moment."""
    given_up = and_(outbox.c.state == WriteState.FAILED.value, outbox.c.updated_at >= since)
    is_open = outbox.c.state.in_([state.value for state in OPEN])
    columns = (outbox.c.repo_full_name, outbox.c.scope_number, outbox.c.kind, outbox.c.last_error)
    rows = tx.execute(
        select(*columns).where(given_up).order_by(outbox.c.updated_at.desc()).limit(most)
    ).mappings()
    failed = tx.execute(select(func.count()).select_from(outbox).where(given_up)).scalar_one()
    waiting = tx.execute(select(func.count()).select_from(outbox).where(is_open)).scalar_one()
    oldest = tx.execute(select(func.min(outbox.c.created_at)).where(is_open)).scalar_one()
    newest = tuple(
        Failure(row["repo_full_name"], row["scope_number"], row["kind"], row["last_error"] or "")
        for row in rows
    )
    return StandingWrites(failed, newest, waiting, oldest)

"""Rows of notices: told once, queued, sent, given up."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import delete, func, select, update

from hostler.store.notice_tables import notices
from hostler.store.transaction import Transaction
from hostler.store.upserts import insert_if_new


class NoticeState(StrEnum):
    """How far a notice has come. `told`: it was said elsewhere, and nothing is to be sent."""

    TOLD = "told"
    QUEUED = "queued"
    SENT = "sent"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a person should know, by the key of its cause."""

    key: str
    occasion: str
    title: str = ""
    body: str = ""
    url: str = ""
    state: NoticeState = NoticeState.QUEUED
    attempts: int = 0
    not_before: str = ""
    last_error: str = ""
    created_at: str = ""


def add_notice(tx: Transaction, notice: Notice) -> bool:
    """Keep a notice; whether its cause is new."""
    moments = {"created_at": tx.stamp(), "updated_at": tx.stamp()}
    values = asdict(notice) | moments | {"not_before": notice.not_before or tx.stamp()}
    return insert_if_new(tx, notices, values, key=("key",))


def first_time(tx: Transaction, key: str, occasion: str) -> bool:
    """Whether this is the first time that somebody is about to be told of a cause."""
    return add_notice(tx, Notice(key, occasion, state=NoticeState.TOLD))


def queued_notices(tx: Transaction) -> list[Notice]:
    """What is to be sent, the first that is due first."""
    chosen = select(notices).where(notices.c.state == NoticeState.QUEUED.value)
    rows = tx.execute(chosen.order_by(notices.c.not_before, notices.c.key)).mappings()
    return [_notice(dict(row)) for row in rows]


def known_notices(tx: Transaction, keys: list[str]) -> set[str]:
    """Which of these causes were told of, or are about to be."""
    found = select(notices.c.key).where(notices.c.key.in_(keys))
    return set(tx.execute(found).scalars()) if keys else set()


def change_notice(tx: Transaction, key: str, **values: Any) -> None:
    """Store what became of a notice."""
    changed = values | {"updated_at": tx.stamp()}
    tx.execute(update(notices).where(notices.c.key == key).values(changed))


def count_notices(tx: Transaction, state: NoticeState) -> int:
    """How many notices are in a state."""
    chosen = select(func.count()).select_from(notices).where(notices.c.state == state.value)
    return int(tx.execute(chosen).scalar_one())


def forget_notices(tx: Transaction, before: str) -> None:
    """Let go of what was settled before a moment. Causes carry moments of their own."""
    settled = notices.c.state != NoticeState.QUEUED.value
    tx.execute(delete(notices).where(settled, notices.c.updated_at < before))


def _notice(row: dict[str, Any]) -> Notice:
    del row["updated_at"]
    return Notice(**row | {"state": NoticeState(row["state"])})

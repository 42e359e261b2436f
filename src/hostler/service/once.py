"""One look at each repository, and the end of what came of it. Rules; they touch nothing."""

from __future__ import annotations

from collections.abc import Iterable

from hostler.store.outbox import OPEN, OutboxRow


def unsent(writes: Iterable[OutboxRow]) -> bool:
    """Whether something will be sent soon: a thread that fails is left to the next service."""
    found = list(writes)
    troubled = {_thread(row) for row in found if row.last_error}
    return any(_thread(row) not in troubled and row.dependency not in OPEN for row in found)


def _thread(row: OutboxRow) -> tuple[str, int]:
    return row.repo_full_name, row.scope_number

"""Whose turn it is: where each project's last turn ended, on a line that grows with every start."""

from __future__ import annotations

from sqlalchemy import select

from hostler.store.transaction import Transaction
from hostler.store.turn_tables import turns
from hostler.store.upserts import insert_or_update

# The length of a turn of weight 1.
TURN = 1_000_000
# The row of the present: where the last turn began. No project has an empty name.
PRESENT = ""


def after_turn(ended: int, present: int, weight: int) -> tuple[int, int]:
    """Where a turn that begins now ends, and the present after it began.

    Who was idle begins at the present, and has no claim to the past. The present always moves,
    so that of two with the same claim the one who was served longer ago is next.
    """
    begins = max(ended, present + 1)
    return begins + TURN // max(weight, 1), begins


def take_turn(tx: Transaction, project: str, weight: int = 1) -> None:
    """This project has its turn now."""
    known = _rows(tx)
    ends, present = after_turn(known.get(project, 0), known.get(PRESENT, 0), weight)
    insert_or_update(tx, turns, {"project": project, "turn": ends})
    insert_or_update(tx, turns, {"project": PRESENT, "turn": present})


def last_turns(tx: Transaction) -> dict[str, int]:
    """Where the last turn of every project ended that had one; the lowest is next."""
    return {project: turn for project, turn in _rows(tx).items() if project != PRESENT}


def _rows(tx: Transaction) -> dict[str, int]:
    rows = tx.execute(select(turns)).mappings()
    return {row["project"]: row["turn"] for row in rows}

"""How far a restart came, in a database of any layout that has such rows.

Asked by a program whose layout is a later one, before it may bring the database to it.
"""

from __future__ import annotations

from sqlalchemy import and_, inspect, select, update

from hostler.clock import Clock
from hostler.store.operator_tables import runtime_operations as table
from hostler.store.place import Place
from hostler.store.runtime_operations import RESTART, OperationStatus, Step, step_of
from hostler.store.store import make_backend
from hostler.store.translate import translated
from hostler.store.writers import Patience

# Columns are named one by one: a later layout may have more of them.
_STEP = select(table.c.status, table.c.detail).where(table.c.op_name == RESTART)
_RUNNING = and_(table.c.op_name == RESTART, table.c.status == OperationStatus.RUNNING.value)


def peek_step(place: Place, clock: Clock, patience: Patience) -> Step | None:
    """The step of the restart that runs; None if none does, or nobody can say."""
    backend = make_backend(place, clock, patience)
    try:
        with translated(place, reading=True), backend.reading() as connection:
            if not inspect(connection).has_table(table.name):
                return None
            found = connection.execute(_STEP).one_or_none()
            return step_of(found.status, found.detail) if found is not None else None
    finally:
        backend.close()


def leave_step(place: Place, clock: Clock, patience: Patience, step: Step) -> None:
    """Note the step of the restart that runs, for a program of the layout that is there."""
    backend = make_backend(place, clock, patience)
    try:
        with translated(place), backend.writing(("operations",), relaxed=False) as connection:
            connection.execute(update(table).where(_RUNNING).values(detail=step.value))
            backend.before_commit(connection)
            connection.commit()
    finally:
        backend.close()

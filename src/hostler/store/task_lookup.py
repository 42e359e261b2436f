"""Find tasks by what people type: ids, their beginnings, issues."""

from __future__ import annotations

from sqlalchemy import and_, func, select

from hostler.store.dependencies import tasks_of_issues
from hostler.store.schema import tasks
from hostler.store.tasks import IssueRef
from hostler.store.transaction import Transaction


def ids_like(tx: Transaction, prefix: str, most: int) -> list[str]:
    """Ids that begin so, in their order; the first few."""
    # The comparison lets an index skip what is older; the second half is right in any collation.
    begins = func.substr(tasks.c.id, 1, len(prefix)) == prefix
    statement = select(tasks.c.id).where(and_(tasks.c.id >= prefix, begins))
    return list(tx.execute(statement.order_by(tasks.c.id).limit(most)).scalars())


def newest_of_issue(tx: Transaction, issue: IssueRef) -> str | None:
    """The id of an issue's newest task: after its design, the implementation."""
    found = tasks_of_issues(tx, [issue]).get(issue, ())
    return found[-1].id if found else None

"""Money: what is spent, and telling people once when a budget runs low or is used up."""

from __future__ import annotations

from collections.abc import Callable, Collection

from hostler.config.settings import Budget
from hostler.forge.deeds import Comment
from hostler.forge.outbox import enqueue, token_of
from hostler.model import stamp
from hostler.service.bulletin import Bulletin
from hostler.service.house import House
from hostler.service.purses import Level, Purse, Spendings, level, midnight, purses
from hostler.store import Transaction
from hostler.store.operator import first_time
from hostler.store.outbox import Lane
from hostler.store.runs import spent_by_tasks, spent_since
from hostler.store.tasks import Task

SCOPES = ("outbox", "tasks")
OCCASION = "budget"


def spendings(tx: Transaction, budget: Budget, tasks: Collection[str]) -> Spendings:
    """What was spent, as far as any budget asks for it."""
    daily = budget.per_repo_daily_usd > 0 or budget.per_day_usd > 0
    return Spendings(
        spent_by_tasks(tx, tasks) if budget.per_task_usd > 0 else {},
        spent_since(tx, stamp(midnight(tx.now()))) if daily else {},
    )


class Treasurer:
    """Looks at the budgets after each run."""

    def __init__(
        self, house: House, bulletin: Bulletin, told: Callable[[str, Purse], None]
    ) -> None:
        """`told`: hears of each budget that people are told of."""
        self._house = house
        self._bulletin = bulletin
        self._told = told

    def look(self, task: Task) -> None:
        """Tell of budgets that are low or used up, each once."""
        budget = self._house.settings.budget
        with self._house.store.read() as tx:
            found = purses(
                task.id, task.project, budget, spendings(tx, budget, [task.id]), tx.now()
            )
        for purse in found:
            how = level(purse, budget.warn_at_percent)
            if how is not Level.FINE:
                self._tell(task, purse, how)

    def _tell(self, task: Task, purse: Purse, how: Level) -> None:
        with self._house.store.write(*SCOPES) as tx:
            if not first_time(tx, cause(task, purse, how), OCCASION):
                return
            # A day that runs low is for the log; one that is used up holds people's work.
            asks = purse.until is None or how is not Level.LOW
            if asks and task.repo_full_name and (task.pr_number or task.number):
                token = token_of("budget", cause(task, purse, how))
                deed = Comment(task.pr_number or task.number, words(purse, how))
                enqueue(tx, task.repo, deed, token=token, lane=Lane.STATUS, source="budget")
        self._bulletin.warning(task, words(purse, how))
        self._told(task.id, purse)


def cause(task: Task, purse: Purse, how: Level) -> str:
    """What is told once: of this limit, for this task or day."""
    whose = task.id if purse.until is None else f"{purse.whose}:{stamp(purse.until)}"
    return f"budget:{how}:{purse.setting}:{purse.limit:g}:{whose}"


def words(purse: Purse, how: Level) -> str:
    """What people are told."""
    if how is Level.LOW:
        return f"{purse.sentence} Work goes on until all of it is used."
    return f"{purse.sentence} Nothing more starts for it. Shall it go on? {purse.remedy}"

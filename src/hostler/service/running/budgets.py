"""Compare spending with budget limits, and report once when a budget is low or used up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from hostler.config.settings import Budget
from hostler.forge.actions import CreateComment
from hostler.forge.outbox.queue import build_token, enqueue_action
from hostler.model import format_timestamp
from hostler.service.context import AppContext
from hostler.service.running.bus_messages import BusNotifier
from hostler.store import Transaction
from hostler.store.operator import first_time
from hostler.store.outbox import Lane
from hostler.store.runs import Spent, spent_by_tasks, spent_since
from hostler.store.tasks import Task


class BudgetLevel(StrEnum):
    """How far a budget is used."""

    FINE = "fine"
    LOW = "low"
    USED_UP = "used_up"


@dataclass(frozen=True, slots=True)
class BudgetUsage:
    """One budget, as far as it is used. `until`: when it is full again by itself."""

    setting: str
    whose: str
    limit: float
    spent: Spent
    until: datetime | None = None

    @property
    def sentence(self) -> str:
        """How much is used, and what cannot be told."""
        used = f"{self.whose} has used {self.spent.usd:.2f} of {self.limit:.2f} USD"
        count = self.spent.unpriced
        runs = "1 run" if count == 1 else f"{count} runs"
        more = f"; {runs} named no cost, and count as nothing" if count else ""
        return f"{used} (`[budget] {self.setting}`{more})."

    @property
    def remedy(self) -> str:
        """What a person can do."""
        raised = f"Raise `[budget] {self.setting}`"
        return f"{raised}, or wait until midnight UTC." if self.until else f"{raised}, or stop it."


@dataclass(frozen=True, slots=True)
class Spending:
    """What was spent: by task, and today by project."""

    tasks: Mapping[str, Spent] = field(default_factory=dict)
    today: Mapping[str, Spent] = field(default_factory=dict)


def budgets_of_task(
    task: str, project: str, budget: Budget, spent: Spending, now: datetime
) -> tuple[BudgetUsage, ...]:
    """The budgets that a task draws on; those without a limit are none."""
    tomorrow = day_start(now) + timedelta(days=1)
    everything = sum(spent.today.values(), Spent())
    found = (
        BudgetUsage(
            "per_task_usd", "This task", budget.per_task_usd, spent.tasks.get(task, Spent())
        ),
        BudgetUsage(
            "per_repo_daily_usd",
            f"Today, {project}",
            budget.per_repo_daily_usd,
            spent.today.get(project, Spent()),
            tomorrow,
        ),
        BudgetUsage("per_day_usd", "Today, everything", budget.per_day_usd, everything, tomorrow),
    )
    return tuple(usage for usage in found if usage.limit > 0)


def budget_level(usage: BudgetUsage, warn_at_percent: int) -> BudgetLevel:
    """How far a budget is used."""
    if usage.spent.usd >= usage.limit:
        return BudgetLevel.USED_UP
    low = usage.spent.usd * 100 >= usage.limit * warn_at_percent
    return BudgetLevel.LOW if low else BudgetLevel.FINE


def find_used_up(found: Iterable[BudgetUsage]) -> BudgetUsage | None:
    """The budget that holds a task: of several, the one that takes longest to be full again."""
    used = [usage for usage in found if budget_level(usage, 100) is BudgetLevel.USED_UP]
    return next((usage for usage in used if usage.until is None), next(iter(used), None))


def day_start(now: datetime) -> datetime:
    """When this day began, in UTC."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


_BUDGET_SCOPES = ("outbox", "tasks")
_OCCASION = "budget"


def read_spending(tx: Transaction, budget: Budget, tasks: Collection[str]) -> Spending:
    """What was spent, as far as any budget asks for it."""
    daily = budget.per_repo_daily_usd > 0 or budget.per_day_usd > 0
    return Spending(
        spent_by_tasks(tx, tasks) if budget.per_task_usd > 0 else {},
        spent_since(tx, format_timestamp(day_start(tx.now()))) if daily else {},
    )


class BudgetReporter:
    """Looks at the budgets after each run."""

    def __init__(
        self, app: AppContext, bus_notifier: BusNotifier, told: Callable[[str, BudgetUsage], None]
    ) -> None:
        """`told`: hears of each budget that people are told of."""
        self._app = app
        self._bus_notifier = bus_notifier
        self._told = told

    def look(self, task: Task) -> None:
        """Tell of budgets that are low or used up, each once."""
        budget = self._app.settings.budget
        with self._app.store.read() as tx:
            found = budgets_of_task(
                task.id, task.project, budget, read_spending(tx, budget, [task.id]), tx.now()
            )
        for usage in found:
            how = budget_level(usage, budget.warn_at_percent)
            if how is not BudgetLevel.FINE:
                self._tell(task, usage, how)

    def _tell(self, task: Task, usage: BudgetUsage, how: BudgetLevel) -> None:
        with self._app.store.write(*_BUDGET_SCOPES) as tx:
            if not first_time(tx, budget_cause_key(task, usage, how), _OCCASION):
                return
            # A day that runs low is for the log; one that is used up holds people's work.
            asks = usage.until is None or how is not BudgetLevel.LOW
            if asks and task.repo_full_name and (task.pr_number or task.number):
                token = build_token("budget", budget_cause_key(task, usage, how))
                deed = CreateComment(task.pr_number or task.number, budget_text(usage, how))
                enqueue_action(tx, task.repo, deed, token=token, lane=Lane.STATUS, source="budget")
        self._bus_notifier.warning(task, budget_text(usage, how))
        self._told(task.id, usage)


def budget_cause_key(task: Task, usage: BudgetUsage, how: BudgetLevel) -> str:
    """What is told once: of this limit, for this task or day."""
    whose = task.id if usage.until is None else f"{usage.whose}:{format_timestamp(usage.until)}"
    return f"budget:{how}:{usage.setting}:{usage.limit:g}:{whose}"


def budget_text(usage: BudgetUsage, how: BudgetLevel) -> str:
    """What people are told."""
    if how is BudgetLevel.LOW:
        return f"{usage.sentence} Work goes on until all of it is used."
    return f"{usage.sentence} Nothing more starts for it. Shall it go on? {usage.remedy}"

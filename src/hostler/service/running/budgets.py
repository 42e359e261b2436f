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
    """How much of a budget is used."""

    FINE = "fine"
    LOW = "low"
    USED_UP = "used_up"


@dataclass(frozen=True, slots=True)
class BudgetUsage:
    """How much of one budget is used. `until`: when a daily budget starts again."""

    setting: str
    subject: str
    limit: float
    spent: Spent
    until: datetime | None = None

    @property
    def sentence(self) -> str:
        """How much is used, and how many runs reported no cost."""
        spent_text = f"{self.subject} has used {self.spent.usd:.2f} of {self.limit:.2f} USD"
        count = self.spent.unpriced
        runs = "1 run" if count == 1 else f"{count} runs"
        more = f"; {runs} reported no cost, counted as 0" if count else ""
        return f"{spent_text} (`[budget] {self.setting}`{more})."

    @property
    def remedy(self) -> str:
        """What a user can do."""
        otherwise = "wait until midnight UTC" if self.until else "stop the task"
        return f"Raise `[budget] {self.setting}`, or {otherwise}."


@dataclass(frozen=True, slots=True)
class Spending:
    """What was spent: by task, and today by project."""

    tasks: Mapping[str, Spent] = field(default_factory=dict)
    today: Mapping[str, Spent] = field(default_factory=dict)


def budgets_of_task(
    task: str, project: str, budget: Budget, spent: Spending, now: datetime
) -> tuple[BudgetUsage, ...]:
    """Return the budgets that apply to a task, without those that have no limit."""
    tomorrow = day_start(now) + timedelta(days=1)
    everything = sum(spent.today.values(), Spent())
    budgets = (
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
    return tuple(usage for usage in budgets if usage.limit > 0)


def budget_level(usage: BudgetUsage, warn_at_percent: int) -> BudgetLevel:
    """Return how much of a budget is used."""
    if usage.spent.usd >= usage.limit:
        return BudgetLevel.USED_UP
    low = usage.spent.usd * 100 >= usage.limit * warn_at_percent
    return BudgetLevel.LOW if low else BudgetLevel.FINE


def find_used_up(budgets: Iterable[BudgetUsage]) -> BudgetUsage | None:
    """Return the used-up budget that holds a task longest; None if none is used up."""
    used_up = [usage for usage in budgets if budget_level(usage, 100) is BudgetLevel.USED_UP]
    return next((usage for usage in used_up if usage.until is None), next(iter(used_up), None))


def day_start(now: datetime) -> datetime:
    """Return the start of this day in UTC."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


_BUDGET_SCOPES = ("outbox", "tasks")
_OCCASION = "budget"


def read_spending(tx: Transaction, budget: Budget, tasks: Collection[str]) -> Spending:
    """Read what was spent, as far as a budget needs it."""
    daily = budget.per_repo_daily_usd > 0 or budget.per_day_usd > 0
    return Spending(
        spent_by_tasks(tx, tasks) if budget.per_task_usd > 0 else {},
        spent_since(tx, format_timestamp(day_start(tx.now()))) if daily else {},
    )


class BudgetReporter:
    """Reports budgets after each run."""

    def __init__(
        self, app: AppContext, notifier: BusNotifier, on_report: Callable[[str, BudgetUsage], None]
    ) -> None:
        """`on_report` is called with each budget that is reported to users."""
        self._app = app
        self._notifier = notifier
        self._on_report = on_report

    def report(self, task: Task) -> None:
        """Report budgets that are low or used up, each of them once."""
        budget = self._app.settings.budget
        with self._app.store.read() as tx:
            budgets = budgets_of_task(
                task.id, task.project, budget, read_spending(tx, budget, [task.id]), tx.now()
            )
        for usage in budgets:
            level = budget_level(usage, budget.warn_at_percent)
            if level is not BudgetLevel.FINE:
                self._report_usage(task, usage, level)

    def _report_usage(self, task: Task, usage: BudgetUsage, level: BudgetLevel) -> None:
        with self._app.store.write(*_BUDGET_SCOPES) as tx:
            if not first_time(tx, budget_cause_key(task, usage, level), _OCCASION):
                return
            # A daily budget that is low is only logged; one that is used up holds tasks back.
            asks = usage.until is None or level is not BudgetLevel.LOW
            if asks and task.repo_full_name and (task.pr_number or task.number):
                token = build_token("budget", budget_cause_key(task, usage, level))
                number = task.pr_number or task.number
                comment = CreateComment(number, budget_text(usage, level))
                enqueue_action(
                    tx, task.repo, comment, token=token, lane=Lane.STATUS, source="budget"
                )
        self._notifier.warning(task, budget_text(usage, level))
        self._on_report(task.id, usage)


def budget_cause_key(task: Task, usage: BudgetUsage, level: BudgetLevel) -> str:
    """Return the key of a report: one per limit, level, and task or day."""
    subject = task.id if usage.until is None else f"{usage.subject}:{format_timestamp(usage.until)}"
    return f"budget:{level}:{usage.setting}:{usage.limit:g}:{subject}"


def budget_text(usage: BudgetUsage, level: BudgetLevel) -> str:
    """Return the text of a report."""
    if level is BudgetLevel.LOW:
        return f"{usage.sentence} Agents continue to start until it is used up."
    question = "No further agents start for it. How should this continue?"
    return f"{usage.sentence} {question} {usage.remedy}"

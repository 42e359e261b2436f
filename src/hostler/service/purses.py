"""The rule of money: how much of which budget is used, and what that means. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from hostler.config.settings import Budget
from hostler.store.runs import Spent


class Level(StrEnum):
    """How far a budget is used."""

    FINE = "fine"
    LOW = "low"
    USED_UP = "used_up"


@dataclass(frozen=True, slots=True)
class Purse:
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
class Spendings:
    """What was spent: by task, and today by project."""

    tasks: Mapping[str, Spent] = field(default_factory=dict)
    today: Mapping[str, Spent] = field(default_factory=dict)


def purses(
    task: str, project: str, budget: Budget, spent: Spendings, now: datetime
) -> tuple[Purse, ...]:
    """The budgets that a task draws on; those without a limit are none."""
    tomorrow = midnight(now) + timedelta(days=1)
    everything = sum(spent.today.values(), Spent())
    found = (
        Purse("per_task_usd", "This task", budget.per_task_usd, spent.tasks.get(task, Spent())),
        Purse(
            "per_repo_daily_usd",
            f"Today, {project}",
            budget.per_repo_daily_usd,
            spent.today.get(project, Spent()),
            tomorrow,
        ),
        Purse("per_day_usd", "Today, everything", budget.per_day_usd, everything, tomorrow),
    )
    return tuple(purse for purse in found if purse.limit > 0)


def level(purse: Purse, warn_at_percent: int) -> Level:
    """How far a budget is used."""
    if purse.spent.usd >= purse.limit:
        return Level.USED_UP
    low = purse.spent.usd * 100 >= purse.limit * warn_at_percent
    return Level.LOW if low else Level.FINE


def empty(found: Iterable[Purse]) -> Purse | None:
    """The budget that holds a task: of several, the one that takes longest to be full again."""
    used = [purse for purse in found if level(purse, 100) is Level.USED_UP]
    return next((purse for purse in used if purse.until is None), next(iter(used), None))


def midnight(now: datetime) -> datetime:
    """When this day began, in UTC."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)

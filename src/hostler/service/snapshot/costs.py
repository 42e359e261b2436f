"""What is spent: money of today, and what watching costs of GitHub's limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hostler.config.settings import Budget, Settings
from hostler.forge.budget.caps import Caps
from hostler.forge.budget.costs import USUAL_LIMIT, Case, Plan, Watched, plan
from hostler.forge.budget.setups import setup_of
from hostler.model import stamp
from hostler.service.purses import midnight
from hostler.store import Transaction
from hostler.store.runs import Spent, spent_since


@dataclass(frozen=True, slots=True)
class Money:
    """What today has cost, by project, and what it may cost. 0: no limit."""

    today: Mapping[str, Spent]
    budget: Budget

    @property
    def total(self) -> Spent:
        """All projects together."""
        return sum(self.today.values(), Spent())

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "today_usd": round(self.total.usd, 6),
            "unpriced_runs": self.total.unpriced,
            "projects": {name: round(one.usd, 6) for name, one in sorted(self.today.items())},
            "per_task_usd": self.budget.per_task_usd,
            "per_repo_daily_usd": self.budget.per_repo_daily_usd,
            "per_day_usd": self.budget.per_day_usd,
        }


def money(tx: Transaction, budget: Budget) -> Money:
    """What was spent since midnight, in UTC."""
    return Money(spent_since(tx, stamp(midnight(tx.now()))), budget)


def github_plan(settings: Settings, pulls: Iterable[str]) -> Plan:
    """What watching costs, by the project of each pull request that is followed. Pure."""
    followed = Counter(pulls)
    watched = [
        Watched(followed[project], repo.pr_actions_feedback_policy != "never")
        for project, repo in settings.repo.items()
    ]
    caps = Caps(percent=settings.github.budget_percent)
    return plan(watched, setup_of(settings), caps, USUAL_LIMIT)


def plan_json(found: Plan) -> dict[str, Any]:
    """The same for programs."""
    return {
        "now": _case(found.now),
        "worst": _case(found.worst),
        "may_be_used": asdict(found.room),
        "advice": list(found.advice),
    }


def _case(case: Case) -> dict[str, Any]:
    total = {name: round(value, 3) for name, value in asdict(case.total).items()}
    return {**total, "stretch": round(case.stretch, 3), "fits": case.fits}

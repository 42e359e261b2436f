"""The rule of money, under any amounts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from hostler.config.settings import Budget
from hostler.service.running.budgets import (
    BudgetLevel,
    BudgetUsage,
    Spending,
    budget_cause_key,
    budget_level,
    budget_text,
    budgets_of_task,
    day_start,
    find_used_up,
)
from hostler.store.runs import Spent
from hostler.store.tasks import Flow, Task, TaskState

NOW = datetime(2026, 3, 1, 23, 59, 58, tzinfo=UTC)
amounts = st.floats(0, 1000, allow_nan=False)
spents = st.builds(Spent, amounts, st.integers(0, 5))
budgets = st.builds(
    Budget,
    per_task_usd=amounts,
    per_repo_daily_usd=amounts,
    per_day_usd=amounts,
    warn_at_percent=st.integers(1, 100),
)
TASK = Task(
    id="t1",
    project="stable",
    repo_full_name="octo/stable",
    issue_number=1,
    flow=Flow.BUGFIX,
    title="Crash",
    author="ann",
    state=TaskState.QUEUED,
    state_since="",
    order=1,
)


@given(budgets, spents, spents, spents)
def test_a_task_is_held_exactly_when_a_budget_with_a_limit_is_used_up(budget, task, here, there):
    spent = Spending({"t1": task}, {"stable": here, "barn": there})
    found = budgets_of_task("t1", "stable", budget, spent, NOW)
    used = {
        "per_task_usd": (task.usd, budget.per_task_usd),
        "per_repo_daily_usd": (here.usd, budget.per_repo_daily_usd),
        "per_day_usd": ((here + there).usd, budget.per_day_usd),
    }
    over = {name for name, (usd, limit) in used.items() if limit > 0 and usd >= limit}
    holds = find_used_up(found)
    assert (holds is not None) == bool(over)
    if holds is not None:
        assert holds.setting in over
        # What opens by itself is named only where nothing else holds.
        assert (holds.until is None) == ("per_task_usd" in over)
    assert all(budget.warn_at_percent and usage.limit > 0 for usage in found)


@given(spents, st.floats(0.01, 1000), st.integers(1, 100))
def test_levels_rise_with_what_is_spent(spent, limit, percent):
    usage = BudgetUsage("per_task_usd", "This task", limit, spent)
    more = BudgetUsage("per_task_usd", "This task", limit, spent + Spent(1.0))
    order = list(BudgetLevel)
    assert order.index(budget_level(more, percent)) >= order.index(budget_level(usage, percent))
    if budget_level(usage, percent) is BudgetLevel.FINE:
        assert spent.usd < limit
    if spent.usd >= limit:
        assert budget_level(usage, percent) is BudgetLevel.USED_UP


@given(st.integers(0, 5))
def test_what_cannot_be_told_is_said(unpriced):
    sentence = BudgetUsage("per_task_usd", "This task", 20, Spent(3.5, unpriced)).sentence
    assert "3.50 of 20.00 USD" in sentence
    assert ("reported no cost" in sentence) == (unpriced > 0)


def test_a_day_is_full_again_at_midnight_and_a_task_is_not():
    budget = Budget(per_task_usd=1, per_repo_daily_usd=1, per_day_usd=1)
    task, repo, day = budgets_of_task("t1", "stable", budget, Spending(), NOW)
    assert task.until is None
    assert repo.until == day.until == day_start(NOW) + timedelta(days=1)
    assert "midnight" in day.remedy and "midnight" not in task.remedy


def test_a_cause_is_a_limit_of_a_task_or_a_day():
    task = BudgetUsage("per_task_usd", "This task", 20, Spent(16))
    raised = BudgetUsage("per_task_usd", "This task", 30, Spent(16))
    assert budget_cause_key(TASK, task, BudgetLevel.LOW) != budget_cause_key(
        TASK, task, BudgetLevel.USED_UP
    )
    assert budget_cause_key(TASK, task, BudgetLevel.LOW) != budget_cause_key(
        TASK, raised, BudgetLevel.LOW
    )
    assert budget_cause_key(TASK, task, BudgetLevel.LOW) == budget_cause_key(
        TASK, BudgetUsage("per_task_usd", "This task", 20, Spent(17)), BudgetLevel.LOW
    )
    day = BudgetUsage("per_day_usd", "Today, everything", 20, Spent(25), NOW)
    later = BudgetUsage("per_day_usd", "Today, everything", 20, Spent(25), NOW + timedelta(days=1))
    assert budget_cause_key(TASK, day, BudgetLevel.LOW) != budget_cause_key(
        TASK, later, BudgetLevel.LOW
    )
    assert "t1" not in budget_cause_key(TASK, day, BudgetLevel.LOW)


def test_used_up_is_a_question_and_low_is_not():
    usage = BudgetUsage("per_task_usd", "This task", 20, Spent(21))
    assert (
        "?" in budget_text(usage, BudgetLevel.USED_UP) and "`[budget] per_task_usd`" in usage.remedy
    )
    assert "?" not in budget_text(usage, BudgetLevel.LOW)

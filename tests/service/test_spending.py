"""Budgets in a house: what would start is held, `why` names it, and people are told once."""

from __future__ import annotations

import pytest
from intake_yard import Yard, database
from why_stage import SERVED, process

from hostler.bus.bus import open_task_bus
from hostler.bus.message import MessageType
from hostler.clock import FakeClock
from hostler.config.settings import Agent, Budget, Repo, Settings
from hostler.governor.holders import HostView
from hostler.governor.policy import Policy
from hostler.service.context import AppContext
from hostler.service.running.budgets import BudgetReporter
from hostler.service.running.bus_messages import BusNotifier
from hostler.service.scheduling.admission import Admission, AdmissionDeps
from hostler.service.scheduling.explain import ExplainInputs, explain_task
from hostler.service.scheduling.gates import HomeGate
from hostler.store.outbox import open_writes
from hostler.store.runs import Run, RunState, add_run
from hostler.store.tasks import TaskState, require_task
from hostler.workflows.manual_tasks import TaskSubmission, submit_task


class Town:
    """A repository, its rows, and no service."""

    def __init__(self, home, store, clock, **budget: object) -> None:
        self.home, self.store, self.clock = home, store, clock
        self.yard = Yard(store, clock)
        self.settings = Settings(
            repo={"stable": Repo(owner="octo", name="stable")},
            agent={"helper": Agent(kind="command", command=["x"], pool="p")},
            budget=Budget(**budget),
        )
        self.app = AppContext(home, self.settings, store, hub=None)
        self.told: list[str] = []

    def filed(self) -> str:
        self.yard.file("Crash", "ann", "agent:bugfix")
        self.yard.poll()
        return self.yard.tasks()[-1].id

    def by_hand(self) -> str:
        with self.store.write("tasks") as tx:
            return submit_task(
                tx, TaskSubmission("stable", "Tidy up.", "ann", cwd=str(self.home))
            ).id

    def ran(self, task: str, usd: float, number: int = 1) -> None:
        with self.store.write("tasks") as tx:
            add_run(
                tx,
                Run(
                    f"r{number}-{task}",
                    task,
                    "stable",
                    number,
                    number,
                    "work",
                    "helper",
                    "command",
                    "p",
                    "f",
                    tx.stamp(),
                    state=RunState.ENDED,
                    exited_at=tx.stamp(),
                    usd=usd,
                ),
            )

    def task(self, name: str):
        with self.store.read() as tx:
            return require_task(tx, name)

    def look(self, name: str) -> None:
        bus_notifier = BusNotifier(self.app, self.clock, lambda error: None)
        treasurer = BudgetReporter(
            self.app, bus_notifier, lambda task, usage: self.told.append(task)
        )
        treasurer.report(self.task(name))

    def held(self, name: str):
        policy = Policy(caps={"p": 9}, memory_floor_mb=0)
        here = HostView(process(1), 10**6, lambda _: True)
        deps = AdmissionDeps(
            self.store, self.settings, lambda: policy, lambda: {"stable"}, lambda: here
        )
        with self.store.read() as tx:
            inputs = ExplainInputs(self.store, self.settings, policy, here, SERVED)
            asked = explain_task(tx, inputs, require_task(tx, name)).denial
        # Why it does not start, and that it does not, are one answer.
        first = Admission(deps).evaluate().choice.task
        assert first is None or first.id != name or asked is None
        return asked

    def said(self) -> list[str]:
        with self.store.read() as tx:
            return [row.payload for row in open_writes(tx) if row.token.startswith("budget-")]

    def on_bus(self, name: str) -> list[str]:
        bus = open_task_bus(self.home, "stable", name, self.clock)
        return [one.body for one in bus.tail(9, lambda m: m.type is MessageType.WARNING)]


@pytest.fixture
def open_town(tmp_path):
    clock = FakeClock()
    with database(clock) as store:
        yield lambda **budget: Town(tmp_path, store, clock, **budget)


def test_a_task_whose_budget_is_used_up_does_not_start_and_says_why(open_town):
    town = open_town(per_task_usd=20)
    name = town.filed()
    town.ran(name, 19.99)
    assert town.held(name) is None
    town.ran(name, 0.02, 2)
    held = town.held(name)
    assert held.gate is HomeGate.BUDGET and "20.01 of 20.00 USD" in held.why
    assert "per_task_usd" in held.remedy and held.until is None
    # Another task has a purse of its own.
    assert town.held(town.by_hand()) is None


def test_a_used_up_day_opens_at_midnight(open_town):
    town = open_town(per_task_usd=0, per_day_usd=5)
    name = town.filed()
    town.ran(name, 5.0)
    held = town.held(town.by_hand())
    assert held.gate is HomeGate.BUDGET and held.until is not None
    town.clock.advance((held.until - town.clock.now()).total_seconds())
    assert town.held(name) is None


def test_a_used_up_day_is_asked_about_once_where_it_was_met(open_town):
    town = open_town(per_task_usd=0, per_day_usd=5)
    name, other = town.filed(), town.filed()
    town.ran(name, 4.5)
    town.look(name)
    assert town.said() == []
    town.ran(name, 1.0, 2)
    for one in (name, other, name):
        town.look(one)
    (asked,) = town.said()
    assert "5.50 of 5.00 USD" in asked and "No further agents start" in asked


def test_people_are_told_once_at_each_level(open_town):
    town = open_town(per_task_usd=10)
    name = town.filed()
    town.ran(name, 7.9)
    town.look(name)
    assert town.said() == [] and town.told == []
    town.ran(name, 0.2, 2)
    for _ in range(3):
        town.look(name)
    (low,) = town.said()
    assert "8.10 of 10.00 USD" in low and town.on_bus(name)
    town.ran(name, 5, 3)
    for _ in range(3):
        town.look(name)
    assert len(town.said()) == 2 and "No further agents start" in town.said()[1]
    assert town.told == [name, name] and len(town.on_bus(name)) == 2


def test_a_task_by_hand_is_told_of_on_its_bus_alone(open_town):
    town = open_town(per_task_usd=1)
    name = town.by_hand()
    town.ran(name, 1.0)
    town.look(name)
    assert town.said() == [] and "No further agents start" in town.on_bus(name)[0]


def test_what_is_left_of_a_finished_run_is_not_held(open_town):
    town = open_town(per_task_usd=1)
    name = town.filed()
    town.ran(name, 2.0)
    town.yard.set(town.task(name), state=TaskState.PARKED, finishing=True)
    assert town.held(name) is None


def test_without_limits_nothing_is_held(open_town):
    town = open_town(per_task_usd=0)
    name = town.filed()
    town.ran(name, 10_000.0)
    town.look(name)
    assert town.held(name) is None and town.told == []

"""Admission by example: who is next, which gate holds whom, and what is noted and asked."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from hostler.clock import FakeClock
from hostler.config.settings import Budget
from hostler.governor.gate_info import POOL_GATES
from hostler.governor.gates import Gate as GovernorGate
from hostler.governor.gates import LeaseDenied
from hostler.governor.gates import LeaseGranted as Leased
from hostler.governor.policy import Policy
from hostler.model import format_timestamp
from hostler.planner.dependencies import Blocker, DependencyState
from hostler.planner.queue import BlockerChange
from hostler.service.polling.orchestrator import PollSchedule, RoundRobinSchedule, next_in_rotation
from hostler.service.restart import DrainEvent, DrainState, judge_restart, next_drain_state
from hostler.service.scheduling import admission, dispatch, gates
from hostler.service.scheduling.admission import (
    RECHECK_SECONDS,
    Admission,
    AdmissionDeps,
    AdmissionEvaluation,
    AdmittedTask,
    NextWakeup,
    QueuedRuns,
    allow_starts,
    budget_denials,
    count_queued_runs,
    denying_gates,
    disk_denial,
    find_returning_run,
    governor_check,
    governor_denial,
    lease_request,
    reacquire_request,
)
from hostler.service.scheduling.dispatch import DemandReporter, count_demand
from hostler.service.scheduling.explain import GATES
from hostler.service.scheduling.gates import (
    BEFORE_WORKERS,
    WAITING_STATES,
    AdmissionChoice,
    AdmissionSnapshot,
    DiskSpace,
    GateDenial,
    HomeGate,
    Placement,
    PriorityClass,
    allow_all,
    choose_next,
    find_denial,
    order_tasks,
    priority_class,
    waiting_time,
)
from hostler.service.tasks.summary import order_as_tree
from hostler.store.operator import Step
from hostler.store.runs import Run, RunState
from hostler.store.tasks import Flow, Task, TaskState
from hostler.workflows.manual_tasks import CHILDREN_BLOCKER

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HELD = GateDenial("custom", "why")


def ahead(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def at(seconds: float) -> str:
    return format_timestamp(ahead(seconds))


def task(name: str = "t1", state: TaskState = TaskState.QUEUED, order: int = 1, **more) -> Task:
    made = Task(name, "stable", None, None, Flow.TASK, "Tidy", "ann", state, at(-10), order)
    return replace(made, **more)


def place(project: str = "stable", **more) -> Placement:
    return replace(Placement(project, "helper", "command", "pool", 3, 2), **more)


def yard(*tasks: Task, **more) -> AdmissionSnapshot:
    given = {
        "now": NOW,
        "waiting": tasks,
        "placements": {one.id: place(one.project) for one in tasks},
    }
    return AdmissionSnapshot(**{**given, **more})


def gate(one: Task, **more) -> str | None:
    held = find_denial(one, yard(one, **more))
    return held and str(held.gate)


def run(name: str = "r1", task_id: str = "t1", **more) -> Run:
    made = Run(name, task_id, "stable", 1, 1, "work", "other", "claude", "pool", "f", at(0))
    return replace(made, **more)


# -- classes and order -----------------------------------------------------------------------------


def test_the_class_of_each_task():
    scene = yard()
    assert priority_class(task(), scene) is PriorityClass.NEW
    assert priority_class(task(parent_task="p"), scene) is PriorityClass.CHILD
    assert priority_class(task(pr_number=3), scene) is PriorityClass.FEEDBACK
    assert priority_class(task(question="Why?"), scene) is PriorityClass.FEEDBACK
    assert priority_class(task(state=TaskState.RETRYING), scene) is PriorityClass.CONTINUATION
    assert priority_class(task(state=TaskState.PARKED), scene) is PriorityClass.CONTINUATION
    assert (
        PriorityClass.CONTINUATION,
        PriorityClass.FEEDBACK,
        PriorityClass.CHILD,
        PriorityClass.NEW,
    ) == (0, 1, 2, 3)


def test_after_fifteen_minutes_everybody_is_in_the_first_class():
    assert priority_class(task(state_since=at(-900)), yard()) is PriorityClass.CONTINUATION
    assert priority_class(task(state_since=at(-899)), yard()) is PriorityClass.NEW
    assert waiting_time(task(state_since=at(50)), NOW) == timedelta(0)
    assert waiting_time(task(state_since=at(-50)), NOW) == timedelta(seconds=50)


def names(tasks) -> list[str]:
    return [one.id for one in tasks]


def test_classes_come_first_then_turns_of_projects_then_the_order():
    tasks = [
        task("new", order=0),
        task("child", order=1, parent_task="p"),
        task("feedback", order=2, pr_number=3),
        task("again", TaskState.RETRYING, order=3),
    ]
    assert names(order_tasks(tasks, yard())) == ["again", "feedback", "child", "new"]
    other = [task("a", order=1), task("b", order=2, project="barn"), task("c", order=2)]
    assert names(order_tasks(other, yard())) == ["a", "b", "c"]
    served = {"stable": 5, "barn": 4}
    assert names(order_tasks(other, yard(last_turns=served))) == ["b", "a", "c"]
    # One that was never served is before all that were.
    assert names(order_tasks(other, yard(last_turns={"stable": 1}))) == ["b", "a", "c"]
    assert names(order_tasks(other, yard(last_turns={"stable": -1}))) == ["a", "c", "b"]


def test_where_root_tasks_are_counted_they_start_as_they_came():
    tasks = [task("a", order=1), task("b", order=2, project="barn")]
    served = {"stable": 5, "barn": 4}
    assert names(order_tasks(tasks, yard(last_turns=served, max_root_tasks=1))) == ["a", "b"]
    old = [replace(one, pr_number=3) for one in tasks]
    assert names(order_tasks(old, yard(last_turns=served, max_root_tasks=1))) == ["b", "a"]
    assert names(order_tasks(tasks, yard(last_turns=served, max_root_tasks=0))) == ["b", "a"]
    mixed = [task("first", order=9), task("child", order=0, parent_task="p")]
    fair = yard(last_turns={"stable": 9}, max_root_tasks=1)
    assert names(order_tasks(mixed, fair)) == ["child", "first"]


def test_what_is_not_counted_is_none():
    empty = AdmissionSnapshot(NOW, {})
    assert (empty.active_runs, empty.running_roots, empty.max_runs, empty.max_root_tasks) == (
        0,
        0,
        0,
        0,
    )
    assert (empty.drain_reason, empty.promotion_wait) == ("", timedelta(minutes=15))
    held = GateDenial("cap", "why")
    assert (held.remedy, held.since, held.until, held.excess) == ("", None, None, 0)
    granted, next_wakeup = AdmittedTask(task(), None), NextWakeup()
    assert granted.back is False and granted.cleared is False
    assert next_wakeup.opens is None and next_wakeup.recheck_seconds is None


def test_the_first_whom_no_gate_holds_is_chosen():
    tasks = [task("a", order=1), task("b", order=2), task("c", order=3)]
    scene = yard(*tasks, busy_tasks=frozenset({"a"}))
    found = choose_next(tasks, scene, lambda one: HELD if one.id == "b" else None)
    assert (
        found.task is tasks[2] and set(found.denials) == {"a", "b"} and found.denials["b"] is HELD
    )
    assert choose_next(tasks, scene).task is tasks[1] and allow_all(tasks[0]) is None
    none = choose_next(tasks, scene, lambda one: HELD)
    assert none.task is None and set(none.denials) == {"a", "b", "c"}
    finishing = task("d", TaskState.PARKED, finishing=True)
    assert choose_next([finishing], yard(finishing), lambda one: HELD).task is finishing


# -- gates -----------------------------------------------------------------------------------------


def test_a_task_waits_until_its_time():
    later = task(state=TaskState.RETRYING, wake_at=at(1), reason="Later.")
    held = find_denial(later, yard(later))
    assert (held.gate, held.why, held.until) == (HomeGate.TIME, "Later.", ahead(1))
    assert (
        gate(replace(later, wake_at=at(0))) is None and gate(replace(later, wake_at=None)) is None
    )
    assert gate(replace(later, state=TaskState.QUEUED)) is None


def test_a_wait_that_began_in_the_future_is_not_believed():
    later = task(state=TaskState.PARKED, wake_at=at(900))
    assert gate(replace(later, state_since=at(60))) == "time"
    assert gate(replace(later, state_since=at(61))) is None


def test_a_task_whose_run_has_not_ended_waits_for_that():
    assert gate(task(), busy_tasks=frozenset({"t1"})) == "open_run"
    assert gate(task(), busy_tasks=frozenset({"t2"})) is None


def test_a_task_that_is_done_waits_for_its_children_until_its_time():
    done = task(state=TaskState.PARKED, finishing=True, blockers=CHILDREN_BLOCKER, wake_at=at(1))
    parents = frozenset({"t1"})
    held = find_denial(done, yard(done, busy_parents=parents))
    assert (held.gate, held.until) == (HomeGate.CHILDREN, ahead(1))
    assert gate(done) is None
    assert gate(replace(done, wake_at=at(0)), busy_parents=parents) is None
    assert gate(replace(done, wake_at=None), busy_parents=parents) is None
    other = task(state=TaskState.PARKED, wake_at=at(-1))
    assert gate(other, busy_parents=parents) is None


def test_a_task_needs_a_place_that_is_ready_and_not_paused():
    assert gate(task(), placements={}) == "watched"
    assert gate(task(), placements={"t1": place(ready=False)}) == "ready"
    held = find_denial(task(), yard(placements={"t1": place(paused="It is paused.")}))
    assert (held.gate, held.why) == (HomeGate.PAUSED, "It is paused.")
    made = Placement("p", "a", "k", "pool", 1)
    assert (made.weight, made.paused, made.ready) == (1, "", True)


def test_in_a_drain_only_those_begin_whom_somebody_waits_for():
    held = find_denial(task(), yard(task(), drain_reason="It restarts."))
    assert (held.gate, held.why) == (HomeGate.DRAIN, "It restarts.")
    assert gate(task(), drain_reason="x", drain_exempt=frozenset({"t1"})) is None
    assert gate(task(), drain_exempt=frozenset({"t2"})) is None


def test_disk_budget_and_dependencies_hold_what_is_to_begin():
    full, empty, needed = (
        GateDenial(name, "") for name in (HomeGate.DISK, HomeGate.BUDGET, HomeGate.DEPENDENCIES)
    )
    assert gate(task(), disk_denial=full) == "disk"
    assert (
        gate(task(), budget_denials={"t1": empty}) == "budget"
        and gate(task(), budget_denials={"x": empty}) is None
    )
    assert gate(task(), dependency_denials={"t1": needed}) == "dependencies"
    assert gate(task(attempt=1), dependency_denials={"t1": needed}) is None
    ours = task(state=TaskState.PARKED, finishing=True)
    assert (
        gate(
            ours, disk_denial=full, budget_denials={"t1": empty}, dependency_denials={"t1": needed}
        )
        is None
    )


def test_root_tasks_are_counted_without_those_who_wait_for_the_task():
    held = find_denial(task(), yard(task(), running_roots=3, max_root_tasks=2))
    assert (held.gate, held.excess) == (HomeGate.ROOT_TASKS, 1)
    assert held.why == "3 of 2 root tasks are running."
    assert gate(task(), running_roots=2, max_root_tasks=2) == "root_tasks"
    assert gate(task(), running_roots=1, max_root_tasks=2) is None
    assert gate(task(), running_roots=2, max_root_tasks=2, waiting_roots={"t1": 1}) is None
    assert gate(task(parent_task="p"), running_roots=9, max_root_tasks=2) is None


def test_runs_are_counted_by_the_homes_limit():
    held = find_denial(task(), yard(task(), active_runs=3, max_runs=2))
    assert (held.gate, held.excess) == (HomeGate.RUNS, 1)
    assert held.why == "3 of 2 agents are running in this home."
    assert (
        gate(task(), active_runs=1, max_runs=2) is None
        and gate(task(), active_runs=2, max_runs=2) == "runs"
    )
    assert (
        gate(task(), active_runs=9, max_runs=0) is None
        and gate(task(), active_runs=9, max_runs=-1) is None
    )
    assert gate(task(), active_runs=1, max_runs=1) == "runs"
    ours = task(state=TaskState.PARKED, finishing=True)
    assert gate(ours, active_runs=9, max_runs=2) is None


def test_gates_answer_in_their_order():
    one = task(state=TaskState.RETRYING, wake_at=at(9))
    everything = {
        "busy_tasks": frozenset({"t1"}),
        "placements": {},
        "drain_reason": "x",
        "disk_denial": GateDenial(HomeGate.DISK, ""),
        "budget_denials": {"t1": GateDenial(HomeGate.BUDGET, "")},
        "dependency_denials": {"t1": GateDenial(HomeGate.DEPENDENCIES, "")},
        "running_roots": 9,
        "max_root_tasks": 1,
        "active_runs": 9,
        "max_runs": 1,
    }
    found = []
    opening = [
        lambda: None,
        lambda: everything.update(busy_tasks=frozenset()),
        lambda: everything.update(placements={"t1": place(ready=False, paused="x")}),
        lambda: everything.update(placements={"t1": place(paused="x")}),
        lambda: everything.update(placements={"t1": place()}),
        lambda: everything.update(drain_reason=""),
        lambda: everything.update(disk_denial=None),
        lambda: everything.update(budget_denials={}),
        lambda: everything.update(dependency_denials={}),
        lambda: everything.update(running_roots=0),
        lambda: everything.update(active_runs=0),
    ]
    found.append(gate(one, **everything))
    for index, act in enumerate(opening):
        act()
        found.append(gate(replace(one, wake_at=None), **everything))
        assert index < len(opening)
    assert found == [
        *("time", "open_run", "watched", "ready", "paused", "drain", "disk", "budget"),
        *("dependencies", "root_tasks", "runs", None),
    ]
    assert [*HomeGate][:11] == [one for one in HomeGate if one in BEFORE_WORKERS]
    assert WAITING_STATES == (TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED)


# -- the edge of admission -------------------------------------------------------------------------

NO = LeaseDenied(GovernorGate.CAP, "pool", "stable", "Full.", "Wait.", 5, 3, ahead(-9), ahead(9))


def test_the_governors_no_is_a_gate_as_any_other():
    assert governor_denial(NO) == GateDenial("cap", "Full.", "Wait.", ahead(-9), ahead(9), 2)
    assert governor_denial(replace(NO, found=1, allowed=3)).excess == 0
    assert governor_denial(replace(NO, found=4, allowed=3)).excess == 1


def test_what_is_asked_of_the_governor():
    asked = lease_request(task("t7"), place(), "lease")
    assert (asked.lease, asked.project, asked.pool, asked.task_id) == (
        *("lease", "stable"),
        *("pool", "t7"),
    )
    assert (asked.program, asked.width, asked.weight) == ("helper", 3, 2)
    back = reacquire_request(run(), yard(task()))
    assert (back.lease, back.project, back.pool, back.task_id) == ("r1", "stable", "pool", "t1")
    assert (back.program, back.width, back.weight) == ("helper", 3, 2)
    lost = reacquire_request(run(), yard())
    assert (lost.program, lost.width, lost.weight) == ("other", 0, 1)


def test_the_governor_is_asked_once_per_pool_and_project(monkeypatch):
    asked = []

    def preview(tx, ask, policy, here):
        asked.append((ask.pool, ask.project, ask.lease))
        return NO if ask.project == "stable" else None

    monkeypatch.setattr(admission, "preview", preview)
    tasks = [task("a"), task("b"), task("c", project="barn"), task("d")]
    scene = yard(*tasks)
    scene.placements["d"] = place(pool="other")
    further = governor_check("tx", scene, Policy(), "here")
    assert [further(one) for one in tasks] == [
        governor_denial(NO),
        governor_denial(NO),
        None,
        governor_denial(NO),
    ]
    assert further(tasks[2]) is None
    assert asked == [("pool", "stable", "a"), ("pool", "barn", "c"), ("other", "stable", "d")]


def test_the_run_that_asked_first_has_its_place_back(monkeypatch):
    open_now = {"r1", "r2", "r3"}
    monkeypatch.setattr(
        admission, "preview", lambda tx, ask, policy, here: None if ask.lease in open_now else NO
    )
    runs = [
        run("r2", slot_requested_at=at(2), slot_released_at=at(0)),
        run("r1", slot_requested_at=at(1), slot_released_at=at(0)),
        run("r0", slot_requested_at=None, slot_released_at=at(0)),
        run("r3", slot_requested_at=at(0), slot_released_at=None),
    ]

    def found(**more):
        one = find_returning_run("tx", yard(**more), runs, Policy(), "here")
        return one and one.run

    assert found() == "r1"
    open_now.discard("r1")
    assert found() == "r2"
    open_now.discard("r2")
    assert found() is None
    open_now.add("r2")
    assert found(active_runs=2, max_runs=2) is None and found(active_runs=3, max_runs=2) is None
    assert found(active_runs=1, max_runs=2) == "r2" and found(active_runs=9, max_runs=0) == "r2"
    assert found(active_runs=1, max_runs=1) is None


def test_a_disk_that_is_too_full_holds_everybody():
    assert (
        disk_denial([DiskSpace("/x", 5000.0, 1e6)], 1000) is None and disk_denial([], 1000) is None
    )
    held = disk_denial([DiskSpace("/x", 500.0, 1e6)], 1000)
    assert held.gate == HomeGate.DISK and "/x" in held.why and held.remedy


def test_a_used_up_budget_holds_its_tasks(monkeypatch):
    usage = SimpleNamespace(sentence="Used up.", remedy="Raise it.", until=ahead(5))
    asked = []
    monkeypatch.setattr(admission, "read_spending", lambda tx, budget, tasks: asked.append(tasks))
    monkeypatch.setattr(admission, "budgets_of_task", lambda name, *given: name)
    monkeypatch.setattr(admission, "find_used_up", lambda name: usage if name == "t1" else None)
    tx = SimpleNamespace(now=lambda: NOW)
    found = budget_denials(tx, Budget(), [task("t1"), task("t2")])
    assert found == {"t1": GateDenial(HomeGate.BUDGET, "Used up.", "Raise it.", until=ahead(5))}
    assert asked == [["t1", "t2"]]


def test_with_no_free_worker_only_the_gates_before_it_are_told():
    tasks = [task("a"), task("b"), task("c")]
    scene = yard(*tasks, busy_tasks=frozenset({"a"}), active_runs=1, max_runs=1)
    seen = AdmissionEvaluation(scene, AdmissionChoice(None, {"b": GateDenial("cap", "")}))
    assert denying_gates(seen, None) == {"b": "cap"}
    full = GateDenial(HomeGate.WORKERS, "")
    assert denying_gates(seen, full) == {"a": "open_run", "b": "workers", "c": "workers"}
    assert count_queued_runs(scene) == 2 and count_queued_runs(yard(*tasks)) == 0
    idle = AdmissionEvaluation(yard(*tasks), AdmissionChoice(None, {}))
    assert denying_gates(idle, full) == dict.fromkeys("abc", "workers")
    assert idle.back is False


class AdmissionFixture:
    """An office without a database: rows are attributes, and what is stored is noted."""

    def __init__(self, monkeypatch, **rows):
        self.noted, self.turns, self.asked = [], [], []
        self.rows = {"open_runs": [], "running": [], "waiting": [], "tasks": {}, **rows}
        for name, answer in {
            "open_runs": lambda tx: self.rows["open_runs"],
            "tasks_in": self._tasks_in,
            "require_task": lambda tx, name: self.rows["tasks"][name],
            "all_pauses": lambda tx: {},
            "closed_pools": lambda tx, policy: frozenset(),
            "find_placement": lambda settings, one, *rest: self.rows.get("places", {}).get(
                one.id, place(one.project)
            ),
            "find_dependency_denials": lambda tx, tasks: {},
            "read_spending": lambda tx, budget, tasks: None,
            "find_used_up": lambda purses: None,
            "budgets_of_task": lambda *given: None,
            "last_turns": lambda tx: {"stable": 3},
            "count_waiting_roots": lambda tx, runs, running: {"a": len(running)},
            "find_awaited": lambda tx, runs, waiting: frozenset({"spared"}),
            "preview": lambda tx, ask, policy, here: self.rows.get("denied"),
            "note_gate": lambda tx, name, found: self.noted.append((name, found)),
            "take_turn": lambda tx, *given: self.turns.append(given),
            "begin_turn": lambda tx, one: replace(one, state=TaskState.RUNNING),
            "load_turn_input": lambda tx, one: "material",
            "turn_kind": lambda one, material: SimpleNamespace(value="work"),
            "admit_run": self._admit,
            "acquire": lambda tx, ask, policy, here: self.rows.get("answer", Leased("r", "p")),
            "reacquire": lambda tx, ask, policy, here: self.rows.get("answer", Leased("r", "p")),
            "return_run_slot": lambda tx, one: replace(one, slot_released_at=None),
            "resume_finishing": lambda tx, one: replace(one, state=TaskState.RUNNING),
            "is_in_tree": lambda tx, one, only: one.id in only,
        }.items():
            monkeypatch.setattr(admission, name, answer)
        limits = SimpleNamespace(
            max_concurrent_runs=rows.get("max_runs", 0),
            max_concurrent_root_tasks=0,
            waiting_joins_first_class_seconds=60,
            child_poll_interval_seconds=0.5,
            dependency_poll_interval_seconds=7.0,
        )
        settings = SimpleNamespace(
            tasks=limits,
            runtime=SimpleNamespace(disk_floor_mb=1000),
            budget=Budget(),
            repo={"stable": SimpleNamespace(weight=4)},
        )
        self.deps = AdmissionDeps(
            self,
            settings,
            Policy,
            lambda: ["stable"],
            lambda: "here",
            lambda tx: self.rows.get("closed", ""),
            lambda: self.rows.get("rooms", ()),
        )
        self.scopes = []

    def _tasks_in(self, tx, states):
        return self.rows["running"] if states == (TaskState.RUNNING,) else self.rows["waiting"]

    def _admit(self, tx, new):
        self.asked.append(new)
        return run("new", new.task_id)

    @contextmanager
    def read(self):
        yield SimpleNamespace(now=lambda: NOW)

    @contextmanager
    def write(self, *scopes):
        self.scopes.append(scopes)
        yield SimpleNamespace(now=lambda: NOW)


def test_a_yard_counts_what_the_rows_say(monkeypatch):
    stopped = task("stopped", TaskState.STOPPED)
    rows = {
        "open_runs": [
            run("r0", "a", state=RunState.STARTING),
            run("r1", "a", state=RunState.RUNNING),
            run("r2", "stopped", state=RunState.RUNNING, slot_released_at=at(0)),
            run("r3", "kid", state=RunState.EXITED),
        ],
        "running": [task("a"), task("kid", parent_task="a"), task("idle", parent_task="b")],
        "waiting": [task("w")],
        "tasks": {"stopped": stopped},
        "max_runs": 5,
        "rooms": (DiskSpace("/x", 1.0, 1e6),),
    }
    fixture = AdmissionFixture(monkeypatch, **rows)
    with fixture.read() as tx:
        found = Admission(fixture.deps).read_snapshot(tx)
    assert names(found.waiting) == ["w"] and found.now == NOW
    assert set(found.placements) == {"w", "a", "kid", "idle", "stopped"}
    assert found.busy_tasks == {"a", "stopped", "kid"} and found.busy_parents == {"a"}
    assert (found.active_runs, found.running_roots) == (2, 2)
    assert (found.max_runs, found.max_root_tasks) == (5, 0)
    assert found.last_turns == {"stable": 3} and found.waiting_roots == {"a": 4}
    assert found.disk_denial.gate == HomeGate.DISK and found.promotion_wait == timedelta(seconds=60)
    assert found.drain_reason == "" and found.drain_exempt == frozenset()
    fixture.rows["closed"] = "It restarts."
    with fixture.read() as tx:
        drained = Admission(fixture.deps).read_snapshot(tx, [])
    assert drained.drain_reason == "It restarts." and drained.drain_exempt == {"spared"}
    assert drained.busy_tasks == frozenset() and allow_starts(tx) == ""


def test_tasks_without_a_place_are_left_out_of_the_places(monkeypatch):
    fixture = AdmissionFixture(monkeypatch, waiting=[task("w"), task("x")], places={"x": None})
    with fixture.read() as tx:
        assert set(Admission(fixture.deps).read_snapshot(tx).placements) == {"w"}


def test_only_what_was_named_is_admitted(monkeypatch):
    fixture = AdmissionFixture(monkeypatch, waiting=[task("w"), task("x")])
    with fixture.read() as tx:
        assert names(Admission(fixture.deps, ["x"]).read_snapshot(tx).waiting) == ["x"]
        assert names(Admission(fixture.deps).read_snapshot(tx).waiting) == ["w", "x"]


def test_nobody_who_can_start_takes_no_write_lock(monkeypatch):
    fixture = AdmissionFixture(monkeypatch, waiting=[task("w")], denied=NO)
    assert Admission(fixture.deps).admit_next() is None and not fixture.scopes
    assert Admission(AdmissionFixture(monkeypatch).deps).admit_next() is None


def test_whoever_is_next_begins_with_a_run_a_lease_and_a_turn_of_its_project(monkeypatch):
    waiting = task("w", blockers='[["x", false]]')
    fixture = AdmissionFixture(monkeypatch, waiting=[waiting])
    found = Admission(fixture.deps).admit_next()
    assert found.task.id == "w" and found.task.blockers == "" and found.cleared and not found.back
    assert found.run.run == "new" and fixture.turns == [("stable", 4)]
    (new,) = fixture.asked
    assert (new.task_id, new.project, new.kind) == ("w", "stable", "work")
    assert (new.agent, new.agent_kind, new.pool) == ("helper", "command", "pool")
    assert fixture.scopes == [("admission", "outbox", "tasks")]
    plain = AdmissionFixture(monkeypatch, waiting=[task("w", project="hand")])
    assert not Admission(plain.deps).admit_next().cleared and plain.turns == [("hand", 1)]


def test_a_lease_that_is_refused_after_it_was_promised_undoes_the_start(monkeypatch):
    fixture = AdmissionFixture(monkeypatch, waiting=[task("w")], answer=NO)
    with pytest.raises(RuntimeError, match="denied after the gates had passed: Full"):
        Admission(fixture.deps).admit_next()


def test_our_own_part_of_a_task_needs_no_run(monkeypatch):
    ours = task("w", TaskState.PARKED, finishing=True)
    fixture = AdmissionFixture(monkeypatch, waiting=[ours], denied=NO)
    assert Admission(fixture.deps).admit_next() == AdmittedTask(
        replace(ours, state=TaskState.RUNNING), None
    )
    assert not fixture.asked and fixture.turns == [("stable", 4)]
    queued = task("w", TaskState.QUEUED, finishing=True)
    again = AdmissionFixture(monkeypatch, waiting=[queued])
    assert Admission(again.deps).admit_next().run is not None


def test_a_run_that_wants_its_place_back_goes_before_all_tasks(monkeypatch):
    lent = run("r1", "t9", slot_released_at=at(0), slot_requested_at=at(1), state=RunState.RUNNING)
    parent = task("t9", TaskState.RUNNING)
    rows = {"open_runs": [lent], "running": [parent], "tasks": {"t9": parent}}
    fixture = AdmissionFixture(monkeypatch, waiting=[task("w")], **rows)
    seen = Admission(fixture.deps).evaluate()
    assert seen.back is True and seen.choice.task.id == "w"
    found = Admission(fixture.deps).admit(seen, iter([True, False]).__next__)[0][0]
    assert found == AdmittedTask(parent, replace(lent, slot_released_at=None), back=True)
    alone = AdmissionFixture(monkeypatch, **rows)
    assert Admission(alone.deps).admit_next().back
    refused = AdmissionFixture(monkeypatch, answer=NO, **rows)
    with pytest.raises(RuntimeError, match="a lease was denied after the gates had passed"):
        Admission(refused.deps).admit_next()


def test_gates_are_noted_where_they_have_changed(monkeypatch):
    tasks = [task("a", gate="cap"), task("b", gate="time"), task("c")]
    counted = QueuedRuns()
    changes = []
    counted.set_waiting_run_hook(changes.append)
    fixture = AdmissionFixture(monkeypatch)
    held = {"a": GateDenial("cap", "", until=ahead(9)), "b": GateDenial("cap", "", until=ahead(5))}
    scene = yard(*tasks, active_runs=1, max_runs=1)
    found = Admission(fixture.deps, queued=counted).note_gates(
        AdmissionEvaluation(scene, AdmissionChoice(None, held)), None
    )
    assert fixture.noted == [("b", "cap")] and fixture.scopes == [("tasks",)] and changes == [3]
    assert found == NextWakeup(ahead(5), RECHECK_SECONDS)


@pytest.mark.parametrize(
    ("held", "back", "next_wakeup"),
    [
        ({}, False, NextWakeup()),
        ({}, True, NextWakeup(None, RECHECK_SECONDS)),
        (
            {"a": GateDenial(HomeGate.BUDGET, "", until=ahead(3))},
            False,
            NextWakeup(ahead(3)),
        ),
        ({"a": GateDenial(HomeGate.DISK, "")}, False, NextWakeup(None, RECHECK_SECONDS)),
        (
            {
                "a": GateDenial(HomeGate.BUDGET, ""),
                "b": GateDenial(HomeGate.BUDGET, "", until=ahead(3)),
            },
            False,
            NextWakeup(ahead(3)),
        ),
    ],
)
def test_what_is_to_be_expected_of_the_gates(monkeypatch, held, back, next_wakeup):
    fixture = AdmissionFixture(monkeypatch)
    scene = yard(*(task(name, gate=str(one.gate)) for name, one in held.items()))
    found = Admission(fixture.deps).note_gates(
        AdmissionEvaluation(scene, AdmissionChoice(None, held), back), None
    )
    assert found == next_wakeup and not fixture.noted and not fixture.scopes


@pytest.mark.parametrize(
    ("gates_closed", "seconds"),
    [
        ((HomeGate.CHILDREN,), 0.5),
        ((HomeGate.DEPENDENCIES,), 7.0),
        ((HomeGate.DEPENDENCIES, HomeGate.DISK), RECHECK_SECONDS),
        ((HomeGate.BUDGET, HomeGate.PAUSED), None),
    ],
)
def test_closed_gates_are_checked_again_after_the_configured_intervals(
    monkeypatch, gates_closed, seconds
):
    fixture = AdmissionFixture(monkeypatch)
    denials = {f"t{n}": GateDenial(gate, "") for n, gate in enumerate(gates_closed)}
    scene = yard(*(task(name, gate=str(one.gate)) for name, one in denials.items()))
    evaluation = AdmissionEvaluation(scene, AdmissionChoice(None, denials))
    found = Admission(fixture.deps).note_gates(evaluation, None)
    assert found == NextWakeup(None, seconds)


def test_one_pass_starts_several_tasks_from_one_snapshot_in_one_transaction(monkeypatch):
    waiting = [task("a", order=1), task("b", order=2), task("c", order=3)]
    fixture = AdmissionFixture(monkeypatch, waiting=waiting, max_runs=2)
    subject = Admission(fixture.deps)
    reads = []
    read_snapshot = subject.read_snapshot
    monkeypatch.setattr(
        subject, "read_snapshot", lambda *given: reads.append(1) or read_snapshot(*given)
    )
    admitted, after = subject.admit(subject.evaluate(), lambda: True)
    assert names(one.task for one in admitted) == ["a", "b"]
    assert names(after.snapshot.waiting) == ["c"] and after.snapshot.active_runs == 2
    assert after.choice.denials["c"].gate == HomeGate.RUNS
    # One evaluation without the write lock, and one snapshot with it.
    assert len(reads) == 2 and len(fixture.scopes) == 1


def test_a_start_that_fails_does_not_undo_those_before_it(monkeypatch):
    waiting = [task(name, order=order) for order, name in enumerate("abcd")]
    fixture = AdmissionFixture(monkeypatch, waiting=waiting)

    def acquire(tx, ask, policy, here):
        return NO if ask.task_id == "c" else Leased("r", "p")

    monkeypatch.setattr(admission, "acquire", acquire)
    subject, workers = Admission(fixture.deps), []
    admitted, after = subject.admit(subject.evaluate(), lambda: workers.append(1) is None)
    assert names(one.task for one in admitted) == ["a", "b"]
    assert after.choice.task.id == "c" and len(workers) == 3
    # The failing one comes first in the next pass, and its error is not hidden there.
    fixture.rows["waiting"] = waiting[2:]
    with pytest.raises(RuntimeError, match="denied after the gates had passed"):
        subject.admit(subject.evaluate(), lambda: True)


def test_no_more_tasks_start_than_there_are_workers(monkeypatch):
    fixture = AdmissionFixture(monkeypatch, waiting=[task("a", order=1), task("b", order=2)])
    subject = Admission(fixture.deps)
    workers = iter([True, False])
    admitted, after = subject.admit(subject.evaluate(), lambda: next(workers))
    assert names(one.task for one in admitted) == ["a"]
    assert after.choice.task.id == "b"


def test_every_gate_has_one_row_and_every_row_a_gate():
    assert [row.name for row in gates.HOME_GATES] == [gate.value for gate in HomeGate]
    assert [row.name for row in POOL_GATES] == [gate.value for gate in GovernorGate]
    assert all(row.label and row.meaning and row.remedy for row in GATES)
    assert len({row.label for row in GATES}) == len(GATES)
    assert [row.name for row in gates.HOME_GATES if row.check is None] == [HomeGate.WORKERS]


# -- demand ----------------------------------------------------------------------------------------


def test_what_only_the_governor_could_hold_is_wanted():
    tasks = [task("a"), task("b"), task("c", project="barn"), task("busy")]
    tasks.append(task("ours", TaskState.PARKED, finishing=True))
    scene = yard(*tasks, busy_tasks=frozenset({"busy"}))
    assert count_demand(scene) == {
        ("pool", "stable"): (2, place()),
        ("pool", "barn"): (1, place("barn")),
    }


class Governor:
    """Notes what is said to it."""

    def __init__(self, monkeypatch):
        self.said, self.warned, self.writes = [], [], 0
        monkeypatch.setattr(
            dispatch,
            "publish_demand",
            lambda tx, pool, project, here, **more: self.said.append((project, more)),
        )
        monkeypatch.setattr(
            dispatch, "width_warning", lambda tx, ask, policy, here: f"{ask.project} is wide"
        )
        deps = SimpleNamespace(
            policy=lambda: Policy(demand_ttl_seconds=90), read_host=lambda: "here", store=self
        )
        self.demand_reporter = DemandReporter(
            deps, lambda key, words: self.warned.append((key, words))
        )

    @contextmanager
    def write(self, scope, *, relaxed):
        assert (scope, relaxed) == ("admission", True)
        self.writes += 1
        yield "tx"

    def say(self, now, *tasks):
        self.said.clear()
        self.demand_reporter.publish(now, yard(*tasks))
        return [*self.said]


def test_demand_is_said_when_it_changes_or_gets_old_or_ends(monkeypatch):
    governor = Governor(monkeypatch)
    one, two = task("a"), task("b")
    assert governor.say(0.0) == []
    assert governor.say(0.0, one) == [("stable", {"wanted": 1, "weight": 2, "width": 3})]
    assert governor.warned == [(("pool", "stable"), "stable is wide")]
    assert governor.say(1.0, one) == []
    assert governor.say(1.0, one, two) == [("stable", {"wanted": 2, "weight": 2, "width": 3})]
    assert governor.say(31.0, one, two) == []
    assert len(governor.say(31.1, one, two)) == 1 and governor.say(61.1, one, two) == []
    assert governor.say(61.1) == [("stable", {"wanted": 0})] and governor.say(99.0) == []
    assert governor.writes == 4


def test_demand_that_is_dropped_is_said_to_have_ended(monkeypatch):
    governor = Governor(monkeypatch)
    governor.demand_reporter.withdraw()
    assert governor.said == []
    governor.say(0.0, task("a"))
    governor.said.clear()
    governor.demand_reporter.withdraw()
    assert governor.said == [("stable", {"wanted": 0})]
    assert len(governor.say(0.0, task("a"))) == 1


# -- what tasks wait for ---------------------------------------------------------------------------

BLOCKER = Blocker("b", DependencyState.QUEUED, "b is queued.", "Wait for b.")
LOST = Blocker("c", DependencyState.FAILED, "c has failed.", "Begin it anew.", hopeless=True)


def test_what_is_hopeless_is_said_first():
    found = gates.dependency_denial((BLOCKER, LOST))
    assert found.gate == HomeGate.DEPENDENCIES and found.remedy == "Begin it anew."
    assert found.why == "Waiting for 2: c has failed. b is queued."
    assert gates.dependency_denial((replace(BLOCKER, remedy=""),)).remedy == "Wait."
    second = gates.dependency_denial((replace(LOST, remedy=""), BLOCKER))
    assert second.remedy == "Wait for b."


@pytest.fixture
def notes(monkeypatch):
    """The rows of waiting tasks, and what is noted of them."""
    rows = SimpleNamespace(tasks=[], present={}, held={}, noted=[], scopes=[], asked=[])
    rows.read = lambda tasks: rows.held
    monkeypatch.setattr(
        gates, "tasks_in", lambda tx, states: rows.asked.append(states) or rows.tasks
    )
    monkeypatch.setattr(gates, "read_blockers", lambda tx, tasks: rows.read(tasks))
    monkeypatch.setattr(gates, "find_task", lambda tx, name: rows.present.get(name))

    def note(tx, one, held):
        rows.noted.append((one.id, held))
        return replace(one, blockers="noted"), gates.blocker_change(one, held)

    @contextmanager
    def write(*scopes):
        rows.scopes.append(scopes)
        yield "tx"

    @contextmanager
    def read():
        yield "tx"

    monkeypatch.setattr(gates, "store_blockers", note)
    rows.store = SimpleNamespace(read=read, write=write)
    return rows


def test_what_has_changed_about_blockers_is_noted_and_told(notes):
    waits = task("a", depends_on=("b",))
    notes.tasks = [waits, task("free"), task("begun", attempt=1, depends_on=("b",))]
    notes.held, notes.present = {"a": (BLOCKER,)}, {"a": waits}
    (told,) = gates.store_blocker_changes(notes.store)
    assert (told.task.blockers, told.change) == ("noted", BlockerChange.CHANGED)
    assert told.text == "Waiting for 1: b is queued."
    assert notes.noted == [("a", (BLOCKER,))] and notes.scopes == [("admission", "tasks")]
    assert notes.asked == [(TaskState.QUEUED,)]


def test_blockers_that_are_gone_are_told_and_unchanged_ones_are_not(notes):
    clear = task("a", blockers='[["b", false]]')
    same = task("s", depends_on=("b",), blockers='[["b", false]]')
    notes.tasks, notes.present = [clear, same], {"a": clear, "s": same}
    notes.held = {"s": (BLOCKER,)}
    (told,) = gates.store_blocker_changes(notes.store)
    assert told.task.id == "a" and told.change is BlockerChange.CLEAR
    assert notes.noted == [("a", ())] and len(notes.scopes) == 1
    notes.tasks = [task("free"), task("begun", attempt=1, blockers='[["b", false]]')]
    notes.read = lambda tasks: pytest.fail("Nobody waits for anything.")
    assert gates.store_blocker_changes(notes.store) == []


def test_a_task_that_has_begun_meanwhile_is_left_alone(notes):
    waits, also = task("a", depends_on=("b",)), task("z", depends_on=("b",), order=2)
    notes.tasks, notes.held = [waits, also], {"a": (BLOCKER,), "z": (BLOCKER,)}
    notes.present = {"a": replace(waits, state=TaskState.RUNNING), "z": also}
    assert [told.task.id for told in gates.store_blocker_changes(notes.store)] == ["z"]
    notes.present = {"z": replace(also, blockers='[["b", false]]')}
    assert gates.store_blocker_changes(notes.store) == []
    assert gates.find_dependency_denials("tx", []) == {
        name: gates.dependency_denial((BLOCKER,)) for name in ("a", "z")
    }


# -- the tree of tasks -----------------------------------------------------------------------------


def shown(*tasks):
    return [(depth, one.id) for depth, one in order_as_tree(tasks)]


def test_each_task_stands_before_its_children_in_their_order():
    found = shown(
        task("c2", order=5, parent_task="a"),
        task("b", order=2),
        task("g", order=9, parent_task="c1"),
        task("c1", order=4, parent_task="a"),
        task("a", order=1),
        task("a0", order=1),
    )
    assert found == [(0, "a"), (1, "c1"), (2, "g"), (1, "c2"), (0, "a0"), (0, "b")]


def test_lost_parents_and_circles_stand_at_the_edge():
    assert shown(task("x", parent_task="gone")) == [(0, "x")] and shown() == []
    circle = shown(
        task("a", order=2, parent_task="b"), task("b", order=1, parent_task="a"), task("z", order=3)
    )
    assert circle == [(0, "z"), (0, "b"), (1, "a")]
    beside = shown(
        task("b", order=1, parent_task="a"),
        task("a", order=2, parent_task="b"),
        task("c", order=3, parent_task="b"),
    )
    assert beside == [(0, "b"), (1, "a"), (1, "c")]


# -- turns of repositories -------------------------------------------------------------------------


class Repository:
    """One that takes turns, or not."""

    def __init__(self, project, *, able=True, round_robin=True, interval=10.0):
        self.project, self.able, self.hastened = project, able, 0
        self.schedule = PollSchedule(interval, round_robin)

    def can_poll(self):
        return self.able

    def poll_soon(self):
        self.hastened += 1


def test_one_repository_is_called_per_interval():
    clock = FakeClock()
    round_robin, a, b = RoundRobinSchedule(clock), Repository("a"), Repository("b")
    other = Repository("c", round_robin=False, interval=99.0)
    repositories = [other, a, b]
    assert (
        round_robin.seconds_left(repositories) == 0.0 and round_robin.seconds_left([other]) is None
    )
    round_robin.call(repositories)
    assert (a.hastened, b.hastened, other.hastened) == (1, 0, 0)
    assert round_robin.seconds_left(repositories) == 10.0
    clock.advance(9.5)
    round_robin.call(repositories)
    assert (a.hastened, b.hastened) == (1, 0)
    clock.advance(0.5)
    round_robin.call(repositories)
    assert (a.hastened, b.hastened) == (1, 1)
    clock.advance(25.0)
    assert round_robin.seconds_left(repositories) == 0.0
    round_robin.call(repositories)
    assert (a.hastened, b.hastened) == (2, 1) and round_robin.seconds_left(repositories) == 10.0


def test_a_turn_that_nobody_can_take_passes():
    clock = FakeClock()
    round_robin, a = RoundRobinSchedule(clock), Repository("a", able=False)
    round_robin.call([a])
    assert a.hastened == 0 and round_robin.seconds_left([a]) == 10.0
    round_robin.call([Repository("x", round_robin=False)])
    mixed = [Repository("a", interval=7.0), Repository("b", interval=20.0)]
    clock.advance(99)
    round_robin.call(mixed)
    assert round_robin.seconds_left(mixed) == 7.0
    assert next_in_rotation(["a", "b"], "b", {"a", "b"}) == "a"
    assert next_in_rotation(["a", "b"], "gone", {"a", "b"}) == "a"
    assert next_in_rotation(["a", "b", "c"], "a", {"a", "c"}) == "c"
    assert (
        next_in_rotation(["a", "b"], "a", {"a"}) == "a"
        and next_in_rotation(["a"], None, set()) is None
    )


# -- the drain -------------------------------------------------------------------------------------


def test_a_drain_begins_goes_on_and_ends_with_the_last_work():
    begun = DrainState(10.0, 2)
    assert (
        next_drain_state(None, False, 2, 10.0, 60.0)
        == (None, ())
        == next_drain_state(begun, False, 0, 10.0, 60.0)
    )
    assert next_drain_state(None, True, 2, 10.0, 60.0) == (begun, (DrainEvent.STARTED,))
    assert next_drain_state(begun, True, 2, 69.9, 60.0) == (begun, ())
    assert next_drain_state(begun, True, 1, 20.0, 60.0) == (
        DrainState(10.0, 1),
        (DrainEvent.PROGRESS,),
    )
    assert next_drain_state(begun, True, 0, 99.0, 60.0) == (begun, (DrainEvent.COMPLETED,))
    assert next_drain_state(None, True, 0, 10.0, 60.0) == (
        DrainState(10.0, 0),
        (DrainEvent.STARTED, DrainEvent.COMPLETED),
    )


def test_a_drain_is_given_up_when_its_time_is_over():
    begun = DrainState(10.0, 2)
    assert next_drain_state(begun, True, 2, 70.0, 60.0) == (None, (DrainEvent.TIMEOUT,))
    assert next_drain_state(begun, True, 1, 99.0, 60.0) == (None, (DrainEvent.TIMEOUT,))
    assert next_drain_state(None, True, 1, 10.0, 0.0) == (
        None,
        (DrainEvent.STARTED, DrainEvent.TIMEOUT),
    )


def test_a_restart_is_judged_by_how_far_it_came():
    broken = {one for one in (None, *Step) if not judge_restart(one, "1.0")[0]}
    assert broken == {None, Step.LOOK, Step.UPDATE, Step.ROLLBACK, Step.UNFIT}
    assert judge_restart(Step.UPDATE, "1.0")[1].endswith("checked. Hostler 1.0 is running.")
    done = next(one for one in Step if one not in broken)
    assert judge_restart(done, "1.0") == (True, "Hostler 1.0 is running.")

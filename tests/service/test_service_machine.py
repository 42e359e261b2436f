"""Admission under anything: submit, finish, crash, restart, stop, DONE, lend, other caps, rivals.

Real rules and rows on a database; processes and agents are played by the test.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import ExitStack
from dataclasses import asdict, replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from intake_yard import database

from example_counts import examples
from hostler.agents.outcomes import Outcome
from hostler.agents.verdict import DecidedBy, EndedBy, ProcessExit, RunVerdict
from hostler.clock import FakeClock
from hostler.config.settings import Agent, Repo, Runtime, Settings
from hostler.config.settings import Tasks as Limits
from hostler.governor.holders import HostView, prune
from hostler.governor.leases import attach, release, release_temporarily
from hostler.governor.policy import Policy
from hostler.planner.queue import is_root, read_blockers
from hostler.runs import transitions
from hostler.runs.outcome import RunEnding
from hostler.service.context import SERVICE_PURPOSE, Presence
from hostler.service.scheduling.admission import ADMISSION_SCOPES, Admission, AdmissionDeps
from hostler.service.scheduling.dispatch import DemandReporter
from hostler.service.scheduling.explain import ExplainInputs, find_task_denial
from hostler.service.scheduling.gates import PriorityClass, find_denial, priority_class
from hostler.store.engine.locks import Holder as Process
from hostler.store.governor import Holder, all_leases
from hostler.store.runs import LIVE, RunState, open_runs, release_run_slot, request_run_slot
from hostler.store.tasks import TaskState, require_task, tasks_in
from hostler.workflows import commands
from hostler.workflows.commands import CommandRefused
from hostler.workflows.effects import apply_transition
from hostler.workflows.manual_tasks import TaskSubmission, decide_after_folder_run, submit_task
from hostler.workflows.outcomes import RunEndFacts
from hostler.workflows.turns import requeue_unstarted

SERVED = Presence(Process(1, "hostler", "here", "2020-01-01T00:00:00.000Z", SERVICE_PURPOSE))
PROJECTS = ("barn", "stable", "field")
ASKED = 3
LIMITS = Limits(restart_delay_seconds=0.0, exits_without_progress=1000)


def process(pid: int) -> Holder:
    return Holder("here", "boot", "space", pid, pid * 10)


class House(RuleBasedStateMachine):
    """Two services on one home (they should not be, and must do no harm), and their agents."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.clock = FakeClock()
        self.store = self.stack.enter_context(database(self.clock))
        self.pids = iter(range(100, 10**6))
        self.dead: set[int] = set()
        self.caps = {"runs": 0, "roots": 0, "pool": 2, "width": 2}
        self.services = [self.service(), self.service()]
        self.count = 0
        self.launched: Counter[tuple[str, int]] = Counter()

    def teardown(self) -> None:
        try:
            self.everything_ends()
        finally:
            self.stack.close()

    # What it is made of.

    def alive(self, holder: Holder) -> bool | None:
        return holder.pid not in self.dead

    def service(self) -> tuple[int, Admission]:
        pid = next(self.pids)
        here = HostView(process(pid), 10**6, self.alive)
        deps = AdmissionDeps(
            self.store, self.settings(), self.policy, lambda: set(PROJECTS), lambda: here
        )
        return pid, Admission(deps)

    def settings(self) -> Settings:
        repos = {
            name: Repo(owner="octo", name=name, max_concurrent_slots=self.caps["width"])
            for name in PROJECTS
        }
        limits = LIMITS.model_copy(
            update={
                "max_concurrent_runs": self.caps["runs"],
                "max_concurrent_root_tasks": self.caps["roots"],
            }
        )
        agent = Agent(kind="command", command=["x"], pool="p")
        # Workers are counted by the process that has them, and there are two here.
        runtime = Runtime(worker_count=1000)
        return Settings(repo=repos, agent={"helper": agent}, tasks=limits, runtime=runtime)

    def policy(self) -> Policy:
        return Policy(caps={"p": self.caps["pool"]}, memory_floor_mb=0)

    def runs(self, *states: RunState):
        """In an order that is the same whenever this is played again: names are random."""
        with self.store.read() as tx:
            found = [run for run in open_runs(tx) if run.state in (states or LIVE)]
        return sorted(found, key=lambda run: (run.task_id, run.fence))

    def tasks(self, *states: TaskState):
        with self.store.read() as tx:
            return tasks_in(tx, states or tuple(TaskState))

    @initialize(
        runs=st.sampled_from([0, 1, 1, 2]),
        roots=st.sampled_from([0, 1, 2]),
        pool=st.sampled_from([1, 2, 4]),
        width=st.sampled_from([1, 2, 4]),
    )
    def begin(self, runs, roots, pool, width):
        self.caps = {"runs": runs, "roots": roots, "pool": pool, "width": width}
        self.services = [self.service(), self.service()]

    # What people and agents do.

    @rule(project=st.sampled_from(PROJECTS), data=st.data())
    def submitted(self, project, data):
        self.count += 1
        known = [task.id for task in self.tasks()]
        running = {task.id for task in self.tasks(TaskState.RUNNING)}
        parents = [run.task_id for run in self.runs(RunState.RUNNING) if run.task_id in running]
        parent = data.draw(st.sampled_from([None, *parents]))
        needs = data.draw(st.lists(st.sampled_from(known), max_size=2)) if known else []
        order = TaskSubmission(project, f"job {self.count}", "ann", cwd="/x", parent_task=parent)
        with self.store.write(*ADMISSION_SCOPES) as tx:
            submit_task(tx, replace(order, depends_on=tuple(dict.fromkeys(needs))))

    @rule(which=st.integers(0, 1))
    def admitted(self, which):
        self.admit(self.services[which])

    def admit(self, service) -> bool:
        pid, admission = service
        with self.store.read() as tx:
            yard = admission.read_snapshot(tx)
            waiting = tasks_in(tx, (TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED))
            free = [task for task in waiting if find_denial(task, yard) is None]
            held = read_blockers(tx, waiting)
            before = {run.run for run in open_runs(tx)}
        DemandReporter(admission.deps).publish(
            self.clock.monotonic(), admission.evaluate().snapshot
        )
        # A few of them: each answer is a look at everything.
        asked = waiting[:ASKED]
        told = self.said_to_start(service, asked)
        granted = admission.admit_next()
        new = [] if granted is None or granted.back else [granted.task.id]
        assert told == [task.id for task in asked if task.id in new]
        if granted is None:
            return False
        assert pid not in self.dead
        run = granted.run
        if run is None:
            with self.store.write(*ADMISSION_SCOPES) as tx:
                present = require_task(tx, granted.task.id)
                apply_transition(tx, present, self.step(present, Outcome.SUCCESS, DecidedBy.DONE))
            return True
        self.within_caps()
        if granted.back:
            assert run.run in before and run.slot_released_at is None
            return True
        assert run.run not in before
        self.launched[(run.task_id, run.fence)] += 1
        assert granted.task.id not in held or granted.task.attempt > 1
        self.first_come(granted.task, free, yard)
        if self.caps["roots"] > 0 and is_root(granted.task):
            assert yard.running_roots < self.caps["roots"]
        return True

    def said_to_start(self, service, waiting) -> list[str]:
        """What `why` says of everybody who waits: whom does no gate hold?"""
        _, admission = service
        deps = admission.deps
        inputs = ExplainInputs(self.store, deps.settings, self.policy(), deps.read_host(), SERVED)
        with self.store.read() as tx:
            return [task.id for task in waiting if find_task_denial(tx, inputs, task) is None]

    def first_come(self, task, free, yard) -> None:
        """Among new root tasks that only the governor could hold, the oldest of its project."""
        new = [
            one
            for one in free
            if priority_class(one, yard) is PriorityClass.NEW and one.project == task.project
        ]
        if any(one.id == task.id for one in new):
            assert task.order == min(one.order for one in new)

    def within_caps(self) -> None:
        """A grant never leaves more at work than any cap allows."""
        live = [run for run in self.runs() if run.slot_released_at is None]
        if self.caps["runs"] > 0:
            assert len(live) <= self.caps["runs"]
        assert len(live) <= self.caps["pool"]
        by_project = Counter(run.project for run in live)
        assert max(by_project.values(), default=0) <= self.caps["width"]

    @precondition(lambda self: self.runs(RunState.ADMITTED))
    @rule(data=st.data())
    def started(self, data):
        self.start(data.draw(st.sampled_from(self.runs(RunState.ADMITTED))))

    def start(self, run) -> None:
        shim = process(next(self.pids))
        with self.store.write() as tx:
            run = transitions.store_starting(tx, run, asdict(shim))
        if run.stop_why is None:
            with self.store.write() as tx:
                attach(tx, transitions.store_running(tx, run))

    @precondition(lambda self: self.runs())
    @rule(data=st.data(), outcome=st.sampled_from(Outcome), declared=st.booleans())
    def ended(self, data, outcome, declared):
        run = data.draw(st.sampled_from(self.runs()))
        self.end(run, outcome, DecidedBy.RESULT if declared else DecidedBy.EXIT_CODE)

    def end(self, run, outcome, by=DecidedBy.RESULT) -> None:
        verdict = RunVerdict(outcome, by, "So it was.")
        ending = RunEnding(verdict, ProcessExit(EndedBy.EXIT, 0), counted=True)
        with self.store.write(*ADMISSION_SCOPES) as tx:
            run = transitions.store_exited(tx, run, ending)
            release(tx, run)
        with self.store.write(*ADMISSION_SCOPES) as tx:
            run = transitions.store_finishing(tx, run)
        with self.store.write(*ADMISSION_SCOPES) as tx:
            run = transitions.store_ended(tx, run)
            task = require_task(tx, run.task_id)
            seen = Outcome.INTERRUPTED if run.stop_why else outcome
            apply_transition(tx, task, self.step(task, seen, by))
        if run.shim:
            self.dead.add(json.loads(run.shim)["pid"])

    def step(self, task, outcome, by):
        verdict = RunVerdict(outcome, by, "So it was.")
        return decide_after_folder_run(task, verdict, RunEndFacts(self.clock.now()), LIMITS)

    @precondition(lambda self: self.tasks())
    @rule(data=st.data(), verb=st.sampled_from(["stop", "cancel", "resume", "retry"]))
    def commanded(self, data, verb):
        task = data.draw(st.sampled_from(self.tasks()))
        try:
            with self.store.write(*ADMISSION_SCOPES) as tx:
                getattr(commands, f"{verb}_task")(tx, require_task(tx, task.id), "ann")
        except CommandRefused:
            return

    @precondition(
        lambda self: [r for r in self.runs(RunState.RUNNING) if r.slot_released_at is None]
    )
    @rule(data=st.data())
    def lent(self, data):
        free = [run for run in self.runs(RunState.RUNNING) if run.slot_released_at is None]
        run = data.draw(st.sampled_from(free))
        with self.store.write(*ADMISSION_SCOPES) as tx:
            assert release_run_slot(tx, run.run, "{}")
            release_temporarily(tx, run.run)

    @precondition(
        lambda self: [r for r in self.runs() if r.slot_released_at and not r.slot_requested_at]
    )
    @rule(data=st.data())
    def wanted_back(self, data):
        away = [run for run in self.runs() if run.slot_released_at and not run.slot_requested_at]
        with self.store.write(*ADMISSION_SCOPES) as tx:
            assert request_run_slot(tx, data.draw(st.sampled_from(away)).run)

    @rule(which=st.integers(0, 1))
    def crashed(self, which):
        """kill -9 of a service and a new start: what had no agent goes back to its place."""
        self.restart(which)

    def restart(self, which) -> None:
        pid, _ = self.services[which]
        self.dead.add(pid)
        self.services[which] = self.service()
        for run in self.runs(RunState.ADMITTED, RunState.STARTING):
            if run.stop_why is not None:
                self.end(run, Outcome.INTERRUPTED, DecidedBy.STOP)
                continue
            with self.store.write(*ADMISSION_SCOPES) as tx:
                run = transitions.store_never_started(tx, run)
                release(tx, run)
                requeue_unstarted(tx, require_task(tx, run.task_id))
            if run.shim:
                self.dead.add(json.loads(run.shim)["pid"])

    @rule(
        name=st.sampled_from(["runs", "roots", "pool", "width"]),
        value=st.integers(1, 4),
        off=st.booleans(),
    )
    def configured(self, name, value, off):
        self.caps[name] = 0 if off and name in ("runs", "roots") else value
        for which in range(len(self.services)):
            self.restart(which)

    @rule(seconds=st.sampled_from([0.5, 2, 61, 700, 4000]))
    def time_passed(self, seconds):
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([-3600, 3600]))
    def clock_jumped(self, seconds):
        self.clock.jump(seconds)

    @rule()
    def pruned(self):
        here = HostView(process(next(self.pids)), 10**6, self.alive)
        with self.store.write("admission") as tx:
            prune(tx, self.policy(), here)

    # What always holds.

    @invariant()
    def one_open_run_per_task_and_a_lease_for_every_agent(self):
        with self.store.read() as tx:
            found = open_runs(tx)
            leases = {lease.lease for lease in all_leases(tx)}
            tasks = {task.id: task for task in tasks_in(tx, tuple(TaskState))}
        assert max(Counter(run.task_id for run in found).values(), default=0) <= 1
        assert max(self.launched.values(), default=0) <= 1
        running = {run.run for run in found if run.state is RunState.RUNNING}
        assert running <= leases
        assert leases <= {run.run for run in found if run.state in LIVE}
        for run in found:
            if run.state in LIVE and run.stop_why is None:
                assert tasks[run.task_id].state is TaskState.RUNNING

    def everything_ends(self) -> None:
        """No wedge: with agents that succeed, whatever can proceed is done at last."""
        for _ in range(400):
            self.clock.advance(4000)
            for run in self.runs():
                if run.slot_released_at and not run.slot_requested_at:
                    with self.store.write(*ADMISSION_SCOPES) as tx:
                        request_run_slot(tx, run.run)
            if any(self.admit(service) for service in self.services):
                continue
            live = [run for run in self.runs() if not run.slot_released_at]
            if not live:
                break
            self.end(live[0], Outcome.SUCCESS)
        with self.store.read() as tx:
            waiting = tasks_in(tx, (TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED))
            held = read_blockers(tx, waiting)
        # Who still waits does so for something that needs a person.
        for task in waiting:
            assert task.id in held, f"{task.id} waits for nothing"
            assert any(one.hopeless or one.state in PERSON for one in held[task.id])
        assert self.runs() == []


PERSON = ("needs_input", "blocked", "queued")

TestHouse = House.TestCase
TestHouse.settings = settings(
    max_examples=examples(3, 200),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

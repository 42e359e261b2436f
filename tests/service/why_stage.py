"""A home with tasks in every standing, as rows: what `why` and the snapshot are asked about."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import timedelta

from hypothesis import strategies as st

from hostler.config.settings import Agent, Repo, Runtime, Settings
from hostler.config.settings import Tasks as Limits
from hostler.governor.gates import LeaseRequest
from hostler.governor.holders import HostView
from hostler.governor.leases import acquire, attach, release_temporarily
from hostler.governor.policy import Policy
from hostler.model import format_timestamp
from hostler.runs import NewRun, admit_run, transitions
from hostler.service.context import SERVICE_PURPOSE, Presence
from hostler.service.scheduling.admission import ADMISSION_SCOPES, Admission, AdmissionDeps
from hostler.service.scheduling.explain import ExplainInputs, explain_task
from hostler.service.scheduling.workers import GlobalWorkLimiter
from hostler.store.engine.locks import Holder as Process
from hostler.store.governor import Holder
from hostler.store.runs import open_runs, release_run_slot, request_run_slot
from hostler.store.tasks import TaskState, change_task, require_task, tasks_in
from hostler.workflows.manual_tasks import CHILDREN_BLOCKER, TaskSubmission, submit_task

PROJECTS = ("barn", "stable", "field")
SERVED = Presence(Process(1, "hostler", "here", "2020-01-01T00:00:00.000Z", SERVICE_PURPOSE))


def process(pid: int) -> Holder:
    return Holder("here", "boot", "space", pid, pid * 10)


class Stage:
    """A home with tasks, as rows; its service and whoever asks are two processes."""

    def __init__(self, store, clock, caps=None) -> None:
        self.store, self.clock = store, clock
        self.caps = {"runs": 0, "roots": 0, "pool": 9, "width": 9, "workers": 99, **(caps or {})}
        self.presence = SERVED

    def settings(self) -> Settings:
        width = self.caps["width"]
        limits = {
            "max_concurrent_runs": self.caps["runs"],
            "max_concurrent_root_tasks": self.caps["roots"],
        }
        return Settings(
            repo={p: Repo(owner="octo", name=p, max_concurrent_slots=width) for p in PROJECTS},
            agent={"helper": Agent(kind="command", command=["x"], pool="p")},
            tasks=Limits(**limits),
            runtime=Runtime(worker_count=self.caps["workers"]),
        )

    def here(self, pid: int) -> HostView:
        return HostView(process(pid), 10**6, lambda _: True)

    def policy(self) -> Policy:
        return Policy(caps={"p": self.caps["pool"]}, memory_floor_mb=0)

    def admission(self, ready=PROJECTS) -> Admission:
        here = self.here(1)
        deps = AdmissionDeps(
            self.store, self.settings(), self.policy, lambda: set(ready), lambda: here
        )
        return Admission(deps)

    def next(self):
        """Whom a service admits that has adopted everything that is under way."""
        limiter = GlobalWorkLimiter(self.caps["workers"])
        with self.store.read() as tx:
            runs = open_runs(tx)
            running = tasks_in(tx, (TaskState.RUNNING,))
        for _ in {*(run.task_id for run in runs), *(task.id for task in running)}:
            limiter.force()
        for run in runs:
            if run.slot_released_at:
                limiter.release()
        return self.admission().admit_next() if limiter.try_acquire() else None

    def inputs(self) -> ExplainInputs:
        return ExplainInputs(
            self.store, self.settings(), self.policy(), self.here(2), self.presence
        )

    def why(self, name: str):
        with self.store.read() as tx:
            return explain_task(tx, self.inputs(), require_task(tx, name))

    def put(self, project="barn", **more):
        order = {"depends_on": (), "parent_task": None, **more.pop("order", {})}
        with self.store.write(*ADMISSION_SCOPES) as tx:
            task = submit_task(tx, TaskSubmission(project, "job", "ann", cwd="/x", **order))
            return change_task(tx, task, replace(task, **more)) if more else task

    def put_running(self, task) -> None:
        """An agent was done, and our own part is under way."""
        with self.store.write(*ADMISSION_SCOPES) as tx:
            change_task(tx, task, replace(task, state=TaskState.RUNNING, attempt=1))

    def start(self, task, *, lent=False, back=False):
        """An agent at work."""
        with self.store.write(*ADMISSION_SCOPES) as tx:
            present = require_task(tx, task.id)
            change_task(tx, present, replace(present, state=TaskState.RUNNING, attempt=1))
            run = admit_run(tx, NewRun(task.id, task.project, "work", "helper", "command", "p"))
            granted = acquire(
                tx, LeaseRequest(run.run, task.project, "p"), Policy({"p": 99}), self.here(1)
            )
            assert granted.lease == run.run
            run = transitions.store_starting(tx, run, asdict(process(50)))
            attach(tx, transitions.store_running(tx, run))
            if lent:
                assert release_run_slot(tx, run.run, json.dumps(asdict(process(60))))
                release_temporarily(tx, run.run)
            if lent and back:
                assert request_run_slot(tx, run.run)
        return run


CAPS = st.fixed_dictionaries(
    {
        "runs": st.integers(0, 3),
        "roots": st.integers(0, 3),
        "pool": st.integers(1, 4),
        "width": st.integers(1, 3),
        "workers": st.integers(1, 6),
    }
)
TASKS = st.lists(
    st.fixed_dictionaries(
        {
            "project": st.sampled_from((*PROJECTS, "elsewhere")),
            "how": st.sampled_from(["queued", "queued", "later", "finishing", "runs", "over"]),
            "state": st.sampled_from((TaskState.RETRYING, TaskState.PARKED)),
            "wake": st.none() | st.integers(-50, 50),
            "lent": st.booleans(),
            "back": st.booleans(),
            "run": st.booleans(),
            "children": st.booleans(),
            "parent": st.none() | st.integers(0, 6),
            "needs": st.none() | st.integers(0, 6),
            "age": st.integers(0, 1000),
            "pull": st.none() | st.integers(1, 9),
        }
    ),
    max_size=7,
)


def fill(stage: Stage, wanted) -> None:
    made = []
    for one in wanted:
        stage.clock.advance(one["age"])
        known = {"parent": None, "needs": None}
        for name in known:
            at = one[name]
            known[name] = made[at] if at is not None and at < len(made) else None
        parent = known["parent"] if known["parent"] and not known["parent"].over else None
        order = {
            "parent_task": parent.id if parent else None,
            "depends_on": (known["needs"].id,) if known["needs"] else (),
        }
        wake = one["wake"]
        at = None if wake is None else format_timestamp(stage.clock.now() + timedelta(seconds=wake))
        values = {
            "queued": {"pr_number": one["pull"]},
            "later": {"state": one["state"], "wake_at": at, "attempt": 1},
            "finishing": {
                "state": TaskState.PARKED,
                "wake_at": at,
                "finishing": True,
                "blockers": CHILDREN_BLOCKER if one["children"] else "",
                "attempt": 1,
            },
            "over": {"state": TaskState.DONE if one["lent"] else TaskState.FAILED},
        }.get(one["how"], {})
        task = stage.put(one["project"], order=order, **values)
        if one["how"] == "runs" and one["run"]:
            stage.start(task, lent=one["lent"], back=one["back"])
        elif one["how"] == "runs":
            stage.put_running(task)
        made.append(task)

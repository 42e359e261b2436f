"""What the queue costs with 1,000 tasks in it: after 10,000 finished tasks, against after 10."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bench.harness import Figures, interleaved
from hostler.clock import SystemClock
from hostler.config.settings import Agent, Repo, Settings, Tasks
from hostler.governor.holders import read_host
from hostler.governor.policy import Policy
from hostler.planner.queue import read_hopeless, read_queue
from hostler.service.scheduling.admission import Admission, AdmissionDeps
from hostler.store import Patience, Store, Transaction, open_store
from hostler.store.admin.migrate import upgrade
from hostler.store.engine.backend import find_place
from hostler.store.runs import Run, RunState, add_run
from hostler.store.tasks import Flow, Task, TaskState, add_task
from hostler.workflows.manual_tasks import TaskSubmission, submit_task

FINISHED, FEW, QUEUED = 10_000, 10, 1_000
ROUNDS = 25
PATIENCE = Patience(queue_seconds=120.0, begin_seconds=120.0)
REPO = "octo/stable"
WORKER = Agent(kind="command", command=["true"])
# Whoever asks the governor gets a place.
GENEROUS = Policy(default_cap=1 << 20, memory_floor_mb=0)

Action = Callable[[], object]


def run() -> Figures:
    """Each ratio is the time after many finished tasks over the time after a few."""
    with _store(FINISHED) as many, _store(FEW) as few:
        return {
            **_compared("list", _listing(few), _listing(many)),
            **_compared("refuse", _deciding(few, places=1), _deciding(many, places=1)),
            **_compared("hopeless", _reporting(few), _reporting(many)),
            **_compared("submit", _submitting(few), _submitting(many)),
            # Last: it takes tasks out of the queue, from both alike.
            **_compared("decide", _deciding(few), _deciding(many)),
        }


def _compared(name: str, few: Action, many: Action) -> dict[str, float]:
    few(), many()
    taken = interleaved(ROUNDS, few=few, many=many)
    return {
        f"{name}_ratio_{FINISHED}_to_{FEW}": taken["many"] / taken["few"],
        f"{name}_ms": taken["many"] * 1000,
    }


def _listing(store: Store) -> Action:
    def action() -> None:
        with store.read() as tx:
            queue = read_queue(tx, cap=4)
            assert len(queue.waiting) >= QUEUED and queue.held and queue.positions

    return action


def _reporting(store: Store) -> Action:
    def action() -> None:
        with store.read() as tx:
            assert read_hopeless(tx)

    return action


def _deciding(store: Store, places: int = 0) -> Action:
    """One decision: with room for everybody, or with none left after the first."""
    settings = Settings(
        agent={"helper": WORKER},
        repo={"stable": Repo(owner="octo", name="stable", max_concurrent_slots=1024)},
        tasks=Tasks(max_concurrent_root_tasks=places),
    )
    admission = Admission(
        AdmissionDeps(store, settings, lambda: GENEROUS, lambda: {"stable"}, read_host)
    )

    def action() -> None:
        granted = admission.admit_next()
        assert (granted is not None) is (places == 0), "the benchmark's own rows are not as meant"

    if places:
        admission.admit_next()
    return action


def _submitting(store: Store) -> Action:
    order = TaskSubmission("stable", "Tidy up", "ann", cwd=tempfile.gettempdir())

    def action() -> None:
        with store.write("tasks", "admission") as tx:
            submit_task(tx, order)

    return action


@contextmanager
def _store(finished: int) -> Iterator[Store]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        upgrade(
            home,
            find_place(home),
            clock=SystemClock(),
            patience=PATIENCE,
            progress=lambda _done, _total: None,
        )
        with closing(open_store(home, patience=PATIENCE)) as store:
            with store.write("tasks", "admission") as tx:
                _fill(tx, finished)
            yield store


def _fill(tx: Transaction, finished: int) -> None:
    """Finished tasks with a run each; then the queue, of which a part waits for others."""
    order = itertools.count(1)
    for number in range(finished):
        state = TaskState.FAILED if number % 10 == 9 else TaskState.DONE
        _add(tx, f"old-{number}", next(order), state, issue=number + 1)
        _ended(tx, f"old-{number}", "success" if state is TaskState.DONE else "crash")
    for number in range(QUEUED):
        _add(tx, f"new-{number}", next(order), TaskState.QUEUED, depends_on=_needs(number))


def _needs(number: int) -> tuple[str, ...]:
    """A chain, a finished task, a failed one, an issue with a task; six in ten wait for nothing."""
    kinds = {6: f"new-{number - 3}", 7: "old-0", 8: "old-9", 9: f"{REPO}#1"}
    return (kinds[number % 10],) if number % 10 in kinds else ()


def _add(
    tx: Transaction,
    name: str,
    order: int,
    state: TaskState,
    *,
    issue: int | None = None,
    depends_on: tuple[str, ...] = (),
) -> None:
    task = Task(
        id=name,
        project="stable",
        repo_full_name=REPO if issue else None,
        issue_number=issue,
        flow=Flow.BUGFIX if issue else Flow.TASK,
        title=name,
        author="ann",
        state=state,
        state_since=tx.stamp(),
        order=order,
        attempt=1 if issue else 0,
        prompt="Do what is to be done, and say so. " * 20,
        cwd="" if issue else tempfile.gettempdir(),
        depends_on=depends_on,
    )
    add_task(tx, task)


def _ended(tx: Transaction, task: str, outcome: str) -> None:
    run = Run(
        run=f"run-of-{task}",
        task_id=task,
        project="stable",
        fence=1,
        attempt=1,
        kind="work",
        agent="helper",
        agent_kind="command",
        pool="anthropic",
        folder="",
        admitted_at=tx.stamp(),
        state=RunState.ENDED,
        outcome=outcome,
    )
    add_run(tx, run)

"""The edge of admission: task, run and lease begin in one transaction, or nothing does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hostler.config.settings import Budget, Settings
from hostler.flows import begin_turn, gather, resume_finishing, turn_of
from hostler.flows.lineage import belongs
from hostler.governor import Ask, Denied, Here, Policy, acquire, preview, take_back
from hostler.governor import Gate as GovernorGate
from hostler.governor.parking import closed_pools
from hostler.planner.queue import is_root
from hostler.runs import NewRun, admit
from hostler.service.candidates import (
    BEFORE_WORKERS,
    WAITING,
    Choice,
    Further,
    Gate,
    Held,
    Place,
    Yard,
    choose,
    gate_of,
)
from hostler.service.needs import needs_of
from hostler.service.places import place_of
from hostler.service.purses import empty, purses
from hostler.service.queueing import QueuedRuns
from hostler.service.space import REMEDY, Room, sentence, too_full
from hostler.service.spending import spendings
from hostler.service.waits import roots_waiting_for, waited_for
from hostler.store import Store, Transaction
from hostler.store.governor import last_turns, take_turn
from hostler.store.operator import all_pauses
from hostler.store.runs import LIVE, Run, open_runs, regain_place
from hostler.store.tasks import Task, TaskState, note_gate, require_task, tasks_in

# Gates that stand behind all of ours.
GOVERNED = frozenset(gate.value for gate in GovernorGate)
# Those that open without anybody's word, or a commit.
SILENT = GOVERNED | {Gate.DISK.value}
# The gates, the task's rows and the writes that tell people.
SCOPES = ("admission", "outbox", "tasks")


@dataclass(frozen=True, slots=True)
class Granted:
    """A task that has begun. Without a run, only our own part is left to do.

    `back`: the run is not new, it has its lent place again. `cleared`: what it waited for became
    ready just now.
    """

    task: Task
    run: Run | None
    back: bool = False
    cleared: bool = False


def open_house(_tx: Transaction) -> str:
    """Work may begin."""
    return ""


@dataclass(frozen=True, slots=True)
class Office:
    """What admission stands on.

    `ready`: projects that were reached; `look`: this machine now; `closed`: why nothing begins;
    `rooms`: the disks that are written to.
    """

    store: Store
    settings: Settings
    policy: Callable[[], Policy]
    ready: Callable[[], Collection[str]]
    look: Callable[[], Here]
    closed: Callable[[Transaction], str] = open_house
    rooms: Callable[[], tuple[Room, ...]] = tuple


@dataclass(frozen=True, slots=True)
class Survey:
    """What one look at the rows showed. `back`: somebody wants a lent place again."""

    yard: Yard
    choice: Choice
    back: bool = False


@dataclass(frozen=True, slots=True)
class Outlook:
    """When the first gate opens by itself; `governed`: one may open without anybody's word.

    Other processes end, memory becomes free, and an operator changes a file: none of it commits.
    """

    opens: datetime | None = None
    governed: bool = False


class Admission:
    """Admits tasks one by one. `only`: just these, and what comes from them."""

    def __init__(
        self,
        office: Office,
        only: Collection[str] | None = None,
        queued: QueuedRuns | None = None,
    ) -> None:
        self.office = office
        self._only = only
        self.queued = queued or QueuedRuns()

    def survey(self) -> Survey:
        """Who would start now, what holds the others, and what is wanted: one look at the rows."""
        here, policy = self.office.look(), self.office.policy()
        with self.office.store.read() as tx:
            runs = open_runs(tx)
            yard = self.yard(tx, runs)
            choice = self.choose(tx, yard, policy, here)
            back = any(run.back_wanted_at for run in runs)
        return Survey(yard, choice, back)

    def next(self, seen: Survey | None = None) -> Granted | None:
        """Admit whoever is next; None if nobody can start now."""
        seen = seen or self.survey()
        # Most turns find nothing: they should not take the write lock.
        if seen.choice.task is None and not seen.back:
            return None
        here, policy = self.office.look(), self.office.policy()
        with self.office.store.write(*SCOPES) as tx:
            runs = open_runs(tx)
            yard = self.yard(tx, runs)
            granted = self._back(tx, yard, runs, policy, here) or self._new(tx, yard, policy, here)
            if granted is not None:
                take_turn(tx, granted.task.project, self._weight(granted.task.project))
        return granted

    def note_gates(self, seen: Survey, full: Held | None) -> Outlook:
        """Store which gate holds whom, where that has changed; what is to be expected.

        `full`: no worker is free.
        """
        found = gates_of(seen, full)
        self.queued.count(runs_queued(seen.yard))
        waiting = {task.id: task for task in seen.yard.waiting}
        changed = {name: gate for name, gate in found.items() if waiting[name].gate != gate}
        if changed:
            with self.office.store.write("tasks") as tx:
                for name, gate in changed.items():
                    note_gate(tx, name, gate)
        held = seen.choice.held.values()
        opens = min((one.until for one in held if one.until), default=None)
        return Outlook(opens, seen.back or any(one.gate in SILENT for one in held))

    def yard(self, tx: Transaction, runs: Sequence[Run] | None = None) -> Yard:
        """Everything that is counted, at this moment; `runs`: those that have not ended."""
        office = self.office
        found = open_runs(tx) if runs is None else runs
        # A stopped task keeps its place as long as its agent is there.
        busy = {run.task_id: run for run in found}
        running = {task.id: task for task in tasks_in(tx, (TaskState.RUNNING,))}
        for name in busy.keys() - running.keys():
            running[name] = require_task(tx, name)
        limits = office.settings.tasks
        waiting = self._waiting(tx)
        closed = office.closed(tx)
        return Yard(
            now=tx.now(),
            waiting=tuple(waiting),
            places=self._places(tx, [*waiting, *running.values()]),
            needs=needs_of(tx, waiting),
            full=full_of(office.rooms(), office.settings.runtime.disk_floor_mb),
            empty=empty_of(tx, office.settings.budget, waiting),
            busy=frozenset(busy),
            parents=frozenset(
                task.parent_task
                for task in running.values()
                if task.parent_task and task.id in busy
            ),
            awaited=roots_waiting_for(tx, found, running),
            runs=sum(run.state in LIVE and run.lent_at is None for run in found),
            running=sum(is_root(task) for task in running.values()),
            max_runs=limits.max_concurrent_runs,
            max_root_tasks=limits.max_concurrent_root_tasks,
            served=last_turns(tx),
            closed=closed,
            spared=waited_for(tx, found, waiting) if closed else frozenset(),
            joins_first=timedelta(seconds=limits.waiting_joins_first_class_seconds),
        )

    def choose(self, tx: Transaction, yard: Yard, policy: Policy, here: Here) -> Choice:
        """Who would start now, and what holds the others."""
        return choose(yard.waiting, yard, governed(tx, yard, policy, here))

    def _new(self, tx: Transaction, yard: Yard, policy: Policy, here: Here) -> Granted | None:
        task = self.choose(tx, yard, policy, here).task
        if task is None:
            return None
        if task.finishing and task.state is TaskState.PARKED:
            return Granted(resume_finishing(tx, task), None)
        place = yard.places[task.id]
        # Whose it is is noted after the run: one that never starts binds nobody.
        begun = begin_turn(tx, replace(task, blockers=""))
        run = admit(
            tx,
            NewRun(
                task_id=task.id,
                project=task.project,
                kind=turn_of(begun, gather(tx, begun)).value,
                agent=place.agent,
                agent_kind=place.agent_kind,
                pool=place.pool,
            ),
        )
        answer = acquire(tx, ask_for(task, place, run.run), policy, here)
        if isinstance(answer, Denied):
            raise RuntimeError(f"a lease was refused after it was promised: {answer.what}")
        return Granted(begun, run, cleared=bool(task.blockers))

    def _back(
        self, tx: Transaction, yard: Yard, runs: Sequence[Run], policy: Policy, here: Here
    ) -> Granted | None:
        """Whoever lent its place and is through with waiting goes before all others."""
        run = returning(tx, yard, runs, policy, here)
        if run is None:
            return None
        answer = take_back(tx, ask_back(run, yard), policy, here)
        if isinstance(answer, Denied):
            raise RuntimeError(f"a place was refused after it was promised: {answer.what}")
        return Granted(require_task(tx, run.task_id), regain_place(tx, run), back=True)

    def _weight(self, project: str) -> int:
        repo = self.office.settings.repo.get(project)
        return repo.weight if repo else 1

    def _waiting(self, tx: Transaction) -> list[Task]:
        found = tasks_in(tx, WAITING)
        if self._only is None:
            return found
        return [task for task in found if belongs(tx, task, self._only)]

    def _places(self, tx: Transaction, tasks: Iterable[Task]) -> dict[str, Place]:
        paused, ready, settings = all_pauses(tx), self.office.ready(), self.office.settings
        closed = closed_pools(tx, self.office.policy())
        found = {task.id: place_of(settings, task, paused, ready, closed) for task in tasks}
        return {name: place for name, place in found.items() if place is not None}


def full_of(rooms: Iterable[Room], floor_mb: int) -> Held | None:
    """The disk on which there is too little room."""
    room = too_full(rooms, floor_mb)
    return Held(Gate.DISK, sentence(room, floor_mb), REMEDY) if room is not None else None


def empty_of(tx: Transaction, budget: Budget, waiting: Sequence[Task]) -> dict[str, Held]:
    """By task, the budget that is used up."""
    spent = spendings(tx, budget, [task.id for task in waiting])
    found = {
        task.id: empty(purses(task.id, task.project, budget, spent, tx.now())) for task in waiting
    }
    return {
        name: Held(Gate.BUDGET, purse.sentence, purse.remedy, until=purse.until)
        for name, purse in found.items()
        if purse is not None
    }


def gates_of(seen: Survey, full: Held | None) -> dict[str, str]:
    """What holds each task that waits; whoever was not looked at is held by the workers alone."""
    if full is None:
        return {name: str(one.gate) for name, one in seen.choice.held.items()}
    own = {task.id: gate_of(task, seen.yard) for task in seen.yard.waiting}
    return {
        name: str(held.gate if held is not None and held.gate in BEFORE_WORKERS else full.gate)
        for name, held in own.items()
    }


def runs_queued(yard: Yard) -> int:
    """How many wait for one of the home's run slots, whether or not a worker is free."""
    found = (gate_of(task, yard) for task in yard.waiting)
    return sum(held is not None and held.gate == Gate.RUNS for held in found)


def governed(tx: Transaction, yard: Yard, policy: Policy, here: Here) -> Further:
    """What the governor would say about each task that has passed all gates here."""

    # It answers by pool and project: a thousand tasks of one project need one question.
    said: dict[tuple[str, str], Held | None] = {}

    def further(task: Task) -> Held | None:
        place = yard.places[task.id]
        key = (place.pool, place.project)
        if key not in said:
            denied = preview(tx, ask_for(task, place, task.id), policy, here)
            said[key] = as_held(denied) if denied else None
        return said[key]

    return further


def returning(
    tx: Transaction, yard: Yard, runs: Iterable[Run], policy: Policy, here: Here
) -> Run | None:
    """The run that has its lent place back now, if there is one; it goes before all tasks."""
    if yard.max_runs > 0 and yard.runs >= yard.max_runs:
        return None
    waiting = [run for run in runs if run.back_wanted_at and run.lent_at]
    first = sorted(waiting, key=lambda run: run.back_wanted_at or "")
    return next((r for r in first if preview(tx, ask_back(r, yard), policy, here) is None), None)


def ask_back(run: Run, yard: Yard) -> Ask:
    """What is asked of the governor for a place that was lent."""
    place = yard.places.get(run.task_id)
    width, weight = (place.width, place.weight) if place else (0, 1)
    program = place.agent if place else run.agent
    return Ask(run.run, run.project, run.pool, run.task_id, program, width=width, weight=weight)


def ask_for(task: Task, place: Place, lease: str) -> Ask:
    """What is asked of the governor for a task."""
    return Ask(
        lease,
        task.project,
        place.pool,
        task_id=task.id,
        program=place.agent,
        width=place.width,
        weight=place.weight,
    )


def as_held(denied: Denied) -> Held:
    """The governor's no, as any other."""
    return Held(
        denied.gate.value,
        denied.what,
        denied.remedy,
        since=denied.since,
        until=denied.opens_at,
        over=max(denied.found - denied.allowed, 0),
    )

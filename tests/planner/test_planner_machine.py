"""Queue and dependencies on a database, under anything that happens: a state machine."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from planner_yard import PATIENT, SCOPES, add, begin, end_run, starting

from example_counts import examples
from hostler.clock import FakeClock
from hostler.model import parse_timestamp
from hostler.planner.dependencies import DependencyCycle, parse_dependencies, require_no_cycle
from hostler.planner.queue import (
    find_stale,
    read_blockers,
    read_graph,
    read_hopeless,
    read_queue,
    submission_result,
)
from hostler.store import Store, open_store
from hostler.store.runs import open_runs
from hostler.store.tasks import Task, TaskState, change_task, require_task, tasks_in
from hostler.workflows.turns import requeue_unstarted

GRACE = timedelta(seconds=5)
WAITING, RUNNING, DONE, FAILED, STOPPED = "waiting", "running", "done", "failed", "stopped"


@dataclass
class Entry:
    """What the model knows of a task. `agent`: there is a process; `issue`: its number, or 0."""

    needs: tuple[str, ...]
    issue: int = 0
    state: str = WAITING
    begun: bool = False
    agent: bool = False


class House(RuleBasedStateMachine):
    """People submit, stop and mark as done; agents finish, fail or vanish; the service restarts."""

    template: ClassVar[Path]

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        memory = Path("/dev/shm")
        folder = tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)
        self.home = Path(self.stack.enter_context(folder))
        shutil.copy(self.template, self.home / self.template.name)
        self.clock = FakeClock()
        self.store: Store = self._open()
        self.model: dict[str, Entry] = {}
        self.cap = 1

    def teardown(self) -> None:
        try:
            self._see_everything_through()
        finally:
            self.store.close()
            self.stack.close()

    @initialize(cap=st.integers(0, 3))
    def the_house_opens(self, cap: int) -> None:
        self.cap = cap

    # What people do.

    @rule(data=st.data(), of_issue=st.booleans())
    def submit(self, data: st.DataObject, of_issue: bool) -> None:
        if len(self.model) >= 12:
            return
        name = f"t{len(self.model):02}"
        issues = [f"octo/stable#{n}" for n in range(1, 13)]
        known = st.sampled_from([*self.model, *issues, "nobody"])
        needs = parse_dependencies(data.draw(st.lists(known, max_size=3)))
        issue = len(self.model) + 1 if of_issue else None
        mine = Entry(needs, issue or 0)
        with self.store.write(*SCOPES) as tx:
            task = add(tx, name, issue=issue)
            try:
                require_no_cycle(read_graph(tx, needs), name, needs)
            except DependencyCycle:
                assert self._circle(mine)
                needs, mine = (), Entry((), issue or 0)
            else:
                assert not self._circle(mine)
            task = change_task(tx, task, replace(task, depends_on=needs))
            self.model[name] = mine
            answer = submission_result(read_queue(tx, self.cap), task)
        ahead = [n for n in self._able() if n < name]
        expected = 0 if self._held(name) else len(ahead) + 1
        assert answer.queue_position in (0, expected)

    @precondition(lambda self: self._in(WAITING, RUNNING))
    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        """Final at once, though its agent needs a while to leave."""
        self._end(data.draw(st.sampled_from(self._in(WAITING, RUNNING))), STOPPED)

    @precondition(lambda self: self._in(WAITING))
    @rule(data=st.data())
    def mark_as_done(self, data: st.DataObject) -> None:
        self._end(data.draw(st.sampled_from(self._in(WAITING))), DONE)

    @precondition(lambda self: self._retriable())
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self._retriable()))
        self._set(name, TaskState.QUEUED, attempt=0)
        self.model[name].state, self.model[name].begun = WAITING, False

    # What agents do.

    @precondition(lambda self: self._with_agents())
    @rule(data=st.data(), well=st.booleans())
    def an_agent_leaves(self, data: st.DataObject, well: bool) -> None:
        name = data.draw(st.sampled_from(self._with_agents()))
        entry = self.model[name]
        with self.store.write(*SCOPES) as tx:
            end_run(tx, name, "success" if well else "crash")
        entry.agent = False
        if entry.state == RUNNING:
            self._end(name, DONE if well else FAILED)

    @precondition(lambda self: self._with_agents())
    @rule(data=st.data())
    def an_agent_is_tried_again(self, data: st.DataObject) -> None:
        """It goes back into the queue at its old place."""
        name = data.draw(st.sampled_from(self._with_agents()))
        if self.model[name].state != RUNNING:
            return
        with self.store.write(*SCOPES) as tx:
            end_run(tx, name, "crash")
        self._set(name, TaskState.QUEUED)
        self.model[name].agent, self.model[name].state = False, WAITING

    @precondition(lambda self: self._with_agents())
    @rule(data=st.data())
    def a_run_is_lost(self, data: st.DataObject) -> None:
        """Its row vanishes: after the grace, and not before, the task is queued again."""
        name = data.draw(st.sampled_from(self._with_agents()))
        entry = self.model[name]
        if entry.state != RUNNING:
            return
        with self.store.write(*SCOPES) as tx:
            tx.constant("DELETE FROM runs WHERE task_id = ? AND state <> 'ended'", (name,))
        with self.store.read() as tx:
            first = require_task(tx, name).attempt == 1
        began = self._since(name)
        self.clock.advance(max((began + GRACE - self.clock.now()).total_seconds(), 0))
        if self.clock.now() == began + GRACE:
            assert name not in self._recovered()
        self.clock.advance(1)
        assert name in self._recovered()
        entry.agent, entry.state, entry.begun = False, WAITING, not first

    # What the service does.

    @rule()
    def admit_one(self) -> None:
        with self.store.write(*SCOPES) as tx:
            chosen = starting(read_queue(tx, self.cap))
            for task in chosen[:1]:
                begin(tx, task)
        able = self._able()
        taken = self._taken()
        room = self.cap <= 0 or len(taken) < self.cap
        # First come, first served, as far as there is room; and nobody is passed over.
        assert [task.id for task in chosen[:1]] == (able[:1] if room else [])
        for task in chosen[:1]:
            entry = self.model[task.id]
            assert not entry.agent and entry.state == WAITING
            entry.state, entry.begun, entry.agent = RUNNING, True, True

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = self._open()

    @rule(cap=st.integers(0, 3))
    def change_the_cap(self, cap: int) -> None:
        self.cap = cap

    # What must hold.

    @invariant()
    def rows_and_model_agree(self) -> None:
        words = {
            TaskState.QUEUED: WAITING,
            TaskState.RUNNING: RUNNING,
            TaskState.DONE: DONE,
            TaskState.FAILED: FAILED,
            TaskState.STOPPED: STOPPED,
        }
        with self.store.read() as tx:
            tasks = tasks_in(tx, list(TaskState))
            runs = [run.task_id for run in open_runs(tx)]
            held = read_blockers(tx, [task for task in tasks if task.state is TaskState.QUEUED])
        assert {task.id: words[task.state] for task in tasks} == {
            name: entry.state for name, entry in self.model.items()
        }
        assert sorted(runs) == sorted(self._with_agents())
        assert set(held) == {name for name in self._in(WAITING) if self._held(name)}

    @invariant()
    def what_can_never_proceed_is_reported(self) -> None:
        with self.store.read() as tx:
            stuck = set(read_hopeless(tx))
        assert stuck == {name for name in self._in(WAITING) if self._stuck(name)}

    @invariant()
    def positions_are_places_in_the_line(self) -> None:
        with self.store.read() as tx:
            queue = read_queue(tx, self.cap)
        assert queue.positions == {name: n for n, name in enumerate(self._line(), start=1)}
        assert queue.occupied == set(self._taken())

    # The model, in its own words.

    def _owners(self, need: str) -> list[str]:
        number = int(need.partition("#")[2])
        return [name for name, entry in self.model.items() if entry.issue == number]

    def _ready(self, need: str) -> bool:
        if "#" in need:
            owners = self._owners(need)
            return bool(owners) and all(self.model[one].state == DONE for one in owners)
        return need in self.model and self.model[need].state == DONE

    def _held(self, name: str) -> bool:
        entry = self.model[name]
        return not entry.begun and not all(self._ready(need) for need in entry.needs)

    def _line(self) -> list[str]:
        return [name for name in self._in(WAITING) if not self._held(name)]

    def _able(self) -> list[str]:
        return [name for name in self._line() if not self.model[name].agent]

    def _taken(self) -> list[str]:
        return [n for n, entry in self.model.items() if entry.state == RUNNING or entry.agent]

    def _ways(self) -> dict[str, list[str]]:
        """Who leads to whom, issues seen through."""
        ways = {}
        for name, entry in self.model.items():
            waits = entry.needs if not entry.begun and entry.state != DONE else ()
            ways[name] = [t for n in waits for t in (self._owners(n) if "#" in n else [n])]
        return ways

    def _circle(self, new: Entry) -> bool:
        """Whether one more task would wait for itself: tasks may wait for its issue already."""
        self.model["new"] = new
        ways = self._ways()
        del self.model["new"]
        reached, names = set(), list(ways["new"])
        while names:
            name = names.pop()
            if name not in reached:
                reached.add(name)
                names += ways.get(name, [])
        return "new" in reached

    def _stuck(self, name: str, path: tuple[str, ...] = ()) -> bool:
        entry = self.model[name]
        if name in path:
            return True
        if entry.state in (FAILED, STOPPED):
            return bool(path)
        if entry.begun or entry.state == DONE:
            return False
        return any(self._past_hope(need, (*path, name)) for need in entry.needs)

    def _past_hope(self, need: str, path: tuple[str, ...]) -> bool:
        if "#" in need:
            return any(self._stuck(one, path) for one in self._owners(need))
        return need not in self.model or self._stuck(need, path)

    # Doing it.

    def _in(self, *states: str) -> list[str]:
        return sorted(name for name, entry in self.model.items() if entry.state in states)

    def _with_agents(self) -> list[str]:
        return sorted(name for name, entry in self.model.items() if entry.agent)

    def _retriable(self) -> list[str]:
        return [name for name in self._in(FAILED, STOPPED) if not self.model[name].agent]

    def _end(self, name: str, state: str) -> None:
        self._set(name, TaskState(state))
        self.model[name].state = state

    def _set(self, name: str, state: TaskState, **more: int) -> None:
        with self.store.write(*SCOPES) as tx:
            present = require_task(tx, name)
            change_task(tx, present, replace(present, state=state, **more))

    def _since(self, name: str) -> datetime:
        with self.store.read() as tx:
            return parse_timestamp(require_task(tx, name).state_since)

    def _recovered(self) -> list[str]:
        """What a service does now and then."""
        with self.store.write(*SCOPES) as tx:
            running = tasks_in(tx, (TaskState.RUNNING,))
            busy = {run.task_id for run in open_runs(tx)}
            lost: list[Task] = find_stale(running, busy, tx.now(), GRACE)
            return [requeue_unstarted(tx, task).id for task in lost]

    def _open(self) -> Store:
        return open_store(self.home, clock=self.clock, patience=PATIENT)

    def _see_everything_through(self) -> None:
        """Nobody starves: while agents end well, all but the hopeless come to their turn."""
        for _ in range(3 * len(self.model)):
            for name in self._with_agents():
                with self.store.write(*SCOPES) as tx:
                    end_run(tx, name, "success")
                self.model[name].agent = False
                if self.model[name].state == RUNNING:
                    self._end(name, DONE)
            self.admit_one()
        for name in self._in(WAITING):
            needs = self.model[name].needs
            # Nobody works on that issue: it waits for a person, not for us.
            nobody = [need for need in needs if "#" in need and not self._owners(need)]
            assert nobody or self._stuck(name) or self._behind_nobody(name)

    def _behind_nobody(self, name: str) -> bool:
        ways, seen, names = self._ways(), set(), [name]
        while names:
            one = names.pop()
            if one in seen or one not in self.model:
                continue
            seen.add(one)
            if any("#" in need and not self._owners(need) for need in self.model[one].needs):
                return True
            names += ways[one]
        return False


def test_the_queue_under_anything(template):
    class Here(House):
        pass

    Here.template = template
    run_state_machine_as_test(
        Here, settings=settings(max_examples=examples(5, 100), stateful_step_count=30)
    )

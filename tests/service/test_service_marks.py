"""Tasks by hand that are marked as done while they wait: on real processes, and as rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from intake_yard import lay_database
from service_town import REPO, Service, Town
from test_service_bus import messages
from test_service_tasks import SAY_DONE, SCOPES, agent, order, outcomes, put, reach, task_dir

from hostler.clock import FakeClock
from hostler.config.settings import Settings
from hostler.planner.queue import read_blockers
from hostler.service.context import AppContext, open_or_create_store
from hostler.service.running.run_state import DoneFileWatcher
from hostler.store import Store, Transaction
from hostler.store.runs import open_runs
from hostler.store.tasks import Flow, Task, TaskState, add_task, next_order, require_task
from hostler.workflows import commands
from hostler.workflows.manual_tasks import TaskSubmission

# Works until somebody makes the file `go`; a prompt that begins with "leave" is left at once.
WORK_UNTIL_TOLD = (
    "said = sys.stdin.read().split()\n"
    "print('here', flush=True)\n"
    "if 'leave' in said: sys.exit(3)\n"
    "if 'early' in said: " + SAY_DONE + "while not pathlib.Path('go').exists(): time.sleep(0.02)\n"
)


def mark(town: Town, task: Task, *, folder: bool = False) -> Path:
    """Somebody says that a task is done; or tries to, with a folder."""
    done = task_dir(town, task) / "DONE"
    done.parent.mkdir(parents=True, exist_ok=True)
    done.mkdir() if folder else done.touch()
    return done


def at_work(service: Service, task: Task) -> Task:
    service.until(lambda: [run for run in service.runs(task) if run.stdout_offset], task.id)
    return task


def state(service: Service, task: Task) -> TaskState:
    with service.app.store.read() as tx:
        return require_task(tx, task.id).state


def waits_for(service: Service, task: Task, gate: str) -> Task:
    def seen() -> Task | None:
        with service.app.store.read() as tx:
            found = require_task(tx, task.id)
        return found if found.gate == gate else None

    return service.until(seen, f"{task.id} {gate}")


def becomes(service: Service, task: Task, wanted: TaskState) -> Task:
    """The task in this state, whatever else is under way."""

    def seen() -> Task | None:
        with service.app.store.read() as tx:
            found = require_task(tx, task.id)
        return found if found.state is wanted else None

    return service.until(seen, f"{task.id} {wanted}")


@contextmanager
def one_at_work(town: Town, prompt: str = "work", **more: Any) -> Iterator[tuple[Service, Task]]:
    """A service, and a task whose agent works until it is told."""
    agent(town, WORK_UNTIL_TOLD)
    with town.service() as service:
        first = at_work(service, put(service, order(town, prompt, **more)))
        try:
            yield service, first
        finally:
            (town.root / "folder" / "go").touch()


def test_a_task_that_waits_for_another_is_done_as_soon_as_it_is_marked(town):
    with one_at_work(town) as (service, first):
        second = put(service, order(town, "second", depends_on=(first.id,)))
        third = put(service, order(town, "third", depends_on=(second.id,)))
        waits_for(service, second, "dependencies")
        mark(town, second)
        done = becomes(service, second, TaskState.DONE)
        assert done.reason == "A DONE file marked it as done."
        assert (done.attempt, done.blockers) == (0, "")
        assert service.runs(second) == []
        # Nobody had to end for it, and whoever waited for it goes on.
        assert state(service, first) is TaskState.RUNNING
        at_work(service, third)


def test_queued_entries_that_are_marked_are_dropped(found_town):
    town = found_town(tasks={"max_concurrent_root_tasks": 1})
    with one_at_work(town) as (service, _):
        queued = waits_for(service, put(service, order(town, "second")), "root_tasks")
        mark(town, queued)
        becomes(service, queued, TaskState.DONE)
        assert service.runs(queued) == []


def test_a_folder_in_place_of_the_mark_ends_the_wait_as_an_error(town):
    with one_at_work(town) as (service, first):
        second = put(service, order(town, "second", depends_on=(first.id,)))
        waits_for(service, second, "dependencies")
        wrong = mark(town, second, folder=True)
        failed = becomes(service, second, TaskState.FAILED)
        assert "DONE must be a regular file" in failed.reason
        assert f"Remove the file, then run: hostler task retry {second.id}" in failed.reason
        # And that is what mends it.
        wrong.rmdir()
        with service.app.store.write(*SCOPES) as tx:
            commands.retry_task(tx, require_task(tx, second.id), "ann")
        waits_for(service, second, "dependencies")


def test_a_task_that_would_be_tried_again_is_not_once_it_is_marked(found_town):
    town = found_town(tasks={"restart_delay_seconds": 300})
    agent(town, "sys.exit(3)\n")
    with town.service() as service:
        waiting = reach(service, put(service, order(town)), TaskState.RETRYING)
        mark(town, waiting)
        done = becomes(service, waiting, TaskState.DONE)
        assert done.wake_at is None and outcomes(service, done) == ["crash"]


def test_children_at_work_are_waited_for_before_a_marked_task_is_done(found_town):
    town = found_town(tasks={"restart_delay_seconds": 300})
    with one_at_work(town, "leave") as (service, parent):
        parent = reach(service, parent, TaskState.RETRYING)
        child = at_work(service, put(service, order(town, "child", parent_task=parent.id)))
        mark(town, parent)
        waiting = becomes(service, parent, TaskState.PARKED)
        assert "1 child task" in waiting.reason
        mark(town, child)
        (town.root / "folder" / "go").touch()
        done = reach(service, parent, TaskState.DONE)
        assert done.reason == "A DONE file marked it as done."
        assert outcomes(service, done) == ["crash"]


def test_children_that_take_too_long_are_a_warning_and_no_failure(found_town):
    town = found_town(tasks={"restart_delay_seconds": 300, "child_wait_timeout_seconds": 1})
    with one_at_work(town, "leave") as (service, parent):
        parent = reach(service, parent, TaskState.RETRYING)
        at_work(service, put(service, order(town, "child", parent_task=parent.id)))
        mark(town, parent)
        becomes(service, parent, TaskState.DONE)
        warned = service.until(
            lambda: [text for kind, text in messages(town, parent) if kind == "WARNING"]
        )
        assert "1 child task" in warned[0]


def test_whoever_depends_on_an_agent_that_has_said_done_need_not_wait_for_its_exit(town):
    with one_at_work(town, "early") as (service, first):
        second = put(service, order(town, "second", depends_on=(first.id,)))
        at_work(service, second)
        with service.app.store.read() as tx:
            assert {run.task_id for run in open_runs(tx)} == {first.id, second.id}


@pytest.mark.parametrize("ended", [TaskState.FAILED, TaskState.NEEDS_INPUT])
def test_a_dependency_that_came_to_nothing_is_ready_when_a_person_marks_it(found_town, ended):
    given_up = {"max_restarts": 1} if ended is TaskState.FAILED else {}
    limits = {"exits_without_progress": 1} if ended is TaskState.NEEDS_INPUT else {}
    town = found_town(tasks=limits)
    with one_at_work(town, "leave", **given_up) as (service, first):
        reach(service, first, ended)
        second = put(service, order(town, "second", depends_on=(first.id,)))
        waits_for(service, second, "dependencies")
        mark(town, first)
        becomes(service, first, TaskState.DONE)
        at_work(service, second)


def test_work_on_a_repository_that_was_not_begun_is_done_when_it_is_marked(town):
    with one_at_work(town) as (service, first):
        wanted = TaskSubmission(
            "stable", "Notes.", "ann", repo_full_name=REPO, depends_on=(first.id,)
        )
        task = waits_for(service, put(service, wanted), "dependencies")
        mark(town, task)
        done = becomes(service, task, TaskState.DONE)
        assert service.runs(done) == []


def test_work_on_a_repository_that_was_begun_is_handed_on_when_it_is_marked(found_town):
    town = found_town(tasks={"restart_delay_seconds": 300})
    agent(town, "pathlib.Path('notes.md').write_text('So far.')\nsys.exit(3)\n")
    with town.service() as service:
        wanted = TaskSubmission("stable", "Write notes.", "ann", repo_full_name=REPO)
        task = reach(service, put(service, wanted), TaskState.RETRYING)
        mark(town, task)
        handed_on = reach(service, task, TaskState.AWAITING_FEEDBACK)
        assert outcomes(service, handed_on) == ["crash", "success"]
        assert [run.counted for run in service.runs(task)] == [True, False]
        service.until(lambda: town.person("alice").pulls())


def test_a_mark_that_was_taken_once_does_not_keep_an_agent_from_mending(found_town):
    town = found_town(repo={"required_tests": ["test -e mended"]})
    agent(
        town,
        "told = sys.stdin.read()\n"
        "name = 'mended' if 'required test' in told else 'notes.md'\n"
        "pathlib.Path(name).write_text('So.')\n" + SAY_DONE,
    )
    with town.service() as service:
        wanted = TaskSubmission("stable", "Write notes.", "ann", repo_full_name=REPO)
        done = reach(service, put(service, wanted), TaskState.AWAITING_FEEDBACK)
        assert outcomes(service, done) == ["success", "success"]
        assert all(run.counted for run in service.runs(done))


class Rows:
    """A home with tasks that nobody serves."""

    def __init__(self, home: Path, store: Store) -> None:
        self.home, self.store = home, store
        self.marks = DoneFileWatcher(AppContext(home, Settings(), store, hub=None))

    def add(self, name: str, state: TaskState = TaskState.QUEUED, **more: Any) -> Task:
        with self.store.write(*SCOPES) as tx:
            new = Task(
                name, "yard", None, None, Flow.TASK, name, "ann", state, tx.stamp(), next_order(tx)
            )
            add_task(tx, replace(new, **{"cwd": "/somewhere", **more}))
            return require_task(tx, name)

    def mark(self, name: str) -> None:
        done = self.home / "projects" / "yard" / "tasks" / name / "DONE"
        done.parent.mkdir(parents=True, exist_ok=True)
        done.touch()

    def state(self, name: str) -> TaskState:
        with self.store.read() as tx:
            return require_task(tx, name).state


@pytest.fixture
def rows(tmp_path: Path) -> Iterator[Rows]:
    lay_database(tmp_path / "home")
    store = open_or_create_store(tmp_path / "home", None, FakeClock())
    yield Rows(tmp_path / "home", store)
    store.close()


@pytest.mark.parametrize("state", TaskState)
def test_there_is_something_to_look_for_only_while_a_task_by_hand_waits(rows, state):
    assert not rows.marks.has_waiting_tasks()
    rows.add("issue", repo_full_name=REPO, issue_number=7)
    rows.add("hand", state)
    waits = state in (TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED)
    assert rows.marks.has_waiting_tasks() == waits


def test_nobody_is_looked_at_who_neither_waits_nor_is_waited_for(rows):
    states = [s for s in TaskState if s not in (TaskState.QUEUED, TaskState.RUNNING)]
    for state in states:
        rows.add(f"alone-{state}", state)
        rows.add(f"needed-{state}", state)
        rows.mark(f"alone-{state}")
        rows.mark(f"needed-{state}")
    rows.add("issue", repo_full_name=REPO, issue_number=7)
    rows.mark("issue")
    rows.add("all", depends_on=tuple(f"needed-{state}" for state in states))
    rows.marks.check()
    waits = (TaskState.RETRYING, TaskState.PARKED)
    final = (TaskState.STOPPED, TaskState.DONE, TaskState.AWAITING_FEEDBACK)
    for state in states:
        assert rows.state(f"alone-{state}") is (TaskState.DONE if state in waits else state)
        assert rows.state(f"needed-{state}") is (state if state in final else TaskState.DONE)
    assert rows.state("issue") is rows.state("all") is TaskState.QUEUED


def test_a_look_costs_one_name_for_each_that_waits_and_no_more_questions(rows, monkeypatch):
    looked, asked = [], []
    execute, lstat = Transaction.execute, Path.lstat

    def counting(tx: Transaction, statement: Any, values: Any = None) -> Any:
        asked.append(statement)
        return execute(tx, statement, values)

    def looking(path: Path) -> Any:
        looked.append(path)
        return lstat(path)

    monkeypatch.setattr(Transaction, "execute", counting)
    monkeypatch.setattr(Path, "lstat", looking)
    seen = []
    for round_ in range(2):
        for number in range(20):
            rows.add(f"t{round_}-{number}")
        looked.clear(), asked.clear()
        rows.marks.check()
        seen.append((len(looked), len(asked)))
    (first, questions), (second, same) = seen
    assert (first, second) == (20, 40) and questions == same


def test_a_mark_that_was_heeded_is_not_written_again(rows):
    rows.add("agent", TaskState.RUNNING, attempt=1)
    rows.add("waits", depends_on=("agent",))
    rows.mark("agent")
    rows.marks.check()
    mark = rows.store.change_mark()
    with rows.store.read() as tx:
        assert require_task(tx, "agent").finishing
        assert read_blockers(tx, [require_task(tx, "waits")]) == {}
    rows.marks.check()
    assert rows.store.change_mark() == mark

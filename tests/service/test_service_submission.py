"""Names, submissions, rest and deletion, on a database; no process is needed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from intake_yard import database

from hostler.clock import FakeClock
from hostler.config.settings import Agent, Repo, Runtime, Settings, Tasks
from hostler.governor.gates import LeaseRequest
from hostler.governor.holders import read_host
from hostler.governor.leases import acquire
from hostler.governor.parking import park
from hostler.governor.policy import Policy
from hostler.model import RepoName
from hostler.planner.dependencies import BadDependency, DependencyCycle
from hostler.runs import NewRun, admit_run
from hostler.service.context import SERVICE_PURPOSE, Presence
from hostler.service.scheduling.task_waits import (
    exit_code_of,
    find_enough_settled,
    find_settled,
    wait_for_tasks,
)
from hostler.service.tasks.control import NotDeleted, TaskStopper, delete_tasks
from hostler.service.tasks.details import NoSuchTask, resolve_task, resolve_tasks
from hostler.service.tasks.submission import (
    SUBMIT_SCOPES,
    SubmissionContext,
    TaskRequest,
    queue_task,
)
from hostler.store.engine.locks import Holder as Process
from hostler.store.operator import ALL, pause
from hostler.store.pull_requests import PullRow, PullStatus, add_pull, change_pull, find_pull
from hostler.store.runs import find_run
from hostler.store.tasks import TaskState, change_task, find_task, require_task, tasks_in
from hostler.workflows.commands import CommandRefused
from hostler.workflows.manual_tasks import NotSubmitted

SERVED = Presence(Process(1, "hostler", "here", "2020-01-01T00:00:00.000Z", SERVICE_PURPOSE))
POLICY = Policy(memory_floor_mb=0)


class Desk:
    """A home, and whoever asks for something."""

    def __init__(self, home: Path, store, clock: FakeClock) -> None:
        self.home, self.store, self.clock = home, store, clock
        self.settings = Settings(
            agent={"helper": Agent(kind="command", command=["x"])},
            repo={"stable": Repo(owner="Octo", name="Stable")},
            # How much memory is free here is no matter of these tests.
            runtime=Runtime(memory_floor_mb=0),
        )

    def take(self, text="Tidy up.", *needs, parent="", waits=False, served=True, **more):
        wish = replace(TaskRequest(text, "ann", "/home/ann/barn"), **more)
        at = SubmissionContext(
            self.home, self.settings, parent, waits, SERVED if served else Presence()
        )
        return queue_task(self.store, at, wish, needs)

    def task(self, *words, **more):
        return self.take(*words, **more).task

    def put(self, task, state, **more):
        with self.store.write(*SUBMIT_SCOPES) as tx:
            present = require_task(tx, task.id)
            return change_task(tx, present, replace(present, state=state, **more))

    def begin(self, task):
        self.put(task, TaskState.RUNNING, attempt=1)
        with self.store.write(*SUBMIT_SCOPES) as tx:
            run = admit_run(tx, NewRun(task.id, task.project, "work", "helper", "command"))
            acquire(
                tx, LeaseRequest(run.run, task.project, "", task_id=task.id), POLICY, read_host()
            )
            return run

    def configure(self, **tables) -> None:
        self.settings = self.settings.model_copy(update=tables)

    def folder(self, task) -> Path:
        return self.home / "projects" / task.project / "tasks" / task.id

    def stopper(self) -> TaskStopper:
        return TaskStopper(self.home, self.store, self.clock, 1.0, "ann", "lunch")

    def all(self):
        with self.store.read() as tx:
            return tasks_in(tx, tuple(TaskState))


@pytest.fixture
def repo_context(tmp_path):
    clock = FakeClock()
    with database(clock) as store:
        yield Desk(tmp_path / "home", store, clock)


# -- names ----------------------------------------------------------------------------------


def test_a_task_is_meant_by_its_id_or_a_beginning_that_is_its_own(repo_context):
    first = repo_context.task("Sweep the yard")
    second = repo_context.task("Sweep the yard")
    repo_context.clock.advance(86_400)
    third = repo_context.task("Mend the fence")
    with repo_context.store.read() as tx:
        # The first one's id is the beginning of the second's, and still means the first.
        assert second.id == f"{first.id}-2"
        assert resolve_task(tx, first.id).id == first.id
        assert resolve_task(tx, f" {second.id} ").id == second.id
        assert resolve_task(tx, third.id[:8]).id == third.id
        with pytest.raises(NoSuchTask, match="Several tasks begin with"):
            resolve_task(tx, first.id[:20])
        assert [one.id for one in resolve_tasks(tx, [third.id, first.id, third.id[:12]])] == [
            third.id,
            first.id,
        ]


@pytest.mark.parametrize(
    "text", ["", " ", "2", "202", "nobody", "a\0b", "\udcff", "%", "#", "#12", "a/b#0", "a b#1"]
)
def test_what_means_no_task_is_said(repo_context, text):
    repo_context.task()
    with repo_context.store.read() as tx, pytest.raises(NoSuchTask) as caught:
        resolve_task(tx, text)
    assert caught.value.exit_code == 2 and caught.value.remedy


def test_a_slip_gets_a_proposal(repo_context):
    task = repo_context.task("Sweep the yard")
    with repo_context.store.read() as tx, pytest.raises(NoSuchTask) as caught:
        resolve_task(tx, task.id.replace("sweep", "seep"))
    assert f"Did you mean {task.id}?" in caught.value.remedy


def test_an_issue_means_its_newest_task(repo_context):
    task = repo_context.task()
    with repo_context.store.write(*SUBMIT_SCOPES) as tx:
        change_task(tx, task, replace(task, repo_full_name="Octo/Stable", issue_number=12))
    with repo_context.store.read() as tx:
        assert resolve_task(tx, "octo/stable#12").id == task.id
        with pytest.raises(NoSuchTask, match="no task for octo/stable#13"):
            resolve_task(tx, "octo/stable#13")


# -- submitting -----------------------------------------------------------------------------


def test_it_is_started_if_there_is_room_and_queued_if_not(repo_context):
    repo_context.settings = repo_context.settings.model_copy(
        update={"tasks": Tasks(max_concurrent_root_tasks=1)}
    )
    first, second = repo_context.take(), repo_context.take()
    assert (first.standing.status, first.standing.queue_position) == ("started", 0)
    assert (second.standing.status, second.standing.queue_position) == ("queued", 2)
    assert (second.denial.gate, second.denial.why) == ("turn", f"{first.task.id} starts first.")
    repo_context.begin(first.task)
    third = repo_context.take()
    assert (third.standing.status, third.standing.queue_position) == ("queued", 2)
    assert (third.denial.gate, third.denial.why) == ("root_tasks", "1 of 1 root tasks are running.")
    assert repo_context.take(served=False).standing.queue_position == 3
    assert (repo_context.folder(first.task) / "TASK.md").read_text() == "Tidy up.\n"


def workers(repo_context):
    repo_context.configure(runtime=Runtime(memory_floor_mb=0, worker_count=1))
    repo_context.begin(repo_context.task())


def runs(repo_context):
    repo_context.configure(tasks=Tasks(max_concurrent_runs=1))
    repo_context.begin(repo_context.task())


def width(repo_context):
    for _ in range(3):
        repo_context.begin(repo_context.task())


def cap(repo_context):
    repo_context.configure(runtime=Runtime(memory_floor_mb=0, max_global_agents=1))
    repo_context.begin(repo_context.task(project="field"))


def parked(repo_context):
    with repo_context.store.write("admission") as tx:
        park(tx, "", tx.now() + timedelta(hours=1), "The window is spent.")


def paused(repo_context):
    with repo_context.store.write("admission", "tasks") as tx:
        pause(tx, ALL, "ann", "lunch")


def memory(repo_context):
    repo_context.configure(runtime=Runtime(memory_floor_mb=2**24))


@pytest.mark.parametrize("shut", [workers, runs, width, cap, parked, paused, memory])
def test_it_is_not_started_by_words_while_any_gate_holds_it(repo_context, shut):
    assert repo_context.take().standing.status == "started"
    for task in repo_context.all():
        repo_context.put(task, TaskState.DONE)
    shut(repo_context)
    taken = repo_context.take()
    assert (taken.standing.status, taken.standing.queue_position) == ("queued", 1)
    assert taken.denial.gate == shut.__name__ and taken.denial.why and taken.denial.remedy


def test_a_child_has_no_position_and_says_what_holds_it(repo_context):
    parent = repo_context.task()
    runs(repo_context)
    taken = repo_context.take("Help.", parent=parent.id)
    assert (taken.standing.status, taken.standing.queue_position) == ("queued", 0)
    assert taken.denial.gate == "runs"


def test_caps_that_cannot_be_read_keep_nobody_from_the_queue(repo_context):
    repo_context.home.mkdir()
    (repo_context.home / "governor.json").write_text("{")
    taken = repo_context.take()
    assert taken.standing.status == "queued" and "governor.json" in taken.denial.why


def test_nothing_starts_where_nobody_works(repo_context):
    taken = repo_context.take(served=False)
    assert (taken.standing.status, taken.standing.queue_position) == ("queued", 1)


def test_what_it_waits_for_is_said(repo_context):
    other = repo_context.task()
    repo_context.put(other, TaskState.FAILED, reason="It broke.")
    taken = repo_context.take("Then this.", other.id[:15] + "-barn", "octo/stable#7,OCTO/Stable#7")
    assert taken.task.depends_on == (other.id, "octo/stable#7")
    assert taken.standing.status == "queued"
    first, second = taken.blockers
    assert first.hopeless and "It broke." in first.sentence
    assert not second.hopeless


@pytest.mark.parametrize("name", ["nobody", "20260101", "a b", "#12", "x/y#0"])
def test_dependencies_that_name_nothing_are_refused(repo_context, name):
    with pytest.raises((NoSuchTask, BadDependency)):
        repo_context.take("Then this.", name)
    assert repo_context.all() == []


def test_numbers_mean_the_repository_of_the_task(repo_context):
    assert repo_context.task("On it.", "#12", repo="stable").depends_on == ("octo/stable#12",)


def test_a_child_stands_below_its_parent(repo_context):
    parent = repo_context.task()
    child = repo_context.task("Help.", parent=parent.id)
    assert (child.parent_task, child.project, child.cwd) == (parent.id, "barn", "/home/ann/barn")
    # Names of another home's task mean nothing here.
    assert repo_context.task("Alone.", parent="elsewhere").parent_task is None


@pytest.mark.parametrize("state", [TaskState.STOPPED, TaskState.DONE, TaskState.FAILED])
def test_nothing_comes_from_a_task_that_is_over(repo_context, state):
    parent = repo_context.put(repo_context.task(), state)
    with pytest.raises(NotSubmitted, match="cannot get new child tasks"):
        repo_context.take("Late.", parent=parent.id)


def test_who_waits_for_a_child_that_waits_for_him_is_told_before_anything_changes(repo_context):
    top = repo_context.task()
    parent = repo_context.task("Middle.", parent=top.id)
    for above in (top, parent):
        with pytest.raises(DependencyCycle) as caught:
            repo_context.take("Child.", above.id, parent=parent.id, waits=True)
        assert caught.value.what == f"dependency cycle detected: {above.id} -> {above.id}"
    assert len(repo_context.all()) == 2
    # Who does not wait may leave something for later.
    assert repo_context.task("Afterwards.", parent.id, parent=parent.id).depends_on == (parent.id,)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"text": "  \n"}, "empty"),
        ({"text": "a\0b"}, "NUL"),
        ({"text": "x" * 1_000_001}, "1000000"),
        ({"title": "x" * 121}, "120"),
    ],
)
def test_prompts_and_titles_have_bounds(repo_context, more, words):
    with pytest.raises(NotSubmitted, match=words):
        repo_context.take(**more)
    assert repo_context.all() == []


# -- rest -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ([TaskState.DONE, TaskState.AWAITING_FEEDBACK], 0),
        ([TaskState.DONE, TaskState.NEEDS_INPUT], 3),
        ([TaskState.BLOCKED], 3),
        ([TaskState.NEEDS_INPUT, TaskState.FAILED], 1),
        ([TaskState.STOPPED], 1),
    ],
)
def test_what_tasks_have_come_to(repo_context, states, code):
    tasks = [repo_context.put(repo_context.task(), state) for state in states]
    found = find_enough_settled(repo_context.store, [task.id for task in tasks])
    assert [one.task.state for one in found] == states
    assert exit_code_of(found) == code


@pytest.mark.parametrize(
    "state", [TaskState.QUEUED, TaskState.RUNNING, TaskState.RETRYING, TaskState.PARKED]
)
def test_what_goes_on_by_itself_is_not_at_rest(repo_context, state):
    done, moving = repo_context.put(repo_context.task(), TaskState.DONE), repo_context.task()
    if state is not TaskState.QUEUED:
        repo_context.put(moving, state)
    names = [done.id, moving.id]
    assert find_enough_settled(repo_context.store, names) is None
    assert [one.task.id for one in find_enough_settled(repo_context.store, names, any)] == [done.id]


def test_a_stopped_task_is_at_rest_when_its_agent_is_gone(repo_context):
    task = repo_context.task()
    repo_context.begin(task)
    repo_context.put(task, TaskState.STOPPED)
    with repo_context.store.read() as tx:
        assert find_settled(tx, [task.id]) == []


def test_what_can_never_start_is_at_rest_and_needs_a_person(repo_context):
    failed = repo_context.put(repo_context.task("First."), TaskState.FAILED, reason="It broke.")
    second = repo_context.task("Second.", failed.id)
    third = repo_context.task("Third.", second.id)
    found = find_enough_settled(repo_context.store, [second.id, third.id])
    assert exit_code_of(found) == 3
    assert all(failed.id in one.stuck[0].sentence for one in found)


def test_a_run_does_not_wait_for_itself(repo_context):
    top = repo_context.task()
    parent = repo_context.task("Middle.", parent=top.id)
    later = repo_context.task("Later.", parent.id)
    run = repo_context.begin(parent)
    for name in (parent.id, top.id, later.id):
        with pytest.raises(DependencyCycle):
            wait_for_tasks(repo_context.store, repo_context.clock, [name], run.run)
    with repo_context.store.read() as tx:
        assert find_run(tx, run.run).slot_released_at is None


# -- stopping -------------------------------------------------------------------------------


def test_several_are_stopped_together_or_none_is(repo_context):
    first, second = repo_context.task(), repo_context.put(repo_context.task(), TaskState.DONE)
    child = repo_context.task("Child.", parent=first.id)
    with pytest.raises(CommandRefused):
        repo_context.stopper().stop([first.id, second.id])
    with repo_context.store.read() as tx:
        assert require_task(tx, first.id).state is TaskState.QUEUED
    changed = repo_context.stopper().stop([first.id, child.id])
    assert [one.id for one in changed] == [first.id, child.id]
    assert {one.reason for one in changed} == {"Stopped by ann: lunch"}


def test_everything_that_moves_is_stopped_and_nothing_else(repo_context):
    moving = [repo_context.task() for _ in range(4)]
    run = repo_context.begin(moving[1])
    repo_context.put(moving[2], TaskState.PARKED)
    repo_context.put(moving[3], TaskState.RETRYING)
    still = [
        repo_context.put(repo_context.task(), s) for s in (TaskState.DONE, TaskState.NEEDS_INPUT)
    ]
    changed = repo_context.stopper().stop_everything()
    assert {one.id for one in changed} == {one.id for one in moving}
    with repo_context.store.read() as tx:
        assert find_run(tx, run.run).stop_why == "Stopped by ann: lunch"
        assert [require_task(tx, one.id).state for one in still] == ["done", "needs_input"]
    assert repo_context.stopper().stop_everything() == []


# -- deleting -------------------------------------------------------------------------------


def test_a_family_that_is_over_goes_whole(repo_context):
    top, other = repo_context.task(), repo_context.put(repo_context.task(), TaskState.DONE)
    child = repo_context.put(repo_context.task("Child.", parent=top.id), TaskState.FAILED)
    repo_context.put(top, TaskState.DONE)
    done = delete_tasks(repo_context.home, repo_context.store, [top.id])
    assert [one.id for one in done.tasks] == [child.id, top.id]
    assert not repo_context.folder(top).exists() and not repo_context.folder(child).exists()
    assert repo_context.folder(other).exists()
    assert [one.id for one in repo_context.all()] == [other.id]


def test_what_is_needed_stays(repo_context):
    task = repo_context.task()
    refused(repo_context, task, "it is queued")
    run = repo_context.begin(task)
    repo_context.put(task, TaskState.STOPPED)
    refused(repo_context, task, "has not ended")
    assert run


def test_who_has_unfinished_children_stays(repo_context):
    parent = repo_context.task()
    repo_context.task("Child.", parent=parent.id)
    repo_context.put(parent, TaskState.DONE)
    refused(repo_context, parent, "it is queued")


def test_what_others_wait_for_stays(repo_context):
    first = repo_context.put(repo_context.task(), TaskState.DONE)
    second = repo_context.task("Then.", first.id)
    refused(repo_context, first, f"{second.id} waits for it")
    repo_context.put(second, TaskState.STOPPED)
    delete_tasks(repo_context.home, repo_context.store, [first.id, second.id])
    assert repo_context.all() == []


def test_whose_pull_request_is_open_stays(repo_context):
    task = repo_context.task("On it.", repo="stable")
    repo_context.put(task, TaskState.STOPPED, pr_number=3)
    row = PullRow("Octo/Stable", 3, 0, task.id, "agent/x", PullStatus.AWAITING_FEEDBACK)
    with repo_context.store.write(*SUBMIT_SCOPES) as tx:
        add_pull(tx, row)
    refused(repo_context, task, "#3 is open")
    with repo_context.store.write(*SUBMIT_SCOPES) as tx:
        found = find_pull(tx, RepoName("Octo", "Stable"), 3)
        change_pull(tx, found, replace(found, status=PullStatus.MERGED))
    delete_tasks(repo_context.home, repo_context.store, [task.id])
    assert repo_context.all() == []


def refused(repo_context, task, words) -> None:
    with pytest.raises(NotDeleted) as caught:
        delete_tasks(repo_context.home, repo_context.store, [task.id])
    assert words in caught.value.what
    with repo_context.store.read() as tx:
        assert find_task(tx, task.id) is not None

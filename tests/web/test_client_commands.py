"""Commands have the same rows, results, errors and exit codes with both backends."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import timedelta
from functools import partial

import pytest
from command_backends import BOB, local_backend, open_backend
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.bus.bus import Bus, BusLocation
from hostler.bus.message import MessageType
from hostler.config.pools import POOLS_FILE_NAME, load_pools
from hostler.errors import HostlerError
from hostler.service.running.bus_messages import BusMessageDraft
from hostler.service.scheduling.admission import ADMISSION_SCOPES
from hostler.service.tasks.submission import TaskRequest
from hostler.store.operator import ALL, all_pauses, project_scope
from hostler.store.tasks import TaskState, change_task, require_task, tasks_in
from hostler.web.client.connection import NotExecuted
from hostler.workflows.manual_tasks import MAX_PROMPT_LENGTH


@pytest.fixture(params=["store", "service"])
def backend(request):
    with open_backend(request.param) as found:
        yield found


def row(backend, name):
    with backend.api_home.store.read() as tx:
        return require_task(tx, name)


def task_request(**more):
    return TaskRequest(**{"prompt": "Tidy up", "author": BOB, "here": "/tmp", **more})


def test_tasks_are_stopped_resumed_cancelled_and_retried(backend):
    parent = backend.api_home.put("barn")
    child = backend.api_home.put("barn", order={"parent_task": parent.id})
    for verb, state in (("stop", "stopped"), ("resume", "queued"), ("cancel", "stopped")):
        changed = getattr(backend.tasks, verb)([parent.id], " wrong \n branch ")
        assert changed[0].id == parent.id and changed[0].state == state
        told = row(backend, parent.id)
        assert changed[0].reason == told.reason and told.reason.endswith("by bob: wrong branch")
        assert told.state == state
    assert row(backend, child.id).state is TaskState.STOPPED
    both = backend.tasks.retry([parent.id, child.id])
    assert [(one.id, one.project, one.state) for one in both] == [
        (parent.id, "barn", TaskState.QUEUED),
        (child.id, "barn", TaskState.QUEUED),
    ]


def test_either_all_tasks_of_a_batch_change_or_none(backend):
    moving, over = backend.api_home.put(), backend.api_home.put(state=TaskState.DONE)
    with pytest.raises(HostlerError, match="cannot be stopped") as refused:
        backend.tasks.stop([moving.id, over.id])
    assert refused.value.exit_code == 1 and row(backend, moving.id).state is TaskState.QUEUED


def test_a_question_is_answered(backend):
    asks = backend.api_home.put(state=TaskState.NEEDS_INPUT, question="Which?")
    queued = backend.tasks.answer(asks.id, "Red\nor “blue”")
    assert (queued.id, queued.state) == (asks.id, TaskState.QUEUED)
    told = row(backend, asks.id)
    assert told.note == "bob answers: Red\nor “blue”" and told.reason == "Answered by bob."


@pytest.mark.parametrize("scope", [ALL, project_scope("barn")])
def test_a_scope_is_paused_and_unpaused(backend, scope):
    first, again = (
        backend.pauses.pause(scope, "release  week"),
        backend.pauses.pause(scope, "other"),
    )
    assert (first.changed, again.changed, again.held) == (True, False, first.held)
    with backend.api_home.store.read() as tx:
        assert all_pauses(tx) == {scope: first.held}
    assert (first.held.by, first.held.why) == (BOB, "release week")
    other = project_scope("field")
    backend.pauses.pause(other)
    assert backend.pauses.unpause(scope) == (True, [other])
    assert backend.pauses.unpause(scope) == (False, [other])


def test_a_task_is_submitted(backend, tmp_path):
    first = backend.queue.submit(task_request(cwd=str(tmp_path), title="One"), [])
    more = {"repo": "octo/stable", "env": ("A",), "wall_limit_minutes": 7, "max_restarts": 2}
    second = backend.queue.submit(task_request(**more), [first.id])
    told = row(backend, second.id)
    assert (told.author, told.approved_by, told.env) == (BOB, BOB, ("A",))
    assert (told.wall_limit_minutes, told.max_restarts) == (7, 2)
    assert (second.project, second.gate, second.depends_on) == (
        "stable",
        "dependencies",
        (first.id,),
    )
    assert second.blockers[0]["name"] == first.id
    folder = backend.api_home.home / "projects" / first.project / "tasks" / first.id
    assert (folder / "TASK.md").read_text() == "Tidy up\n"
    # Without a repository or folder, the task runs in the caller's folder.
    assert row(backend, backend.queue.submit(task_request(here=str(tmp_path)), []).id).cwd == str(
        tmp_path
    )


def test_a_message_is_posted_on_a_bus(backend):
    begun = BusMessageDraft("barn", "", MessageType.USER, "Hello", create=True)
    first = backend.buses.post(begun)
    second = backend.buses.post(replace(begun, text="And “more”", thread=first["id"], create=False))
    kept = Bus(BusLocation(backend.api_home.home, "barn").path).tail(9).messages
    assert [dict(one.stored()) for one in kept] == [dict(first), dict(second)]
    assert kept[1].thread == first["id"] and kept[1].sender.name == BOB


def test_a_pool_is_set_parked_resumed_and_reset(backend):
    backend.pools.set("openai:work", {"max_global_agents": 3, "adaptive": True})
    caps = load_pools(backend.api_home.home / POOLS_FILE_NAME)["openai:work"]
    assert (caps.max_global_agents, caps.adaptive) == (3, True)
    now = backend.api_home.clock.now()
    for_an_hour = backend.pools.park("openai:work", timedelta(hours=1), "keys")
    assert (for_an_hour.until, for_an_hour.why) == (now + timedelta(hours=1), "keys")
    longer = backend.pools.park("openai:work", now + timedelta(days=2), "keys")
    assert longer.until == now + timedelta(days=2)
    assert backend.pools.park("openai:work", None, "keys").ends_at is None
    assert [backend.pools.resume("openai:work") for _ in range(2)] == [True, False]
    assert [backend.pools.reset("openai:work") for _ in range(2)] == [True, False]


# -- errors ------------------------------------------------------------------------------------

BLANK = BusMessageDraft("barn", "", MessageType.FACT, "x")
# Commands that both backends refuse.
REFUSED = {
    "no such task": lambda backend: backend.tasks.stop(["nobody"]),
    "no such issue": lambda backend: backend.tasks.retry(["octo/barn#7"]),
    "no issue": lambda backend: backend.tasks.cancel(["octo#x"]),
    "not in this state": lambda backend: backend.tasks.resume(["20241004"]),
    "no question": lambda backend: backend.tasks.answer("20241004", "Red"),
    "blank answer": lambda backend: backend.tasks.answer("20241004", " "),
    "two places": lambda backend: backend.queue.submit(task_request(cwd="/tmp", repo="barn"), []),
    "unknown repository": lambda backend: backend.queue.submit(task_request(repo="no/where"), []),
    "unknown agent": lambda backend: backend.queue.submit(task_request(agent="nobody"), []),
    "bad variable": lambda backend: backend.queue.submit(task_request(env=("A=b",)), []),
    "bad project": lambda backend: backend.queue.submit(task_request(project="../x"), []),
    "blank prompt": lambda backend: backend.queue.submit(task_request(prompt=" \n"), []),
    "unknown dependency": lambda backend: backend.queue.submit(task_request(), ["nobody"]),
    "no bus": lambda backend: backend.buses.post(BLANK),
    "no thread": lambda backend: backend.buses.post(replace(BLANK, create=True, thread="x")),
    "no name": lambda backend: backend.buses.post(replace(BLANK, project="x.lock")),
}
# Requests that the API itself refuses, so that commands use the database.
NOT_EXECUTED = {
    "long title": lambda backend: backend.queue.submit(task_request(title="x" * 121), []),
    "large prompt": lambda backend: backend.queue.submit(
        task_request(prompt="ü" * MAX_PROMPT_LENGTH), []
    ),
    "no folder": lambda backend: backend.queue.submit(task_request(here=""), []),
    "long reason": lambda backend: backend.pauses.pause(ALL, "x" * 1001),
    "unknown project": lambda backend: backend.pauses.pause(project_scope("elsewhere")),
    "no text": lambda backend: backend.tasks.stop(["a\udcff"]),
    "a word of the service": lambda backend: backend.buses.post(
        replace(BLANK, type=MessageType.RUN_STOP)
    ),
    "a cap that is none": lambda backend: backend.pools.set("p", {"max_global_agents": -1}),
    "a pool that cannot be": lambda backend: backend.pools.reset("a/b"),
    "a damaged file": lambda backend: damaged(backend),
}


def damaged(backend):
    (backend.api_home.home / POOLS_FILE_NAME).write_text("{")
    backend.pools.set("p", {"max_global_agents": 1})


def error_of(act, backend):
    try:
        return act(backend)
    except HostlerError as error:
        return error.lines(), error.exit_code


def call_like_a_command(act, backend):
    """Fall back to the database if the service executes nothing, as commands do."""
    try:
        return error_of(act, backend)
    except NotExecuted:
        return error_of(act, local_backend(backend.api_home))


def rows(api_home):
    with api_home.store.read() as tx:
        return [asdict(task) for task in tasks_in(tx, tuple(TaskState))], all_pauses(tx)


@pytest.fixture(scope="module")
def served():
    """Both backends of one home, for commands that change nothing."""
    with open_backend("service") as found:
        found.api_home.put()
        yield found, local_backend(found.api_home)


@pytest.mark.parametrize("name", REFUSED)
def test_both_backends_raise_the_same_error(served, name):
    there, here = served
    before = rows(there.api_home)
    told = error_of(REFUSED[name], there)
    assert told == error_of(REFUSED[name], here)
    assert isinstance(told, tuple) and told[0] and told[1] in (1, 2)
    assert rows(there.api_home) == before


@pytest.mark.parametrize("name", NOT_EXECUTED)
def test_requests_refused_by_the_api_are_not_executed(served, name):
    there, _ = served
    before = rows(there.api_home)
    with pytest.raises(NotExecuted):
        NOT_EXECUTED[name](there)
    assert rows(there.api_home) == before


# -- any order of anything ---------------------------------------------------------------------

NAMES = st.integers(0, 3)
WHY = st.sampled_from(["", "wrong branch", "two\nlines", "“ü”"])
VERBS = st.sampled_from(["stop", "cancel", "resume", "retry"])
STATES = st.sampled_from(
    [TaskState.DONE, TaskState.NEEDS_INPUT, TaskState.FAILED, TaskState.BLOCKED]
)
SCOPES_HELD = st.sampled_from([ALL, project_scope("barn"), project_scope("field")])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("several"), VERBS, st.lists(NAMES, min_size=1, max_size=3), WHY),
        st.tuples(st.just("answer"), NAMES, WHY),
        st.tuples(st.just("submit"), st.sampled_from(["barn", "", "nobody"]), st.lists(NAMES)),
        st.tuples(st.just("pause"), SCOPES_HELD, WHY),
        st.tuples(st.just("unpause"), SCOPES_HELD),
        st.tuples(st.just("becomes"), NAMES, STATES),
    ),
    min_size=1,
    max_size=12,
)


def run_step(backend, made, step):
    """Run a step and return its result."""
    kind, *given = step

    def name(number):
        return made[number] if number < len(made) else f"nobody-{number}"

    if kind == "several":
        verb, numbers, why = given
        changed = getattr(backend.tasks, verb)([name(one) for one in numbers], why)
        return [(one.id, one.project, one.state, one.reason) for one in changed]
    if kind == "answer":
        one = backend.tasks.answer(name(given[0]), given[1])
        return one.id, one.state, one.reason
    if kind == "submit":
        received = backend.queue.submit(
            task_request(repo=given[0]), [name(one) for one in given[1]]
        )
        made.append(received.id)
        return asdict(received)
    if kind == "pause":
        return asdict(backend.pauses.pause(*given))
    return (
        backend.pauses.unpause(*given)
        if kind == "unpause"
        else set_state(backend, name(given[0]), given[1])
    )


def set_state(backend, name, state):
    """Change a task's state outside the backend."""
    with backend.api_home.store.write(*ADMISSION_SCOPES) as tx:
        found = require_task(tx, name) if not name.startswith("nobody") else None
        if found is not None:
            change_task(tx, found, replace(found, state=state))


@settings(max_examples=12)
@given(STEPS)
def test_both_backends_return_and_store_the_same_in_any_order(steps):
    told, left = [], []
    for kind in ("store", "service"):
        with open_backend(kind) as backend:
            made: list[str] = []
            acts = [partial(run_step, made=made, step=step) for step in steps]
            told.append([call_like_a_command(act, backend) for act in acts])
            left.append(rows(backend.api_home))
    assert told[0] == told[1]
    assert left[0] == left[1]

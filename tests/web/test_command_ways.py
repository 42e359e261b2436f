"""Both ways of a command: the same rows, facts, errors and exit codes."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import timedelta
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from two_ways import BOB, on_the_store, way_to

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
def way(request):
    with way_to(request.param) as found:
        yield found


def row(way, name):
    with way.house.store.read() as tx:
        return require_task(tx, name)


def wish(**more):
    return TaskRequest(**{"prompt": "Tidy up", "author": BOB, "here": "/tmp", **more})


def test_tasks_are_stopped_resumed_cancelled_and_begun_anew(way):
    parent = way.house.put("barn")
    child = way.house.put("barn", order={"parent_task": parent.id})
    for verb, state in (("stop", "stopped"), ("resume", "queued"), ("cancel", "stopped")):
        changed = getattr(way.tasks, verb)([parent.id], " wrong \n branch ")
        assert changed[0].id == parent.id and changed[0].state == state
        told = row(way, parent.id)
        assert changed[0].reason == told.reason and told.reason.endswith("by bob: wrong branch")
        assert told.state == state
    assert row(way, child.id).state is TaskState.STOPPED
    both = way.tasks.retry([parent.id, child.id])
    assert [(one.id, one.project, one.state) for one in both] == [
        (parent.id, "barn", TaskState.QUEUED),
        (child.id, "barn", TaskState.QUEUED),
    ]


def test_several_are_changed_together_or_not_at_all(way):
    moving, over = way.house.put(), way.house.put(state=TaskState.DONE)
    with pytest.raises(HostlerError, match="cannot be stopped") as refused:
        way.tasks.stop([moving.id, over.id])
    assert refused.value.exit_code == 1 and row(way, moving.id).state is TaskState.QUEUED


def test_a_question_is_answered(way):
    asks = way.house.put(state=TaskState.NEEDS_INPUT, question="Which?")
    queued = way.tasks.answer(asks.id, "Red\nor “blue”")
    assert (queued.id, queued.state) == (asks.id, TaskState.QUEUED)
    told = row(way, asks.id)
    assert told.note == "bob answers: Red\nor “blue”" and told.reason == "Answered by bob."


@pytest.mark.parametrize("scope", [ALL, project_scope("barn")])
def test_a_scope_is_held_back_and_let_go(way, scope):
    first, again = way.holds.pause(scope, "release  week"), way.holds.pause(scope, "other")
    assert (first.changed, again.changed, again.held) == (True, False, first.held)
    with way.house.store.read() as tx:
        assert all_pauses(tx) == {scope: first.held}
    assert (first.held.by, first.held.why) == (BOB, "release week")
    other = project_scope("field")
    way.holds.pause(other)
    assert way.holds.unpause(scope) == (True, [other])
    assert way.holds.unpause(scope) == (False, [other])


def test_a_task_is_submitted(way, tmp_path):
    first = way.queue.submit(wish(cwd=str(tmp_path), title="One"), [])
    more = {"repo": "octo/stable", "env": ("A",), "wall_limit_minutes": 7, "max_restarts": 2}
    second = way.queue.submit(wish(**more), [first.id])
    told = row(way, second.id)
    assert (told.author, told.approved_by, told.env) == (BOB, BOB, ("A",))
    assert (told.wall_limit_minutes, told.max_restarts) == (7, 2)
    assert (second.project, second.gate, second.depends_on) == (
        "stable",
        "dependencies",
        (first.id,),
    )
    assert second.blockers[0]["name"] == first.id
    folder = way.house.home / "projects" / first.project / "tasks" / first.id
    assert (folder / "TASK.md").read_text() == "Tidy up\n"
    # Where nothing is named, in the folder of whoever asks.
    assert row(way, way.queue.submit(wish(here=str(tmp_path)), []).id).cwd == str(tmp_path)


def test_something_is_said_on_a_bus(way):
    begun = BusMessageDraft("barn", "", MessageType.USER, "Hello", create=True)
    first = way.buses.post(begun)
    second = way.buses.post(replace(begun, text="And “more”", thread=first["id"], create=False))
    kept = Bus(BusLocation(way.house.home, "barn").path).tail(9).messages
    assert [dict(one.stored()) for one in kept] == [dict(first), dict(second)]
    assert kept[1].thread == first["id"] and kept[1].sender.name == BOB


def test_a_pool_is_set_closed_opened_and_reset(way):
    way.pools.set("openai:work", {"max_global_agents": 3, "adaptive": True})
    caps = load_pools(way.house.home / POOLS_FILE_NAME)["openai:work"]
    assert (caps.max_global_agents, caps.adaptive) == (3, True)
    now = way.house.clock.now()
    for_an_hour = way.pools.park("openai:work", timedelta(hours=1), "keys")
    assert (for_an_hour.until, for_an_hour.why) == (now + timedelta(hours=1), "keys")
    longer = way.pools.park("openai:work", now + timedelta(days=2), "keys")
    assert longer.until == now + timedelta(days=2)
    assert way.pools.park("openai:work", None, "keys").ends_at is None
    assert [way.pools.resume("openai:work") for _ in range(2)] == [True, False]
    assert [way.pools.reset("openai:work") for _ in range(2)] == [True, False]


# -- errors ------------------------------------------------------------------------------------

BLANK = BusMessageDraft("barn", "", MessageType.FACT, "x")
# What the rooms refuse.
REFUSED = {
    "no such task": lambda way: way.tasks.stop(["nobody"]),
    "no such issue": lambda way: way.tasks.retry(["octo/barn#7"]),
    "no issue": lambda way: way.tasks.cancel(["octo#x"]),
    "not in this state": lambda way: way.tasks.resume(["20241004"]),
    "no question": lambda way: way.tasks.answer("20241004", "Red"),
    "blank answer": lambda way: way.tasks.answer("20241004", " "),
    "two places": lambda way: way.queue.submit(wish(cwd="/tmp", repo="barn"), []),
    "unknown repository": lambda way: way.queue.submit(wish(repo="no/where"), []),
    "unknown agent": lambda way: way.queue.submit(wish(agent="nobody"), []),
    "bad variable": lambda way: way.queue.submit(wish(env=("A=b",)), []),
    "bad project": lambda way: way.queue.submit(wish(project="../x"), []),
    "blank prompt": lambda way: way.queue.submit(wish(prompt=" \n"), []),
    "unknown dependency": lambda way: way.queue.submit(wish(), ["nobody"]),
    "no bus": lambda way: way.buses.post(BLANK),
    "no thread": lambda way: way.buses.post(replace(BLANK, create=True, thread="x")),
    "no name": lambda way: way.buses.post(replace(BLANK, project="x.lock")),
}
# What the API itself refuses: whoever asks goes to the database, and hears its words.
NOT_TAKEN = {
    "long title": lambda way: way.queue.submit(wish(title="x" * 121), []),
    "large prompt": lambda way: way.queue.submit(wish(prompt="ü" * MAX_PROMPT_LENGTH), []),
    "no folder": lambda way: way.queue.submit(wish(here=""), []),
    "long reason": lambda way: way.holds.pause(ALL, "x" * 1001),
    "unknown project": lambda way: way.holds.pause(project_scope("elsewhere")),
    "no text": lambda way: way.tasks.stop(["a\udcff"]),
    "a word of the service": lambda way: way.buses.post(replace(BLANK, type=MessageType.RUN_STOP)),
    "a cap that is none": lambda way: way.pools.set("p", {"max_global_agents": -1}),
    "a pool that cannot be": lambda way: way.pools.reset("a/b"),
    "a damaged file": lambda way: damaged(way),
}


def damaged(way):
    (way.house.home / POOLS_FILE_NAME).write_text("{")
    way.pools.set("p", {"max_global_agents": 1})


def error_of(act, way):
    try:
        return act(way)
    except HostlerError as error:
        return error.lines(), error.exit_code


def as_a_command(act, way):
    """As a command does it: what is not taken there is done here."""
    try:
        return error_of(act, way)
    except NotExecuted:
        return error_of(act, on_the_store(way.house))


def rows(house):
    with house.store.read() as tx:
        return [asdict(task) for task in tasks_in(tx, tuple(TaskState))], all_pauses(tx)


@pytest.fixture(scope="module")
def served():
    """A home and both ways to it: for what changes nothing."""
    with way_to("service") as found:
        found.house.put()
        yield found, on_the_store(found.house)


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_rooms_refuse_is_one_error_on_both_ways(served, name):
    there, here = served
    before = rows(there.house)
    told = error_of(REFUSED[name], there)
    assert told == error_of(REFUSED[name], here)
    assert isinstance(told, tuple) and told[0] and told[1] in (1, 2)
    assert rows(there.house) == before


@pytest.mark.parametrize("name", NOT_TAKEN)
def test_what_the_api_itself_refuses_was_not_done(served, name):
    there, _ = served
    before = rows(there.house)
    with pytest.raises(NotExecuted):
        NOT_TAKEN[name](there)
    assert rows(there.house) == before


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


def take_step(way, made, step):
    """Do one thing; what is told of it."""
    kind, *given = step

    def name(number):
        return made[number] if number < len(made) else f"nobody-{number}"

    if kind == "several":
        verb, numbers, why = given
        changed = getattr(way.tasks, verb)([name(one) for one in numbers], why)
        return [(one.id, one.project, one.state, one.reason) for one in changed]
    if kind == "answer":
        one = way.tasks.answer(name(given[0]), given[1])
        return one.id, one.state, one.reason
    if kind == "submit":
        received = way.queue.submit(wish(repo=given[0]), [name(one) for one in given[1]])
        made.append(received.id)
        return asdict(received)
    if kind == "pause":
        return asdict(way.holds.pause(*given))
    return way.holds.unpause(*given) if kind == "unpause" else become(way, name(given[0]), given[1])


def become(way, name, state):
    """What happens to a task meanwhile."""
    with way.house.store.write(*ADMISSION_SCOPES) as tx:
        found = require_task(tx, name) if not name.startswith("nobody") else None
        if found is not None:
            change_task(tx, found, replace(found, state=state))


@settings(max_examples=12)
@given(STEPS)
def test_in_any_order_both_ways_tell_and_leave_the_same(steps):
    told, left = [], []
    for kind in ("store", "service"):
        with way_to(kind) as way:
            made: list[str] = []
            acts = [partial(take_step, made=made, step=step) for step in steps]
            told.append([as_a_command(act, way) for act in acts])
            left.append(rows(way.house))
    assert told[0] == told[1]
    assert left[0] == left[1]

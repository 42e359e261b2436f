"""Rules: who waits in vain for what is not its own, and when nothing moves any more."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from hostler.model import EPOCH, format_timestamp
from hostler.planner.dependencies import Blocker, DependencyState
from hostler.service.tasks.foreground import (
    TaskFamily,
    UnservedWaitMonitor,
    find_unserved_waits,
    is_deadlocked,
)
from hostler.store.tasks import OVER, WAITING, Flow, Task, TaskState

NAMES = ("root", "child", "other", "far")
MINE = ("root", "child")


def task(name: str, state: TaskState) -> Task:
    return Task(name, "yard", None, None, Flow.TASK, name, "ann", state, format_timestamp(EPOCH), 1)


@st.composite
def families(draw) -> TaskFamily:
    states = st.sampled_from([state for state in TaskState if state not in OVER])
    mine = draw(st.lists(st.sampled_from(MINE), unique=True, min_size=1))
    tasks = tuple(task(name, draw(states)) for name in mine)
    blockers = st.builds(
        Blocker, st.sampled_from(NAMES), st.sampled_from(DependencyState), st.just("It is so.")
    )
    holds = st.lists(blockers, min_size=1, max_size=2).map(tuple)
    held = {one.id: draw(holds) for one in tasks if one.state in WAITING and draw(st.booleans())}
    for_whom = st.lists(st.sampled_from(NAMES), min_size=1, unique=True)
    waits = {
        one.id: tuple(task(name, TaskState.QUEUED) for name in draw(for_whom))
        for one in tasks
        if one.state is TaskState.RUNNING and draw(st.booleans())
    }
    working = draw(st.frozensets(st.sampled_from(NAMES), max_size=1)) - set(waits)
    return TaskFamily(tasks, held, waits, working)


@given(families())
def test_only_what_is_outside_and_rests_is_waited_for_in_vain(family):
    for one in find_unserved_waits(family):
        assert one.task in family.names and one.name not in family.names
        standings = [b.state for b in family.held.get(one.task, ()) if b.name == one.name]
        in_vain = any(standing is not DependencyState.RUNNING for standing in standings)
        assert in_vain or (one.task in family.waits and one.name not in family.working)
        assert f"{one.task} waits for {one.name}, and nobody works on that" in str(one)


@given(families())
def test_nothing_is_given_up_while_anything_can_move(family):
    if is_deadlocked(family):
        assert find_unserved_waits(family) and not family.working
        assert all(one.id in family.held for one in family.tasks if one.state in WAITING)
    assert not is_deadlocked(replace(family, working=frozenset({"somebody"})))
    free = task("free", TaskState.QUEUED)
    assert not is_deadlocked(replace(family, tasks=(*family.tasks, free)))


@given(families())
def test_who_waits_for_its_own_alone_waits_on(family):
    own = replace(family, tasks=tuple(task(name, TaskState.NEEDS_INPUT) for name in NAMES))
    assert find_unserved_waits(own) == [] and not is_deadlocked(own)


@given(st.lists(families(), max_size=4))
def test_each_vain_wait_is_told_once(seen):
    told: list[str] = []
    coming = iter([family for family in seen for _ in range(2)])
    wait_monitor = UnservedWaitMonitor(lambda: next(coming), told.append)
    for family in seen:
        assert wait_monitor.check() is is_deadlocked(family)
        before = len(told)
        wait_monitor.check()
        assert len(told) == before

"""Who is next, and which gate holds the others: for any set of tasks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.model import format_timestamp
from hostler.planner.queue import is_root
from hostler.service.scheduling.gates import (
    WAITING_STATES,
    AdmissionSnapshot,
    GateDenial,
    HomeGate,
    Placement,
    PriorityClass,
    choose_next,
    find_denial,
    priority_class,
)
from hostler.store.tasks import Flow, Task, TaskState
from hostler.workflows.manual_tasks import CHILDREN_BLOCKER

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PROJECTS = ("barn", "stable", "field")
EMPTY = GateDenial(HomeGate.BUDGET, "It is used up.", "Raise it.")
NEEDS = GateDenial(HomeGate.DEPENDENCIES, "It waits for t9.", "Wait.")


def at(seconds: float) -> str:
    return format_timestamp(NOW + timedelta(seconds=seconds))


def task(number: int = 1, **values: object) -> Task:
    first = Task(
        id=f"t{number}",
        project="stable",
        repo_full_name="octo/stable",
        issue_number=number,
        flow=Flow.BUGFIX,
        title="Crash",
        author="ann",
        state=TaskState.QUEUED,
        state_since=at(-10),
        order=number,
    )
    return replace(first, **values)


def place(project: str = "stable", **values: object) -> Placement:
    return replace(Placement(project, "helper", "command", f"pool-{project}", width=3), **values)


def yard(**values: object) -> AdmissionSnapshot:
    places = {f"t{number}": place() for number in range(1, 50)}
    return replace(AdmissionSnapshot(NOW, places), **values)


def tasks() -> st.SearchStrategy[list[Task]]:
    one = st.builds(
        lambda number, project, state, wake, since, pull, finishing, parent: task(
            number,
            project=project,
            state=state,
            wake_at=None if wake is None else at(wake),
            state_since=at(since),
            pr_number=pull,
            finishing=finishing,
            blockers=CHILDREN_BLOCKER if finishing and number % 2 else "",
            parent_task=parent,
        ),
        st.integers(1, 40),
        st.sampled_from((*PROJECTS, "gone")),
        st.sampled_from(WAITING_STATES),
        st.none() | st.integers(-100, 100),
        st.integers(-2000, 100),
        st.none() | st.integers(1, 9),
        st.booleans(),
        st.sampled_from([None, None, "t1"]),
    )
    return st.lists(one, max_size=8, unique_by=lambda each: each.id)


def yards() -> st.SearchStrategy[AdmissionSnapshot]:
    names = st.sampled_from([f"t{number}" for number in range(1, 41)])
    counts = st.dictionaries(st.sampled_from(PROJECTS), st.integers(0, 4))
    places = st.dictionaries(
        names,
        st.builds(
            lambda paused, ready: place(paused=paused, ready=ready),
            st.sampled_from(["", "It is paused."]),
            st.booleans(),
        ),
        min_size=10,
    )
    return st.builds(
        lambda found, needs, served, runs, running, max_runs, max_root, busy, parents: yard(
            placements=found,
            dependency_denials=needs,
            last_turns=served,
            active_runs=runs,
            running_roots=running,
            max_runs=max_runs,
            max_root_tasks=max_root,
            busy_tasks=busy,
            busy_parents=parents,
        ),
        places,
        st.dictionaries(names, st.just(NEEDS), max_size=5),
        counts,
        st.integers(0, 4),
        st.integers(0, 4),
        st.integers(-1, 4),
        st.integers(-1, 4),
        st.frozensets(names, max_size=5),
        st.frozensets(names, max_size=5),
    )


def no_room(task: Task) -> GateDenial | None:
    """A governor that has room for every third task."""
    return None if task.order % 3 == 0 else GateDenial("cap", "The pool is full.")


@given(tasks(), yards())
def test_whoever_starts_passes_every_gate_and_all_others_have_a_reason(found, around):
    choice = choose_next(found, around, no_room)
    if choice.task is not None:
        chosen = choice.task
        assert find_denial(chosen, around) is None
        assert chosen.finishing or no_room(chosen) is None
        where = around.placements[chosen.id]
        assert where.ready and not where.paused and chosen.id not in around.busy_tasks
        assert chosen.attempt or chosen.finishing or chosen.id not in around.dependency_denials
        if not chosen.finishing:
            assert around.max_runs <= 0 or around.active_runs < around.max_runs
        if is_root(chosen):
            assert around.max_root_tasks <= 0 or around.running_roots < around.max_root_tasks
    else:
        assert set(choice.denials) == {each.id for each in found}
    for held in choice.denials.values():
        assert held.why or held.gate in (HomeGate.TIME, HomeGate.CHILDREN)


@given(tasks(), yards())
def test_nobody_of_a_later_class_goes_before_one_who_could_start(found, around):
    chosen = choose_next(found, around, no_room).task
    could = [
        each
        for each in found
        if find_denial(each, around) is None and (each.finishing or no_room(each) is None)
    ]
    assert (chosen is None) == (not could)
    if chosen is not None:
        first = min(priority_class(each, around) for each in could)
        assert priority_class(chosen, around) == first
        rivals = [each for each in could if priority_class(each, around) == first]
        if first is PriorityClass.NEW and around.max_root_tasks > 0:
            assert chosen.order == min(each.order for each in rivals)
        else:
            least = min(around.last_turns.get(each.project, 0) for each in rivals)
            assert around.last_turns.get(chosen.project, 0) == least
            same = [each for each in rivals if each.project == chosen.project]
            assert chosen.order == min(each.order for each in same)


@given(st.lists(st.sampled_from(PROJECTS), min_size=1, max_size=30))
def test_projects_take_turns(projects):
    waiting = [task(n, project=name) for n, name in enumerate(projects, 1)]
    served: dict[str, int] = {}
    order = []
    for turn in range(1, len(projects) + 1):
        chosen = choose_next(waiting, yard(last_turns=served)).task
        waiting = [each for each in waiting if each is not chosen]
        served[chosen.project] = turn
        order.append(chosen.project)
    left = Counter(projects)
    for before, after in pairwise(order):
        left[before] -= 1
        # The same project again only if nobody else is waiting.
        others = [name for name, count in left.items() if count and name != before]
        assert before != after or not others


def test_long_waiting_brings_everybody_into_the_first_class():
    young, old = task(1, pr_number=4), task(2, state_since=at(-900))
    around = yard()
    assert priority_class(young, around) is PriorityClass.FEEDBACK
    assert priority_class(old, around) is PriorityClass.CONTINUATION
    assert choose_next([young, old], around).task is old


def test_a_stamp_from_the_future_is_no_long_wait():
    assert priority_class(task(state_since=at(10**8)), yard()) is PriorityClass.NEW


def test_an_answer_goes_before_new_work():
    new, answered = task(1), task(2, question="Which?")
    assert choose_next([new, answered], yard()).task is answered


@pytest.mark.parametrize("state", [TaskState.RETRYING, TaskState.PARKED])
def test_a_time_is_waited_for(state):
    later = task(state=state, wake_at=at(30), reason="The provider is busy.")
    held = find_denial(later, yard())
    assert (held.gate, held.why) == (HomeGate.TIME, "The provider is busy.")
    assert held.until == NOW + timedelta(seconds=30)
    assert find_denial(later, yard(now=held.until)) is None


@given(st.integers(61, 10**7), st.integers(0, 10**6))
def test_a_wait_that_began_in_the_future_is_over(ahead, wait):
    parked = task(state=TaskState.PARKED, state_since=at(ahead), wake_at=at(ahead + wait))
    assert find_denial(parked, yard()) is None


@pytest.mark.parametrize(
    ("around", "gate"),
    [
        ({"busy_tasks": frozenset({"t1"})}, HomeGate.OPEN_RUN),
        ({"placements": {}}, HomeGate.WATCHED),
        ({"placements": {"t1": place(ready=False)}}, HomeGate.READY),
        ({"placements": {"t1": place(paused="By ann.")}}, HomeGate.PAUSED),
        ({"disk_denial": GateDenial(HomeGate.DISK, "It is full.", "Free some.")}, HomeGate.DISK),
        ({"budget_denials": {"t1": EMPTY}}, HomeGate.BUDGET),
        ({"dependency_denials": {"t1": NEEDS}}, HomeGate.DEPENDENCIES),
        ({"running_roots": 2, "max_root_tasks": 2}, HomeGate.ROOT_TASKS),
        ({"active_runs": 2, "max_runs": 2}, HomeGate.RUNS),
    ],
)
def test_each_gate_holds_and_says_why(around, gate):
    held = find_denial(task(), yard(**around))
    assert held.gate is gate
    assert held.why.endswith(".")
    assert held.remedy


def test_our_own_part_needs_no_agent_and_no_place_for_one():
    done = task(state=TaskState.PARKED, finishing=True)
    assert find_denial(done, yard(active_runs=9, max_runs=9)) is None
    assert choose_next([done], yard(), no_room).task is done


def test_children_of_a_task_take_no_root_place_and_go_before_new_ones():
    new, child = task(1), task(2, parent_task="t9", issue_number=None)
    full = yard(running_roots=1, max_root_tasks=1)
    assert find_denial(new, full).gate is HomeGate.ROOT_TASKS
    assert find_denial(child, full) is None
    assert choose_next([new, child], yard()).task is child


def test_a_task_that_is_done_waits_for_its_children_as_long_as_they_work_or_for_its_time():
    waiting = task(
        state=TaskState.PARKED,
        finishing=True,
        blockers=CHILDREN_BLOCKER,
        wake_at=at(300),
        reason="So.",
    )
    held = find_denial(waiting, yard(busy_parents=frozenset({"t1"})))
    assert (held.gate, held.why) == (HomeGate.CHILDREN, "So.")
    assert find_denial(waiting, yard()) is None
    assert find_denial(waiting, yard(busy_parents=frozenset({"t1"}), now=held.until)) is None


def test_work_that_has_begun_is_not_held_by_a_later_dependency():
    begun = task(state=TaskState.RETRYING, attempt=1)
    assert find_denial(begun, yard(dependency_denials={"t1": NEEDS})) is None


def test_where_root_tasks_are_counted_they_start_as_they_came():
    first, second = task(1, project="barn"), task(2, project="field")
    served = {"barn": 9, "field": 1}
    assert choose_next([second, first], yard(last_turns=served)).task is second
    assert choose_next([second, first], yard(last_turns=served, max_root_tasks=5)).task is first

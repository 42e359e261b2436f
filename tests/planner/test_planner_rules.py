"""The pure rules: names, circles, readiness, chains, the queue."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from planner_yard import starting

from hostler.errors import HostlerError
from hostler.model import RepoName, format_timestamp
from hostler.planner.dependencies import (
    BadDependency,
    DependencyCycle,
    DependencySnapshot,
    DependencyState,
    build_graph,
    describe_blockers,
    find_blockers,
    find_hopeless,
    has_usable_work,
    is_waiting,
    parse_dependencies,
    require_no_cycle,
    select_blockers,
    split_cycles,
)
from hostler.planner.queue import (
    SubmissionResult,
    SubmissionStatus,
    TaskQueue,
    find_occupants,
    find_stale,
    has_free_slot,
    is_root,
    queue_order,
    queue_positions,
    submission_result,
)
from hostler.store.dependencies import CLOSED, MISSING, OPEN, LastRun, TaskFacts
from hostler.store.runs import RunState
from hostler.store.tasks import Flow, IssueRef, Task, TaskState

REPO = RepoName("Octo", "Stable")
NOW = datetime(2026, 3, 1, tzinfo=UTC)
ENDED_WELL = LastRun(RunState.ENDED, "success")

# -- names ------------------------------------------------------------------------------------

ids = st.from_regex(r"[a-z0-9][a-z0-9-]{0,8}", fullmatch=True)
issues = st.builds(
    "{}/{}#{}".format, st.sampled_from("oO"), st.sampled_from("rR"), st.integers(1, 9)
)
written = st.one_of(ids, issues, st.builds("#{}".format, st.integers(1, 9)))
lists = st.lists(st.lists(written, min_size=1, max_size=4).map(" , ".join), max_size=6)


@given(lists)
def test_normal_names_are_normal(values: list[str]):
    names = parse_dependencies(values, repo=REPO)
    assert parse_dependencies(names) == names
    assert parse_dependencies([",".join(names)]) == names
    assert len(set(names)) == len(names)


@given(lists)
def test_every_name_is_kept_once_in_the_order_given(values: list[str]):
    parts = [part.strip() for value in values for part in value.split(",")]
    wanted = [f"octo/stable{part}" if part[0] == "#" else part.lower() for part in parts]
    assert parse_dependencies(values, repo=REPO) == tuple(dict.fromkeys(wanted))


@given(st.lists(st.text(max_size=20), max_size=5))
def test_any_text_is_a_name_or_an_error_that_says_so(values: list[str]):
    try:
        names = parse_dependencies(values)
    except BadDependency as error:
        assert repr(error.name) in error.what and error.remedy
    else:
        assert all(name == name.strip() and "," not in name for name in names)


@pytest.mark.parametrize(
    "value",
    ["#12", "o/r#0", "o/r#012", "o/r#", "o/r", "-x", "o#1", "a b", "../x", "o/r/s#1", "-o/r#1"],
)
def test_what_names_nothing_is_refused(value: str):
    with pytest.raises(BadDependency):
        parse_dependencies([value])


@given(lists, st.data())
def test_nobody_depends_on_itself(values: list[str], data: st.DataObject):
    names = parse_dependencies(values, repo=REPO)
    assume(names)
    own = data.draw(st.sampled_from(names))
    for ours in (own, {own, "another"}):
        with pytest.raises(BadDependency, match="the task itself"):
            parse_dependencies(values, own=ours, repo=REPO)


def test_a_task_has_no_more_dependencies_than_anybody_can_read():
    assert len(parse_dependencies([f"t{n}" for n in range(100)])) == 100
    with pytest.raises(BadDependency, match="at most 100"):
        parse_dependencies([f"t{n}" for n in range(101)])


@given(st.text(max_size=30))
def test_an_issues_name_is_read_back_as_it_is_written(text: str):
    ref = IssueRef.parse(text)
    assert ref is None or IssueRef.parse(str(ref)) == ref
    assert IssueRef.parse(str(IssueRef.of(REPO, 12))) == IssueRef.of(RepoName("octo", "stable"), 12)


# -- circles ----------------------------------------------------------------------------------

TASKS = [f"t{n}" for n in range(6)]
ISSUES = [f"o/r#{n}" for n in range(1, 4)]
graphs = st.fixed_dictionaries(
    {name: st.lists(st.sampled_from([*TASKS, *ISSUES]), max_size=3).map(tuple) for name in TASKS}
    | {
        name: st.lists(st.sampled_from(TASKS), max_size=2, unique=True).map(tuple)
        for name in ISSUES
    }
)


def reaches(ways: dict, start: str, goal: str, seen: frozenset[str] = frozenset()) -> bool:
    """By hand: is there any way, trying all."""
    if start == goal:
        return True
    after = (name for name in ways.get(start, ()) if name not in seen)
    return any(reaches(ways, name, goal, seen | {start}) for name in after)


@given(graphs, st.lists(st.sampled_from([*TASKS, *ISSUES]), max_size=3))
def test_a_circle_is_found_exactly_where_there_is_one(ways: dict, names: list[str]):
    task = "t0"
    closing = [name for name in names if reaches({**ways, task: ()}, name, task)]
    if not closing:
        require_no_cycle(ways, task, names)
    else:
        with pytest.raises(DependencyCycle) as caught:
            require_no_cycle(ways, task, names)
        told = f"dependency cycle detected: {' -> '.join(caught.value.path)}"
        assert told in caught.value.what and isinstance(caught.value, HostlerError)
    kept, left_out = split_cycles(ways, task, dict.fromkeys(names))
    assert set(kept) == set(names) - set(closing) and len(left_out) == len(set(closing))
    require_no_cycle(ways, task, kept)


@given(graphs, st.lists(st.sampled_from([*TASKS, *ISSUES]), min_size=1, max_size=3))
def test_the_circle_that_is_told_is_one(ways: dict, names: list[str]):
    ways = {**ways, "t0": tuple(names)}
    with pytest.raises(DependencyCycle) as caught:
        require_no_cycle(ways, "t0", names)
        assume(False)
    path = caught.value.path
    assert path[0] == path[-1] and len(set(path)) == len(path) - 1
    for one, two in pairwise(path):
        # An issue stands for one of its tasks.
        waiting = ways[one] if one in ISSUES else (one,)
        assert any(two in ways[task] for task in waiting if task in TASKS)
    # Whoever is asked stands at the beginning, by name or by issue.
    assert path[0] == "t0" or "t0" in ways[path[0]]


@pytest.mark.parametrize(
    ("ways", "names", "told"),
    [
        ({}, ["a"], "a -> a"),
        ({"b": ("a",)}, ["b"], "a -> b -> a"),
        ({"b": ("c",), "c": ("a",), "d": ("a",)}, ["b", "d"], "a -> d -> a"),
        ({"o/r#2": ("x",), "x": ("o/r#1",), "o/r#1": ("a",)}, ["o/r#2"], "o/r#1 -> o/r#2 -> o/r#1"),
        ({"b": ("o/r#1",), "o/r#1": ("a",)}, ["b"], "o/r#1 -> b -> o/r#1"),
        ({"o/r#2": ("x",), "x": ("a",)}, ["o/r#2"], "a -> o/r#2 -> a"),
    ],
)
def test_circles_in_words(ways: dict, names: list[str], told: str):
    with pytest.raises(DependencyCycle, match=f"^dependency cycle detected: {told}$"):
        require_no_cycle(ways, "a", names)


def test_a_long_chain_is_no_trouble():
    ways = {f"t{n}": (f"t{n + 1}",) for n in range(5000)}
    with pytest.raises(DependencyCycle) as caught:
        require_no_cycle(ways, "t5000", ["t0"])
    assert len(caught.value.path) == 5002
    tasks = {name: TaskFacts(name, TaskState.QUEUED, depends_on=ways[name]) for name in ways}
    tasks["t5000"] = TaskFacts("t5000", TaskState.FAILED, "no")
    assert len(find_hopeless(tasks.values(), find_blockers(DependencySnapshot(tasks)))) == 5000


# -- readiness --------------------------------------------------------------------------------

states = st.sampled_from(TaskState)
last_runs = st.none() | st.builds(
    LastRun, st.sampled_from(RunState), st.sampled_from([None, "success", "crash"])
)


@st.composite
def scenes(draw: st.DrawFn) -> DependencySnapshot:
    names = [*TASKS[:4], *ISSUES, "nobody"]
    tasks = {
        name: TaskFacts(
            name,
            draw(states),
            "because",
            draw(st.integers(0, 1)),
            tuple(draw(st.lists(st.sampled_from(names), max_size=3, unique=True))),
            draw(st.sampled_from([None, "o/r"])),
            pr_number=draw(st.none() | st.just(7)),
            finishing=draw(st.booleans()),
        )
        for name in TASKS[:4]
    }
    owners = {
        name: tuple(draw(st.lists(st.sampled_from(TASKS[:4]), max_size=2, unique=True)))
        for name in ISSUES
    }
    seen = st.sampled_from([OPEN, CLOSED, MISSING])
    known = {name: draw(seen) for name in ISSUES if draw(st.booleans())}
    runs = {name: run for name in tasks if (run := draw(last_runs)) is not None}
    return DependencySnapshot(tasks, owners, known, runs)


def is_ready(name: str, scene: DependencySnapshot) -> bool:
    """The rule as it is documented."""
    if name in scene.tasks:
        task = scene.tasks[name]
        return task.state is TaskState.DONE or has_usable_work(task, scene.last_runs.get(name))
    owners = scene.issues.get(name, ())
    if owners:
        return all(scene.tasks[task].state is TaskState.DONE for task in owners)
    return scene.states.get(name) == CLOSED


@given(scenes())
def test_exactly_what_is_not_ready_holds_a_task(scene: DependencySnapshot):
    judged = find_blockers(scene)
    for task in scene.tasks.values():
        held = [one.name for one in select_blockers(task, judged)]
        wanted = [name for name in task.depends_on if not is_ready(name, scene)]
        assert held == (wanted if is_waiting(task) else [])


@given(scenes())
def test_every_blocker_says_what_it_is_and_hopeless_ones_what_to_do(scene: DependencySnapshot):
    for name, one in find_blockers(scene).items():
        assert one.name == name and one.sentence.endswith(".")
        # In a circle, an issue stands for its task.
        assert name in one.sentence or one.state is DependencyState.CYCLE
        assert one.remedy or one.avoidable or not one.hopeless
    for task in scene.tasks.values():
        for one in select_blockers(task, find_blockers(scene)):
            assert not one.avoidable
            assert one.remedy or not one.hopeless


def can_proceed(scene: DependencySnapshot) -> set[str]:
    """By trying: whoever can be done once all that it waits for can be."""
    dead = (TaskState.STOPPED, TaskState.FAILED)
    names = [*scene.tasks, *scene.issues]
    able: set[str] = set()
    for _ in names:
        for name in names:
            if is_ready(name, scene):
                able.add(name)
            elif name in scene.tasks:
                task = scene.tasks[name]
                waits = task.depends_on if is_waiting(task) else ()
                if task.state not in dead and all(one in able for one in waits):
                    able.add(name)
            elif owners := scene.issues[name]:
                if all(one in able or scene.tasks[one].state is TaskState.DONE for one in owners):
                    able.add(name)
            elif scene.states.get(name) != MISSING:
                able.add(name)
    return able


@given(scenes())
def test_hopeless_is_exactly_what_can_never_proceed(scene: DependencySnapshot):
    able = can_proceed(scene)
    judged = find_blockers(scene)
    known = {name: one for name, one in judged.items() if name != "nobody"}
    assert {name for name, one in known.items() if one.hopeless} == set(known) - able
    over = (TaskState.STOPPED, TaskState.FAILED, TaskState.DONE)
    stuck = {
        task.id
        for task in scene.tasks.values()
        if task.state not in over
        and is_waiting(task)
        and any(name not in able for name in task.depends_on)
    }
    assert set(find_hopeless(scene.tasks.values(), judged)) == stuck


def facts(name: str, state: TaskState = TaskState.QUEUED, *waits: str, **more) -> TaskFacts:
    return TaskFacts(name, state, depends_on=waits, **more)


def scene_of(*tasks: TaskFacts, **more) -> DependencySnapshot:
    return DependencySnapshot({task.id: task for task in tasks}, **more)


def only(scene: DependencySnapshot, task: str = "a"):
    (found,) = select_blockers(scene.tasks[task], find_blockers(scene))
    return found


@pytest.mark.parametrize(
    ("state", "hope", "sentence", "remedy"),
    [
        (TaskState.QUEUED, True, "b is queued.", ""),
        (TaskState.RUNNING, True, "b is running.", ""),
        (TaskState.RETRYING, True, "b will be retried: It fell.", ""),
        (TaskState.PARKED, True, "b is parked: It fell.", ""),
        (TaskState.AWAITING_FEEDBACK, True, "b is waiting for review.", "merge pull request #7"),
        (TaskState.NEEDS_INPUT, True, "b has a question.", "hostler task show b"),
        (TaskState.BLOCKED, True, "b is blocked: It fell.", "hostler task resume b"),
        (TaskState.STOPPED, False, "b was stopped: It fell.", "hostler task retry b"),
        (TaskState.FAILED, False, "b has failed: It fell.", "hostler task retry b"),
    ],
)
def test_each_state_of_a_dependency_in_words(state, hope, sentence, remedy):
    other = facts("b", state, reason="It\n fell.", attempt=1, pr_number=7)
    found = only(scene_of(facts("a", TaskState.QUEUED, "b"), other))
    assert (found.state, found.hopeless) == (DependencyState(state.value), not hope)
    assert found.sentence == sentence and remedy in found.remedy


@pytest.mark.parametrize(
    ("state", "standing", "hope"),
    [
        (OPEN, DependencyState.OPEN, True),
        (None, DependencyState.UNKNOWN, True),
        (MISSING, DependencyState.MISSING, False),
    ],
)
def test_each_state_of_an_issue_that_nobody_works_on(state, standing, hope):
    waiting = facts("a", TaskState.QUEUED, "o/r#1")
    found = only(scene_of(waiting, states={"o/r#1": state} if state else {}))
    assert (found.state, found.hopeless) == (standing, not hope)
    closed = scene_of(waiting, states={"o/r#1": CLOSED})
    assert select_blockers(waiting, find_blockers(closed)) == ()


def test_the_way_out_is_one_that_whoever_waits_can_go():
    by_hand = facts("a", TaskState.QUEUED, "gone", "b", "o/r#1")
    of_issue = facts("c", TaskState.QUEUED, "b", "o/r#1", repo_full_name="o/r", issue_number=3)
    behind = facts("d", TaskState.QUEUED, "a")
    failed = facts("b", TaskState.FAILED)
    judged = find_blockers(scene_of(by_hand, of_issue, behind, failed, states={"o/r#1": OPEN}))
    for waiting in (by_hand, behind):
        for one in select_blockers(waiting, judged):
            assert "ubmit the waiting task again without --depends-on for this" in one.remedy
            assert f"cancel the old one (hostler task cancel {waiting.id})." in one.remedy
    for one in select_blockers(of_issue, judged):
        assert "remove it from the issue that depends on it" in one.remedy
        assert "hostler task cancel" not in one.remedy
    said = select_blockers(by_hand, judged)[1].remedy
    assert said.startswith("Retry it (hostler task retry b), or submit")


def test_an_issue_asks_for_the_merge_and_a_task_for_its_work():
    standing = facts("b", TaskState.AWAITING_FEEDBACK, repo_full_name="o/r", pr_number=7, attempt=1)
    by_name, by_issue = facts("a", TaskState.QUEUED, "b"), facts("c", TaskState.QUEUED, "o/r#1")
    scene = scene_of(
        standing, by_name, by_issue, issues={"o/r#1": ("b",)}, last_runs={"b": ENDED_WELL}
    )
    judged = find_blockers(scene)
    assert select_blockers(by_name, judged) == ()
    assert [one.state for one in select_blockers(by_issue, judged)] == [
        DependencyState.AWAITING_FEEDBACK
    ]


@given(states, last_runs, st.booleans(), st.sampled_from([None, "o/r"]), st.none() | st.just(7))
def test_work_stands_after_a_good_run_or_somebodys_word_and_never_for_what_ended_badly(
    state, last, finishing, repo, pull
):
    task = TaskFacts("b", state, finishing=finishing, repo_full_name=repo, pr_number=pull)
    if state in (TaskState.PARKED, TaskState.RUNNING):
        # Somebody said that it is done; in a repository, that is not where it stands.
        assert has_usable_work(task, last) == (finishing and repo is None)
    elif has_usable_work(task, last):
        assert last == ENDED_WELL
        assert state in (TaskState.AWAITING_FEEDBACK, TaskState.QUEUED)


def test_an_issue_waits_for_its_implementation_too():
    design = facts("d", TaskState.DONE)
    following = facts("i", TaskState.QUEUED, attempt=0)
    scene = scene_of(
        design, following, facts("a", TaskState.QUEUED, "o/r#1"), issues={"o/r#1": ("d", "i")}
    )
    assert only(scene).sentence == "o/r#1 is queued."


def test_a_chain_names_what_is_to_blame_at_its_end():
    scene = scene_of(
        facts("a", TaskState.QUEUED, "b"),
        facts("b", TaskState.QUEUED, "o/r#1"),
        facts("c", TaskState.QUEUED, "d"),
        facts("d", TaskState.FAILED, reason="It fell."),
        issues={"o/r#1": ("c",)},
    )
    found = only(scene)
    assert found.hopeless and found.state is DependencyState.QUEUED
    assert found.sentence == "b waits for d. d has failed: It fell."
    assert "hostler task retry d" in found.remedy
    assert set(find_hopeless(scene.tasks.values(), find_blockers(scene))) == {"a", "b", "c"}


def test_a_circle_that_came_about_is_told_as_one():
    scene = scene_of(
        facts("a", TaskState.QUEUED, "b"),
        facts("b", TaskState.QUEUED, "a"),
        facts("c", TaskState.QUEUED, "b"),
    )
    assert only(scene).sentence == "dependency cycle detected: b -> a -> b."
    assert only(scene, "c").state is DependencyState.CYCLE
    assert set(find_hopeless(scene.tasks.values(), find_blockers(scene))) == {"a", "b", "c"}


def test_a_stop_is_told_before_the_circle_behind_it():
    scene = scene_of(facts("a", TaskState.QUEUED, "b"), facts("b", TaskState.STOPPED, "a"))
    assert only(scene).state is DependencyState.STOPPED
    assert only(scene).sentence == "b was stopped."


def test_whoever_has_begun_waits_for_nobody():
    begun = facts("a", TaskState.RETRYING, "nobody", attempt=1)
    assert select_blockers(begun, find_blockers(scene_of(begun))) == ()
    assert build_graph(scene_of(begun)) == {}


def test_what_is_told_names_every_blocker():
    scene = scene_of(facts("a", TaskState.QUEUED, "b", "c"), facts("b"), facts("c"))
    held = select_blockers(scene.tasks["a"], find_blockers(scene))
    assert describe_blockers(held) == "Waiting for 2: b is queued. c is queued."
    assert describe_blockers(()) == "All dependencies are ready."


# -- the queue --------------------------------------------------------------------------------


def task(name: str, order: int, state: TaskState = TaskState.QUEUED, **more) -> Task:
    made = {"issue": None, "parent": None, "since": NOW, "attempt": 0, "finishing": False} | more
    return Task(
        name,
        "p",
        None,
        made["issue"],
        Flow.TASK,
        name,
        "ann",
        state,
        format_timestamp(made["since"]),
        order,
        attempt=made["attempt"],
        parent_task=made["parent"],
        finishing=made["finishing"],
    )


@st.composite
def crowds(draw: st.DrawFn) -> list[Task]:
    names = draw(st.lists(ids, max_size=8, unique=True))
    return [
        task(
            name,
            draw(st.integers(1, 5)),
            draw(states),
            parent=draw(st.sampled_from([None, "parent"])),
            issue=draw(st.none() | st.just(3)),
        )
        for name in names
    ]


@st.composite
def queues(draw: st.DrawFn) -> tuple[list[Task], TaskQueue]:
    crowd = draw(crowds())
    names = [one.id for one in crowd]
    held = draw(st.sets(st.sampled_from(names))) if names else set()
    open_ = draw(st.sets(st.sampled_from([*names, "stranger"])))
    waiting = tuple(one for one in crowd if one.state is TaskState.QUEUED and is_root(one))
    roots = {one.id: is_root(one) for one in crowd}
    running = [one for one in crowd if one.state is TaskState.RUNNING]
    taken = find_occupants(running, {name: roots.get(name, True) for name in open_})
    cap = draw(st.integers(-1, 4))
    return crowd, TaskQueue(
        waiting, dict.fromkeys(held, ()), queue_positions(waiting, held), taken, cap
    )


@given(queues())
def test_positions_count_those_before_in_order(given_):
    _, queue = given_
    free = [one for one in queue.waiting if one.id not in queue.held]
    for one in queue.waiting:
        before = sum(queue_order(other) < queue_order(one) for other in free)
        assert queue.positions.get(one.id) == (None if one.id in queue.held else before + 1)


@given(queues())
def test_who_starts_was_waiting_comes_first_and_finds_a_place(given_):
    _, queue = given_
    started = starting(queue)
    names = [one.id for one in started]
    assert len(set(names)) == len(names) and not set(names) & (queue.occupied | set(queue.held))
    assert all(one.state is TaskState.QUEUED for one in started)
    if queue.cap > 0:
        assert len(queue.occupied | set(names)) <= max(queue.cap, len(queue.occupied))
    passed_over = [one for one in queue.waiting if one.id in queue.positions and one not in started]
    for one in started:
        assert all(
            queue_order(one) < queue_order(other)
            for other in passed_over
            if other.id not in queue.occupied
        )
    if passed_over and queue.cap <= 0:
        assert all(one.id in queue.occupied for one in passed_over)


@given(queues())
def test_whoever_has_started_or_waits_on_is_never_started_again(given_):
    """However long it waits: only a place, once taken, takes an entry out of the queue."""
    _, queue = given_
    for one in starting(queue):
        taken = TaskQueue(
            queue.waiting, queue.held, queue.positions, queue.occupied | {one.id}, queue.cap
        )
        assert one not in starting(taken)


@given(queues())
def test_the_answer_to_a_submission_is_the_position(given_):
    crowd, queue = given_
    for one in crowd:
        answer = submission_result(queue, one)
        if one.id in queue.held:
            assert answer == SubmissionResult(SubmissionStatus.QUEUED)
        elif answer.status is SubmissionStatus.QUEUED:
            assert answer.queue_position == queue.positions[one.id] > (queue.free or 0)
        else:
            assert answer.queue_position == 0
            assert one in starting(queue) or one.id in queue.occupied or one not in queue.waiting
        elsewhere = submission_result(queue, one, held=True)
        assert elsewhere == SubmissionResult(
            SubmissionStatus.QUEUED, queue.positions.get(one.id, 0)
        )


@given(queues())
def test_children_need_no_place_and_a_cap_of_none_has_room(given_):
    crowd, queue = given_
    taken = len(queue.occupied)
    for one in crowd:
        free = not is_root(one) or queue.cap <= 0 or taken < queue.cap
        assert has_free_slot(one, taken, queue.cap) == free
        # The gate of admission and the answer to a submission agree about the next one.
        if queue.positions.get(one.id) == 1 and one.id not in queue.occupied:
            assert (submission_result(queue, one).status is SubmissionStatus.STARTED) == free


def test_runs_found_elsewhere_take_places():
    waiting = (task("a", 1), task("b", 2))
    for others, left in ((set(), ["a", "b"]), ({"x"}, ["a"]), ({"x", "y"}, []), ({"a"}, ["b"])):
        taken = find_occupants([], dict.fromkeys(others, True))
        queue = TaskQueue(waiting, {}, queue_positions(waiting), taken, cap=2)
        assert [one.id for one in starting(queue)] == left


def test_what_follows_a_design_is_a_root_task_and_a_child_is_none():
    assert is_root(task("a", 1)) and is_root(task("i", 2, parent="design", issue=7))
    assert not is_root(task("c", 3, parent="a"))


@given(crowds(), st.floats(0, 60), st.floats(0, 10), st.data())
def test_only_what_is_missed_for_longer_than_the_grace_is_queued_again(
    crowd, passed, grace, data: st.DataObject
):
    names = [one.id for one in crowd]
    open_ = data.draw(st.sets(st.sampled_from(names))) if names else set()
    now = NOW + timedelta(seconds=passed)
    lost = find_stale(crowd, open_, now, timedelta(seconds=grace))
    waited = timedelta(seconds=passed) > timedelta(seconds=grace)
    wanted = {
        one.id for one in crowd if waited and one.state is TaskState.RUNNING and one.id not in open_
    }
    assert {one.id for one in lost} == wanted
    assert find_stale(lost, {one.id for one in lost}, now, timedelta()) == []

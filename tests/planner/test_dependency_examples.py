"""Dependencies, chains, readiness and the queue by example, at their limits."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hostler.model import RepoName, format_timestamp
from hostler.planner.dependencies import (
    BadDependency,
    Blocker,
    DependencyCycle,
    DependencySnapshot,
    DependencyState,
    _all_names,
    _names_on_cycles,
    _reverse_graph,
    build_graph,
    describe_blockers,
    find_blockers,
    find_cycle,
    find_cycles,
    find_hopeless,
    find_root_causes,
    has_usable_work,
    is_issue_name,
    is_waiting,
    parse_dependencies,
    require_no_cycle,
    select_blockers,
    split_cycles,
)
from hostler.planner.queue import (
    BlockerChange,
    SubmissionResult,
    SubmissionStatus,
    TaskQueue,
    blocker_change,
    find_occupants,
    find_stale,
    has_free_slot,
    is_queued,
    is_root,
    queue_order,
    queue_positions,
    submission_result,
)
from hostler.store.dependencies import CLOSED, MISSING, OPEN, LastRun, TaskFacts
from hostler.store.runs import RunState
from hostler.store.tasks import Flow, Task, TaskState

NOW = datetime(2026, 3, 1, tzinfo=UTC)
REPO = RepoName("Octo", "Stable")
WELL = LastRun(RunState.ENDED, "success")


def facts(name: str, state: TaskState = TaskState.QUEUED, **more) -> TaskFacts:
    return TaskFacts(name, state, **more)


def task(name: str = "t1", state: TaskState = TaskState.QUEUED, order: int = 1, **more) -> Task:
    made = Task(
        name, "stable", None, None, Flow.TASK, "Tidy", "ann", state, format_timestamp(NOW), order
    )
    return replace(made, **more)


# -- names -----------------------------------------------------------------------------------------


def test_names_are_stripped_split_and_kept_once():
    assert parse_dependencies([" a ,b", "", " , ", "a"]) == ("a", "b")
    assert parse_dependencies(["#7", "O/R#8"], repo=REPO) == ("octo/stable#7", "o/r#8")


def test_an_issue_without_its_repository_is_refused_with_the_reason():
    with pytest.raises(BadDependency, match="its repository is not named") as error:
        parse_dependencies(["#7"])
    assert error.value.exit_code == 2
    with pytest.raises(BadDependency, match="neither a task's id nor an issue"):
        parse_dependencies(["-x"], repo=REPO)


def test_a_task_that_names_itself_is_refused_by_any_of_its_names():
    for own in ("a", ["z", "a"], {"a"}):
        with pytest.raises(
            BadDependency, match="'a' cannot be a dependency: it is the task itself"
        ):
            parse_dependencies(["b", "a"], own)
    assert parse_dependencies(["a"], ()) == ("a",) == parse_dependencies(["a"], "ab")


def test_of_too_many_dependencies_the_first_that_is_too_much_is_named():
    with pytest.raises(BadDependency, match=r"'t100' .* at most 100"):
        parse_dependencies([f"t{number}" for number in range(150)])


def test_an_id_has_at_most_200_letters():
    assert parse_dependencies(["x" * 200]) == ("x" * 200,)
    with pytest.raises(BadDependency):
        parse_dependencies(["x" * 201])
    assert is_issue_name("o/r#1") and not is_issue_name("t1")


# -- cycles ----------------------------------------------------------------------------------------


def test_the_shortest_way_back_is_found_and_the_first_of_equal_ones():
    ways = {"b": ("c",), "c": ("a",), "d": ("a",)}
    assert find_cycle(ways, "a", ("b", "d")) == ("a", "d", "a")
    ways = {"c": ("a",), "b": ("a",)}
    assert find_cycle(ways, "a", ("c", "b")) == ("a", "c", "a")
    assert find_cycle(ways, "a", ()) is None
    assert find_cycle({"b": ("c",), "c": ("b",)}, "a", ("b",)) is None
    assert find_cycle({}, "a", ("a",)) == ("a", "a")


def test_what_a_task_waited_for_before_does_not_count():
    assert find_cycle({"a": ("b",), "b": ("a",)}, "a", ("c",)) is None


def test_an_issue_in_a_cycle_stands_for_its_task():
    ways = {"o/r#1": ("b",), "b": ("a",)}
    assert find_cycle(ways, "a", ("o/r#1",)) == ("a", "o/r#1", "a")
    ways = {"b": ("o/r#1",), "o/r#1": ("a",)}
    assert find_cycle(ways, "a", ("b",)) == ("o/r#1", "b", "o/r#1")


def test_a_cycle_is_refused_and_the_rest_is_kept():
    ways = {"b": ("a",)}
    with pytest.raises(DependencyCycle, match="a -> b -> a"):
        require_no_cycle(ways, "a", ("c", "b"))
    require_no_cycle(ways, "a", ("c",))
    kept, cycles = split_cycles(ways, "a", ("c", "b"))
    assert kept == ("c",) and [one.path for one in cycles] == [("a", "b", "a")]


# -- chains ----------------------------------------------------------------------------------------


def test_the_nearest_dead_one_is_to_blame():
    ways = {"a": ("b",), "b": ("x", "c"), "c": ("y",), "d": ("e",)}
    assert find_root_causes(ways, ["y", "x"]) == {"x": "x", "y": "y", "b": "x", "a": "x", "c": "y"}
    assert find_root_causes({"a": ("x", "y")}, ["y", "x"])["a"] == "x"
    assert find_root_causes({}, ["x"]) == {"x": "x"}


def test_names_on_a_circle_have_their_shortest_way_back():
    ways = {"a": ("b",), "b": ("a", "c"), "c": ("a",), "d": ("a",), "e": ("f",)}
    assert find_cycles(ways) == {
        "a": ("a", "b", "a"),
        "b": ("b", "a", "b"),
        "c": ("c", "a", "b", "c"),
    }


def test_names_that_can_be_done_one_after_another_are_not_searched():
    ways = {"a": ("b", "b"), "b": ("c", "d"), "c": ("d",), "x": ("y",), "y": ("x",), "z": ("x",)}
    assert _names_on_cycles(ways) == {"x", "y", "z"}
    assert _names_on_cycles({"a": ("b",), "b": ()}) == set() == _names_on_cycles({})
    assert _names_on_cycles({"a": ("b", "a"), "b": ()}) == {"a"}


def test_arrows_are_turned_once_each_in_the_order_of_names():
    assert _reverse_graph({"b": ("x", "x"), "a": ("x",)}) == {"x": ["a", "b"]}
    assert [*_all_names({"a": ("b", "c"), "b": ("c",)})] == ["a", "b", "c"]


def test_circles_are_told_in_the_order_of_names():
    ways = {name: (other,) for name, other in zip("dcba", "cbad", strict=True)}
    assert [*find_cycles(ways)] == ["a", "b", "c", "d"]


# -- readiness -------------------------------------------------------------------------------------


def judged(*tasks: TaskFacts, **more):
    return find_blockers(DependencySnapshot({one.id: one for one in tasks}, **more))


def test_a_task_waits_until_it_has_begun_or_is_done():
    assert is_waiting(facts("a")) and not is_waiting(facts("a", attempt=1))
    assert not is_waiting(facts("a", TaskState.DONE))
    ways = build_graph(
        DependencySnapshot({"a": facts("a", depends_on=("b",)), "c": facts("c", attempt=1)})
    )
    assert ways == {"a": ("b",)}


def test_what_is_done_is_ready_and_what_is_missing_never_will_be():
    found = judged(facts("a", depends_on=("b", "gone")), facts("b", TaskState.DONE))
    assert "b" not in found
    assert found["gone"] == Blocker(
        "gone", DependencyState.MISSING, "Task gone does not exist.", hopeless=True, avoidable=True
    )
    assert found["a"].hopeless and found["a"].sentence == (
        "a waits for gone. Task gone does not exist."
    )


def test_what_holds_a_task_is_told_in_its_order_and_nothing_once_it_has_begun():
    waiting = facts("a", depends_on=("c", "b", "d"))
    rest = (facts("b"), facts("c", TaskState.RUNNING), facts("d", TaskState.DONE))
    found = judged(waiting, *rest)
    assert [one.name for one in select_blockers(waiting, found)] == ["c", "b"]
    assert select_blockers(replace(waiting, attempt=1), found) == ()


def test_the_way_out_depends_on_who_waits():
    failed = facts("b", TaskState.FAILED)
    by_hand = facts("a", depends_on=("b", "gone"))
    of_issue = replace(by_hand, issue_number=7)
    found = judged(by_hand, failed)
    one, gone = select_blockers(by_hand, found)
    assert one.remedy == (
        "Retry it (hostler task retry b), or submit the waiting task again without "
        "--depends-on for this one, and cancel the old one (hostler task cancel a)."
    )
    assert gone.remedy.startswith("Submit the waiting task again") and not gone.avoidable
    assert "remove it from the issue" in select_blockers(of_issue, found)[0].remedy
    running = judged(by_hand, facts("b", TaskState.RUNNING))
    assert select_blockers(by_hand, running)[0].remedy == ""


def test_tasks_that_can_never_proceed_are_told_unless_they_are_over():
    tasks = [
        facts("a", depends_on=("x", "y")),
        facts("b", TaskState.STOPPED, depends_on=("x",)),
        facts("c", TaskState.FAILED, depends_on=("x",)),
        facts("d", depends_on=("y",)),
    ]
    rest = (facts("x", TaskState.FAILED), facts("y", TaskState.RUNNING))
    found = find_hopeless(tasks, judged(*tasks, *rest))
    assert {name: [one.name for one in held] for name, held in found.items()} == {"a": ["x"]}


def test_what_is_waited_for_in_words():
    assert describe_blockers([]) == "All dependencies are ready."
    held = [
        Blocker("a", DependencyState.QUEUED, "a is queued."),
        Blocker("b", DependencyState.OPEN, "b is open."),
    ]
    assert describe_blockers(held) == "Waiting for 2: a is queued. b is open."


@pytest.mark.parametrize(
    ("state", "more", "last", "works"),
    [
        (TaskState.AWAITING_FEEDBACK, {}, WELL, True),
        (TaskState.AWAITING_FEEDBACK, {}, None, False),
        (TaskState.AWAITING_FEEDBACK, {}, LastRun(RunState.EXITED, "success"), False),
        (TaskState.AWAITING_FEEDBACK, {}, LastRun(RunState.ENDED, "crash"), False),
        (TaskState.QUEUED, {"pr_number": 3}, WELL, True),
        (TaskState.QUEUED, {}, WELL, False),
        (TaskState.FAILED, {"pr_number": 3}, WELL, False),
        (TaskState.RUNNING, {"finishing": True}, None, True),
        (TaskState.PARKED, {"finishing": True}, None, True),
        (TaskState.RUNNING, {"finishing": True, "repo_full_name": "o/r"}, WELL, False),
        (TaskState.RUNNING, {}, WELL, False),
        (TaskState.PARKED, {}, WELL, False),
    ],
)
def test_work_that_stands_for_a_task_that_is_not_over(state, more, last, works):
    assert has_usable_work(facts("a", state, **more), last) is works
    runs = {"a": last} if last else {}
    assert ("a" not in judged(facts("a", state, **more), last_runs=runs)) is works


def test_an_issue_is_ready_when_all_its_tasks_are_done():
    done, design = facts("t1", TaskState.DONE), facts("t2", TaskState.RUNNING)
    issues = {"o/r#1": ("t1", "t2")}
    assert judged(done, design, issues=issues)["o/r#1"].sentence == "o/r#1 is running."
    assert "o/r#1" not in judged(done, replace(design, state=TaskState.DONE), issues=issues)
    failed = facts("t1", TaskState.FAILED)
    running_first = judged(replace(design, id="t0"), failed, issues={"o/r#1": ("t0", "t1")})
    assert running_first["o/r#1"].state is DependencyState.FAILED


def test_an_issue_without_a_task_goes_by_its_state():
    states = {"o/r#1": CLOSED, "o/r#2": OPEN, "o/r#3": MISSING}
    found = judged(facts("a", depends_on=("o/r#4",)), states=states)
    assert "o/r#1" not in found
    two, three, four = (found[f"o/r#{number}"] for number in (2, 3, 4))
    assert (two.state, two.hopeless, two.avoidable) == (DependencyState.OPEN, False, True)
    assert (three.state, three.hopeless, three.avoidable) == (
        DependencyState.MISSING,
        True,
        True,
    )
    assert (four.state, four.hopeless, four.avoidable) == (DependencyState.UNKNOWN, False, False)
    assert (two.remedy, three.remedy) == ("Close it, add a label", "Give Hostler's account access")


def test_a_reason_is_one_line_of_200_letters_and_a_sentence_ends_once():
    def sentence(state, reason):
        return judged(facts("b", state, reason=reason))["b"].sentence

    assert sentence(TaskState.BLOCKED, "No\n  key.") == "b is blocked: No key."
    assert sentence(TaskState.BLOCKED, "Why?") == "b is blocked: Why?"
    assert sentence(TaskState.BLOCKED, "") == "b is blocked."
    assert sentence(TaskState.RUNNING, "anything") == "b is running."
    assert sentence(TaskState.RETRYING, "It fell.") == "b will be retried: It fell."
    assert sentence(TaskState.PARKED, "Later!") == "b is parked: Later!"
    assert sentence(TaskState.STOPPED, "By ann.") == "b was stopped: By ann."
    assert sentence(TaskState.FAILED, "x" * 300) == f"b has failed: {'x' * 200}."
    assert sentence(TaskState.NEEDS_INPUT, "no") == "b has a question."


def test_what_to_do_about_each_state():
    def remedy(state, **more):
        return judged(facts("b", state, **more))["b"].remedy

    assert remedy(TaskState.AWAITING_FEEDBACK) == "Review and merge its pull request."
    reviewed = remedy(TaskState.AWAITING_FEEDBACK, pr_number=4)
    assert reviewed == "Review and merge pull request #4."
    assert remedy(TaskState.NEEDS_INPUT) == "Answer it: hostler task show b"
    assert remedy(TaskState.BLOCKED) == "Once fixed, run: hostler task resume b"
    assert remedy(TaskState.STOPPED) == "Retry it (hostler task retry b)"
    assert remedy(TaskState.QUEUED) == ""


def test_only_what_is_over_is_hopeless_by_itself():
    for state in TaskState:
        if state is not TaskState.DONE:
            found = judged(facts("b", state))["b"]
            assert found.hopeless is found.avoidable is (state in {"stopped", "failed"})
            assert found.state == state.value


def test_a_circle_is_told_and_its_names_are_hopeless():
    found = judged(facts("a", depends_on=("b",)), facts("b", depends_on=("a",)))
    assert found["a"].state is DependencyState.CYCLE and found["a"].hopeless
    assert not found["a"].avoidable
    assert found["a"].sentence == "dependency cycle detected: a -> b -> a."


def test_behind_a_hopeless_one_nothing_is_searched():
    stopped = facts("a", TaskState.STOPPED, depends_on=("b",))
    found = judged(stopped, facts("b", depends_on=("a",)))
    assert found["a"].state is DependencyState.STOPPED
    assert found["b"].sentence == "b waits for a. a was stopped."
    assert found["b"].avoidable and found["b"].remedy == found["a"].remedy


def test_a_task_behind_one_that_is_ready_is_not_to_blame():
    found = judged(facts("a", depends_on=("b",)), facts("b", TaskState.DONE, depends_on=("gone",)))
    assert not found["a"].hopeless


def test_everything_that_is_named_is_judged():
    scene = DependencySnapshot(
        {"a": facts("a", depends_on=("b", "a"))}, {"o/r#1": ()}, {"o/r#2": OPEN}
    )
    assert scene.names() == ["a", "o/r#1", "o/r#2", "b"]


def test_blockers_are_news_when_a_name_or_hope_changes():
    held = (Blocker("b", DependencyState.QUEUED, "b is queued."),)
    assert blocker_change(task(), ()) is BlockerChange.NONE
    assert blocker_change(task(), held) is BlockerChange.CHANGED
    noted = task(blockers='[["b", false]]')
    assert blocker_change(noted, held) is BlockerChange.NONE
    assert (
        blocker_change(noted, (replace(held[0], state=DependencyState.RUNNING),))
        is BlockerChange.NONE
    )
    assert blocker_change(noted, (replace(held[0], hopeless=True),)) is BlockerChange.CHANGED
    assert blocker_change(noted, ()) is BlockerChange.CLEAR


# -- the queue -------------------------------------------------------------------------------------


def test_a_root_task_is_one_that_no_agent_submitted():
    assert is_root(task()) and is_root(task(parent_task="p", issue_number=3))
    assert not is_root(task(parent_task="p"))


def test_running_root_tasks_and_those_with_a_run_have_a_place():
    running = [task("a", TaskState.RUNNING), task("b", TaskState.RUNNING, parent_task="a")]
    assert find_occupants(running, {"c": True, "d": False}) == {"a", "c"}


@pytest.mark.parametrize(
    ("taken", "cap", "root", "child"),
    [(0, 1, True, True), (1, 1, False, True), (2, 1, False, True), (9, 0, True, True),
     (9, -1, True, True)],
)  # fmt: skip
def test_a_root_task_needs_a_place_below_the_cap(taken, cap, root, child):
    assert has_free_slot(task(), taken, cap) is root
    assert has_free_slot(task(parent_task="p"), taken, cap) is child


def test_positions_begin_at_one_in_order_without_those_that_are_held():
    waiting = [task("b", order=2), task("a", order=2), task("c", order=1), task("held", order=0)]
    waiting += [task("run", TaskState.RUNNING), task("child", parent_task="a")]
    assert queue_positions(waiting, {"held"}) == {"c": 1, "a": 2, "b": 3}
    assert queue_positions(waiting, {"held"}, lambda one: one.id) == {"a": 1, "b": 2, "c": 3}
    assert queue_order(waiting[0]) == (2, "b")
    assert is_queued(waiting[0]) and not is_queued(waiting[4]) and not is_queued(waiting[5])


def test_free_places_are_never_fewer_than_none():
    def free(cap, *busy):
        return TaskQueue((), {}, {}, frozenset(busy), cap).free

    assert free(2) == 2 and free(2, "a") == 1 and free(1, "a", "b") == 0
    assert free(0, "a") is None and free(-1) is None and free(1) == 1


def test_what_became_of_a_task_that_was_submitted():
    def answer(one, *, cap=2, busy=("x",), held_by=None, **more):
        names = {"a": 1, "b": 2}
        queue = TaskQueue((), {one.id: ()} if held_by else {}, names, frozenset(busy), cap)
        return submission_result(queue, one, **more)

    assert answer(task("a")) == SubmissionResult(SubmissionStatus.STARTED)
    assert answer(task("b")) == SubmissionResult(SubmissionStatus.QUEUED, 2)
    assert answer(task("b"), cap=0) == SubmissionResult(SubmissionStatus.STARTED)
    assert answer(task("b"), cap=3) == SubmissionResult(SubmissionStatus.STARTED)
    assert answer(task("a"), held_by="x") == SubmissionResult(SubmissionStatus.QUEUED)
    assert answer(task("a"), held=True) == SubmissionResult(SubmissionStatus.QUEUED, 1)
    assert answer(task("z"), held=True) == SubmissionResult(SubmissionStatus.QUEUED, 0)
    assert answer(task("b", TaskState.RUNNING)) == SubmissionResult(SubmissionStatus.STARTED)
    assert answer(task("b"), busy=("b", "x")) == SubmissionResult(SubmissionStatus.STARTED)
    assert answer(task("b", parent_task="p")) == SubmissionResult(SubmissionStatus.STARTED)


def test_a_task_is_stale_once_it_ran_longer_than_the_grace_with_nobody():
    minute = timedelta(minutes=1)
    running = [task("b", TaskState.RUNNING, 2), task("a", TaskState.RUNNING, 2)]
    running += [task("busy", TaskState.RUNNING, 1), task("q", TaskState.QUEUED, 1)]
    assert find_stale(running, {"busy"}, NOW + minute, minute) == []
    late = NOW + minute + timedelta(milliseconds=1)
    assert [one.id for one in find_stale(running, {"busy"}, late, minute)] == ["a", "b"]

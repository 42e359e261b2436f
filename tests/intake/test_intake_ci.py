"""Failing CI: when it becomes work, a repetition, a question, a block, or nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.forge.actions import RerunFailedJobs
from hostler.intake.ci import (
    build_flaky_issue,
    build_rerun,
    clean_check_name,
    decide_on_run,
    find_failures,
)
from hostler.intake.model import (
    AddCiFeedback,
    AskAboutCi,
    BlockTask,
    CiState,
    RerunFlakyCheck,
    ThreadState,
    WorkflowRunEvent,
    parse_event,
)
from hostler.intake.repo_policy import RepoPolicy
from hostler.model import EPOCH, RepoName, format_timestamp
from hostler.store.inbox import InboxRow
from hostler.store.pull_requests import PullRow, PullStatus
from hostler.store.tasks import OVER, Flow, Task, TaskState

REPO = RepoName("octo", "stable")
HEAD, OLD = "a" * 40, "b" * 40
PULL = PullRow(str(REPO), 2, 1, "t1", "agent/x", PullStatus.AWAITING_FEEDBACK, HEAD)
TASK = Task(
    id="t1",
    project="stable",
    repo_full_name=str(REPO),
    issue_number=1,
    flow=Flow.BUGFIX,
    title="Crash",
    author="ann",
    state=TaskState.AWAITING_FEEDBACK,
    state_since=format_timestamp(EPOCH),
    order=1,
    pr_number=2,
)
FIRST = RepoPolicy(REPO, "stable", ci="first_fail")
ALL = RepoPolicy(REPO, "stable", ci="all_complete")


def seen(
    run: int = 7, conclusion: str = "failure", attempt: int = 1, name: str = "CI", **more: object
) -> WorkflowRunEvent:
    payload = {
        "id": run,
        "name": name,
        "event": "push",
        "head_sha": HEAD,
        "status": "completed",
        "conclusion": conclusion,
        "attempt": attempt,
        **more,
    }
    moment = f"2026-01-01T00:00:{attempt:02}Z"
    key = f"workflow_run:{run}:{attempt}:{conclusion}"
    row = InboxRow(str(REPO), key, "workflow_run", 2, run, "ann", moment, json.dumps(payload))
    found = parse_event(row)
    assert isinstance(found, WorkflowRunEvent)
    return found


def known(
    *runs: WorkflowRunEvent, task: Task = TASK, pull: PullRow = PULL, **checks: object
) -> ThreadState:
    return ThreadState((task,), pull, task, checks=CiState(tuple(runs), **checks))


def asked_of(one: WorkflowRunEvent) -> dict[str, RerunFailedJobs]:
    return {one.run.check: build_rerun(one)[0]}


def test_the_first_failure_of_a_head_is_told():
    failed = seen()
    decision = decide_on_run(failed, known(failed), FIRST)
    assert decision.effects == (AddCiFeedback(TASK, (failed,), 2),)
    assert "`CI (push)`" in decision.reason


@pytest.mark.parametrize("conclusion", ["success", "cancelled", "skipped", "action_required"])
def test_what_has_not_failed_causes_nothing(conclusion):
    one = seen(conclusion=conclusion)
    decision = decide_on_run(one, known(one), FIRST)
    assert not decision.has_effects and not decision.waits


def test_all_complete_waits_for_the_other_runs():
    failed = seen()
    assert not decide_on_run(failed, known(failed, unfinished=True), ALL).has_effects
    asked = decide_on_run(failed, known(failed, unfinished=None), ALL)
    assert asked.waits and not asked.has_effects
    done = decide_on_run(failed, known(failed, unfinished=False), ALL)
    assert [type(effect) for effect in done.effects] == [AddCiFeedback]


def test_all_complete_tells_of_everything_that_failed_before():
    lint, test, good = seen(7, name="lint"), seen(8, name="test"), seen(9, "success", name="docs")
    (delivered,) = decide_on_run(good, known(lint, test, good), ALL).effects
    assert isinstance(delivered, AddCiFeedback) and set(delivered.runs) == {lint, test}


def test_a_run_of_an_older_head_is_ignored():
    old = seen(head_sha=OLD)
    assert decide_on_run(old, known(), FIRST).reason == "It belongs to an older head."


def test_the_same_commit_offered_by_a_fork_is_nobodys_failure():
    fork = seen(foreign=True)
    other = seen(branch="somewhere")
    for one in (fork, other):
        assert not decide_on_run(one, known(one), FIRST).has_effects


def test_an_attempt_that_was_repeated_since_does_not_count():
    one = seen()
    assert not decide_on_run(one, replace(known(one), is_newest=False), FIRST).has_effects


def test_what_was_told_is_not_told_again():
    one = seen()
    assert not decide_on_run(
        one, known(one, delivered=frozenset({one.row.event_key})), FIRST
    ).has_effects


def test_a_check_that_passed_on_this_commit_is_repeated_once():
    good, bad = seen(7, "success"), seen(8)
    decision = decide_on_run(bad, known(good, bad), FIRST)
    (effect,) = decision.effects
    assert isinstance(effect, RerunFlakyCheck) and effect.run == bad
    # While it is being repeated, nothing else comes of it.
    assert not decide_on_run(bad, known(good, bad, reruns=asked_of(bad)), FIRST).has_effects


def test_another_check_that_passed_proves_nothing():
    good, bad = seen(7, "success", name="lint"), seen(8)
    (effect,) = decide_on_run(bad, known(good, bad), FIRST).effects
    assert isinstance(effect, AddCiFeedback)


@pytest.mark.parametrize("again", [seen(7, attempt=2), seen(12)])
def test_a_second_failure_blocks(again):
    first = seen(7)
    decision = decide_on_run(again, known(first, again, reruns=asked_of(first)), FIRST)
    (effect,) = decision.effects
    assert isinstance(effect, BlockTask) and effect.why.rstrip().endswith("to continue.")
    assert "?" in effect.why


def test_a_repetition_that_passes_ends_it():
    first, good = seen(7), seen(7, "success", attempt=2)
    assert not decide_on_run(good, known(first, good, reruns=asked_of(first)), FIRST).has_effects


def test_after_many_turns_without_a_person_one_is_asked():
    failed, tired = seen(), replace(PULL, turns_without_person=10)
    (effect,) = decide_on_run(failed, known(failed, pull=tired), FIRST).effects
    assert isinstance(effect, AskAboutCi)
    assert "10 turns passed" in effect.question and effect.question.endswith("?")
    rested = replace(PULL, turns_without_person=9)
    (effect,) = decide_on_run(failed, known(failed, pull=rested), FIRST).effects
    assert isinstance(effect, AddCiFeedback)


@given(
    st.sampled_from(TaskState),
    st.sampled_from(PullStatus),
    st.sampled_from(["never", "first_fail"]),
)
def test_work_begins_only_where_it_may(state, status, policy):
    failed = seen()
    watch = replace(FIRST, ci=policy)
    there = known(failed, task=replace(TASK, state=state), pull=replace(PULL, status=status))
    decision = decide_on_run(failed, there, watch)
    free = state in (TaskState.AWAITING_FEEDBACK, TaskState.QUEUED)
    follows = status is PullStatus.AWAITING_FEEDBACK and policy != "never"
    assert decision.has_effects == (free and follows)
    # Only what has ended for good is let go of without an effect.
    over = state in OVER or status in (PullStatus.CLOSED, PullStatus.MERGED) or policy == "never"
    assert decision.waits == (not over and not decision.has_effects)


_RUNS = st.lists(
    st.builds(
        seen,
        run=st.integers(1, 3),
        conclusion=st.sampled_from(["success", "failure", "cancelled", "timed_out"]),
        attempt=st.integers(1, 3),
        name=st.sampled_from(["lint", "test"]),
    ),
    max_size=8,
)


@given(_RUNS, st.sets(st.integers(0, 7)), st.integers(0, 12))
def test_each_failure_has_one_consequence_at_most(runs, delivered, turns):
    """Whatever was seen: what was told stays told, and nothing is both told and repeated."""
    keys = frozenset(runs[i].row.event_key for i in delivered if i < len(runs))
    checks = CiState(tuple(runs), delivered=keys)
    there = ThreadState((TASK,), replace(PULL, turns_without_person=turns), TASK, checks=checks)
    left = find_failures(checks)
    assert all(one.run.failed and one.row.event_key not in keys for one in left)
    assert len({one.run.check for one in left}) == len(left)
    for one in runs:
        effects = decide_on_run(one, there, FIRST).effects
        named = [run for effect in effects for run in getattr(effect, "runs", ())]
        reruns = [effect.run for effect in effects if isinstance(effect, RerunFlakyCheck)]
        assert sorted(map(id, [*named, *reruns])) == sorted(map(id, left))
        assert not any(isinstance(effect, AddCiFeedback) for effect in effects) or turns < 10


@given(st.text())
def test_a_name_stays_inside_its_backticks(name):
    assert (
        "`" not in clean_check_name(name)
        and "\n" not in clean_check_name(name)
        and len(clean_check_name(name)) <= 80
    )


def test_there_is_one_issue_for_a_check_and_one_repetition_for_a_head():
    one, again = seen(7), seen(8, attempt=2)
    assert build_flaky_issue(one, "x")[1] == build_flaky_issue(again, "y")[1]
    assert build_flaky_issue(one, "x")[1] != build_flaky_issue(seen(name="lint"), "x")[1]
    assert build_flaky_issue(one, "x")[0].title == "Flaky: CI (push)"
    assert build_rerun(one)[1] == build_rerun(again)[1]
    assert build_rerun(one)[1] != build_rerun(seen(head_sha=OLD))[1]

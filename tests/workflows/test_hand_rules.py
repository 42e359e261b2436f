"""Tasks by hand: the restart loop's rules, for any outcome and counter."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.agents.outcomes import Outcome
from hostler.agents.result import AgentResult
from hostler.agents.verdict import DecidedBy, RunVerdict
from hostler.config.settings import Repo, Tasks
from hostler.model import format_timestamp
from hostler.store.runs import Run, RunState
from hostler.store.tasks import Flow, Task, TaskState
from hostler.workflows.assignment import build_prompt
from hostler.workflows.manual_tasks import (
    MAX_PROMPT_LENGTH,
    DoneFileContext,
    NotSubmitted,
    TaskSubmission,
    decide_after_done_file,
    decide_after_folder_run,
    is_waiting_for_children,
    park_until_children_finish,
    title_from_prompt,
    validate_submission,
)
from hostler.workflows.outcomes import RunEndFacts
from hostler.workflows.turns import TurnInput, branch_for, describe_failed_attempts

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LIMITS = Tasks()


def task(state: TaskState = TaskState.RUNNING, **more: Any) -> Task:
    base = Task(
        "t1", "stable", None, None, Flow.TASK, "Tidy", "ann", state, format_timestamp(NOW), 1
    )
    return replace(base, **{"attempt": 1, "prompt": "Tidy up.", "cwd": "/somewhere", **more})


def verdict(outcome: Outcome, by: DecidedBy = DecidedBy.EXIT_CODE, **more: Any) -> RunVerdict:
    return replace(RunVerdict(outcome, by, "So it was."), **more)


def end(seen: RunVerdict, before: Task | None = None, progress: str = "") -> Task:
    return decide_after_folder_run(
        before or task(), seen, RunEndFacts(NOW, progress=progress), LIMITS
    ).task


@pytest.mark.parametrize("by", [DecidedBy.DONE, DecidedBy.RESULT])
def test_it_is_done_when_its_agent_says_so(by):
    said = AgentResult(status="done", summary="Tidied.")
    done = end(verdict(Outcome.SUCCESS, by, result=said), task(attempt=7, note="x"))
    assert (done.state, done.reason, done.attempt) == (TaskState.DONE, "Tidied.", 7)
    assert not done.finishing and not done.note


def test_a_good_exit_alone_is_one_more_attempt():
    again = end(verdict(Outcome.SUCCESS))
    assert again.state is TaskState.RETRYING
    assert "without reporting" in again.reason
    # With progress it comes at the usual pace, without it later each time, then a person is asked.
    with_progress = end(verdict(Outcome.SUCCESS), task(progress="a"), "b")
    assert with_progress.wake_at == format_timestamp(NOW + timedelta(seconds=1))
    assert end(
        verdict(Outcome.SUCCESS), task(exits_without_progress=1)
    ).wake_at == format_timestamp(NOW + timedelta(seconds=4))
    asked = end(verdict(Outcome.SUCCESS), task(exits_without_progress=2))
    assert asked.state is TaskState.NEEDS_INPUT


def test_a_wrong_marker_is_an_error_and_not_a_restart():
    failed = end(verdict(Outcome.BAD_RESULT, DecidedBy.DONE, why="DONE must be a regular file."))
    assert failed.state is TaskState.FAILED
    mended = "Remove the file, then run: hostler task retry t1"
    assert failed.reason == f"DONE must be a regular file. {mended}"


@given(st.integers(0, 200), st.none() | st.integers(0, 200))
def test_no_attempt_beyond_the_last_one(attempt, most):
    after = end(verdict(Outcome.CRASH), task(attempt=attempt, max_restarts=most))
    allowed = max(LIMITS.max_restarts if most is None else most, 1)
    assert after.state is (TaskState.FAILED if attempt >= allowed else TaskState.RETRYING)


@given(st.sampled_from(TaskState), st.sampled_from(Outcome), st.sampled_from(DecidedBy))
def test_whoever_was_moved_meanwhile_stays(state, outcome, by):
    before = task(state)
    if state is not TaskState.RUNNING:
        assert end(verdict(outcome, by), before) == before
        assert park_until_children_finish(before, NOW, 1, LIMITS) == before


@given(st.sampled_from(Outcome), st.sampled_from(DecidedBy), st.integers(0, 9), st.integers(0, 9))
def test_every_run_has_an_end(outcome, by, idle, requeues):
    before = task(exits_without_progress=idle, requeues=requeues)
    after = end(verdict(outcome, by), before)
    assert after.state is not TaskState.RUNNING
    assert after.reason
    if after.state is TaskState.DONE:
        assert outcome is Outcome.SUCCESS and by in {DecidedBy.DONE, DecidedBy.RESULT}


def test_children_are_waited_for_without_holding_anything():
    waiting = park_until_children_finish(task(), NOW, 2, LIMITS)
    assert is_waiting_for_children(waiting)
    assert waiting.wake_at == format_timestamp(NOW + timedelta(seconds=300))
    assert "2 child tasks" in waiting.reason
    assert not is_waiting_for_children(task(TaskState.PARKED, finishing=True))


MARKED = RunVerdict(Outcome.SUCCESS, DecidedBy.DONE, "It was marked as done.")
WRONG = RunVerdict(Outcome.BAD_RESULT, DecidedBy.DONE, "DONE must be a regular file.")
arounds = st.builds(DoneFileContext, st.booleans(), st.integers(0, 2))


ALONE = DoneFileContext()


def when(before: Task, mark: RunVerdict = MARKED, around: DoneFileContext = ALONE) -> Task:
    return decide_after_done_file(before, mark, around, RunEndFacts(NOW), LIMITS).task


@given(st.sampled_from(TaskState), st.sampled_from([None, "o/r"]), arounds, st.integers(0, 3))
def test_whoever_is_marked_while_it_waits_is_done_without_an_agent(state, repo, around, attempt):
    before = task(
        state, repo_full_name=repo, attempt=attempt, wake_at=format_timestamp(NOW), blockers="[]"
    )
    after = when(before, MARKED, around)
    waits = state in (TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED)
    lost = state in (TaskState.NEEDS_INPUT, TaskState.BLOCKED, TaskState.FAILED)
    if not waits and not lost:
        assert after.state is state
        # Its agent is about to leave: whoever depends on a folder's work need not wait for that.
        assert after.finishing == (state is TaskState.RUNNING and repo is None)
    elif around.has_work:
        # The next attempt finds the mark, and brings in what was made.
        assert after == (replace(before, wake_at=None) if waits else before)
    elif around.children:
        assert is_waiting_for_children(after)
    else:
        assert after.state is TaskState.DONE and not after.blockers and after.wake_at is None
    assert after.attempt == attempt


@given(st.sampled_from(TaskState), st.sampled_from([None, "o/r"]), arounds)
def test_a_wrong_mark_fails_whoever_waits_and_nobody_else(state, repo, around):
    before = task(state, repo_full_name=repo)
    after = when(before, WRONG, around)
    if state in (TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED):
        assert after.state is TaskState.FAILED and after.reason.startswith(WRONG.why)
    else:
        assert after == before


@given(st.sampled_from(TaskState), st.sampled_from([MARKED, WRONG]), arounds, st.data())
def test_a_mark_that_was_heeded_changes_nothing_more(state, mark, around, data):
    before = task(state, finishing=data.draw(st.booleans()), turn=data.draw(st.integers(0, 1)))
    if before.finishing or before.turn:
        assert when(before, mark, around) == before
    once = when(before, mark, around)
    assert when(once, mark, around) == once


def run(attempt: int, outcome: str | None, **more: Any) -> Run:
    base = Run(f"r{attempt}", "t1", "p", attempt, attempt, "work", "a", "command", "", "f", "now")
    return replace(base, **{"state": RunState.ENDED, "outcome": outcome, "why": "So.", **more})


def test_the_prompt_says_how_the_last_attempts_ended():
    runs = [run(1, "crash"), run(2, "success"), *(run(n, "timeout") for n in range(3, 8))]
    told = describe_failed_attempts(
        [*runs, run(8, None, counted=False), run(9, None, state=RunState.RUNNING)]
    )
    assert told == tuple(f"Attempt {n} ended as timeout. So." for n in (5, 6, 7))
    assert describe_failed_attempts([run(1, "crash"), run(2, "success")]) == ()
    prompt = build_prompt(task(), TurnInput(history=told), None)
    assert "Tidy up." in prompt and "| Attempt 7 ended as timeout. So." in prompt
    assert "`/somewhere`" in prompt and "hostler done" in prompt
    assert "Attempt" not in build_prompt(task(), TurnInput(), None)


def test_an_answer_is_told_beside_its_question():
    asked = task(question="Which colour?", note="ann answers: Blue.")
    prompt = build_prompt(asked, TurnInput(), None)
    assert "| Which colour?" in prompt and "| ann answers: Blue." in prompt
    assert "could not be used" not in prompt


def test_a_prompt_is_put_in_as_it_is():
    odd = "Use $HOME and ${x} and $$ and <<< >>>"
    assert odd in build_prompt(task(prompt=odd), TurnInput(), None)


def test_work_in_a_repository_has_a_branch_of_its_own():
    assert branch_for(task()) == ""
    assert branch_for(task(repo_full_name="octo/stable")) == "agent/task/t1"
    repo = Repo(owner="octo", name="stable")
    prompt = build_prompt(task(repo_full_name="octo/stable", branch="b"), TurnInput(), repo)
    assert "Do not push" in prompt


@given(st.text())
def test_every_prompt_has_a_title(text):
    title = title_from_prompt(text)
    assert title and "\n" not in title and len(title) <= 120


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (TaskSubmission("p", "  \n", "ann", cwd="/x"), "empty"),
        (TaskSubmission("p", "x" * (MAX_PROMPT_LENGTH + 1), "ann", cwd="/x"), "characters"),
        (TaskSubmission("p", "x", "ann"), "folder or a repository"),
        (
            TaskSubmission("p", "x", "ann", cwd="/x", repo_full_name="o/r"),
            "folder or a repository",
        ),
        (TaskSubmission(" ", "x", "ann", cwd="/x"), "project name is empty"),
    ],
)
def test_what_no_agent_could_work_on_is_refused(order, message):
    with pytest.raises(NotSubmitted, match=message):
        validate_submission(order)

"""What the end of a run, or an error on the way, means for a task: every row of the tables."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.agents.errors import RunFilesFailed, SecretRefused
from hostler.agents.events import LimitSignal
from hostler.agents.outcomes import Outcome, outcome_meaning
from hostler.agents.result import AgentResult
from hostler.agents.verdict import DecidedBy, RunVerdict
from hostler.checkouts import errors as git
from hostler.checkouts.commands import CommandEnd
from hostler.checkouts.commands import CommandResult as Ran
from hostler.config.settings import Tasks
from hostler.errors import (
    CheckoutError,
    Gone,
    HostlerError,
    Moved,
    RateLimited,
    ServerFailed,
    Unauthorized,
    Unreachable,
)
from hostler.model import format_timestamp, parse_timestamp
from hostler.store.pull_requests import PullStatus
from hostler.store.tasks import OVER, Flow, Task, TaskState
from hostler.workflows.comments import commit_message, pull_body, pull_title
from hostler.workflows.effects import QueueWrite, SetPullStatus
from hostler.workflows.outcomes import (
    MAX_PARK,
    DesignMissing,
    ErrorAction,
    RunEndFacts,
    SetupFailed,
    TestsFailed,
    action_for_error,
    decide_after_error,
    decide_after_run,
    is_ready_to_finish,
)
from hostler.workflows.status_comment import render_status_comment

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LIMITS = Tasks()
RAN = Ran("make test", CommandEnd.FAILED, 1, "1 failed")


def task(state: TaskState = TaskState.RUNNING, **more: Any) -> Task:
    base = Task(
        "t1",
        "stable",
        "octo/stable",
        12,
        Flow.BUGFIX,
        "Crash",
        "ann",
        state,
        format_timestamp(NOW),
        1,
        attempt=1,
        branch="agent/bugfix/12-crash",
    )
    return replace(base, **more)


def verdict(outcome: Outcome, **more: Any) -> RunVerdict:
    return replace(RunVerdict(outcome, DecidedBy.EXIT_CODE, "It broke."), **more)


def end(outcome: Outcome, before: Task | None = None, **more: Any):
    return decide_after_run(before or task(), verdict(outcome, **more), RunEndFacts(NOW), LIMITS)


@pytest.mark.parametrize(
    ("outcome", "state", "wait"),
    [
        (Outcome.NEEDS_INPUT, TaskState.NEEDS_INPUT, None),
        (Outcome.BLOCKED, TaskState.BLOCKED, None),
        (Outcome.BAD_RESULT, TaskState.RETRYING, timedelta(seconds=2)),
        (Outcome.RATE_LIMITED, TaskState.PARKED, timedelta(minutes=1)),
        (Outcome.OVERLOADED, TaskState.PARKED, timedelta(minutes=1)),
        (Outcome.QUOTA, TaskState.PARKED, timedelta(hours=1)),
        (Outcome.AUTH, TaskState.PARKED, timedelta(minutes=1)),
        (Outcome.CONFIG, TaskState.PARKED, timedelta(minutes=10)),
        (Outcome.BAD_REQUEST, TaskState.BLOCKED, None),
        (Outcome.SERVER_ERROR, TaskState.RETRYING, timedelta(seconds=1)),
        (Outcome.NETWORK, TaskState.RETRYING, timedelta(seconds=1)),
        (Outcome.TIMEOUT, TaskState.RETRYING, timedelta(seconds=2)),
        (Outcome.STALLED, TaskState.RETRYING, timedelta(seconds=2)),
        (Outcome.LIMIT, TaskState.NEEDS_INPUT, None),
        (Outcome.INTERRUPTED, TaskState.STOPPED, None),
        (Outcome.CRASH, TaskState.RETRYING, timedelta(seconds=2)),
    ],
)
def test_each_outcome_leads_to_its_state(outcome, state, wait):
    step = end(outcome)
    assert step.task.state is state
    found = parse_timestamp(step.task.wake_at) - NOW if step.task.wake_at else None
    assert found == wait
    assert step.task.reason


def test_every_outcome_but_success_has_a_rule():
    for outcome in Outcome:
        if outcome is not Outcome.SUCCESS:
            assert end(outcome).task.state is not TaskState.RUNNING
    assert is_ready_to_finish(task(), verdict(Outcome.SUCCESS))
    with pytest.raises(ValueError, match="checked and pushed first"):
        end(Outcome.SUCCESS)


@given(st.sampled_from(Outcome), st.sampled_from(TaskState))
def test_a_task_that_somebody_moved_meanwhile_stays_where_it_is(outcome, state):
    if state is TaskState.RUNNING:
        return
    before = task(state)
    assert not is_ready_to_finish(before, verdict(outcome))
    step = decide_after_run(before, verdict(outcome), RunEndFacts(NOW), LIMITS)
    assert (step.task, step.effects) == (before, ())
    step = decide_after_error(before, git.DiskFull("x"), RunEndFacts(NOW), LIMITS)
    assert (step.task, step.effects) == (before, ())


@given(st.lists(st.sampled_from([o for o in Outcome if outcome_meaning(o).counted]), min_size=1))
def test_exits_without_progress_end_in_a_question(outcomes):
    before = task()
    for count, outcome in enumerate(outcomes, 1):
        step = end(outcome, before)
        if step.task.state is not TaskState.RETRYING:
            assert step.task.state in (TaskState.NEEDS_INPUT, TaskState.BLOCKED)
            return
        assert count < LIMITS.exits_without_progress
        before = replace(step.task, state=TaskState.RUNNING, attempt=before.attempt + 1)


def test_progress_starts_the_count_anew():
    before = task(exits_without_progress=2, progress="a")
    step = decide_after_run(before, verdict(Outcome.CRASH), RunEndFacts(NOW, progress="b"), LIMITS)
    assert (step.task.state, step.task.exits_without_progress) == (TaskState.RETRYING, 0)
    step = decide_after_run(before, verdict(Outcome.CRASH), RunEndFacts(NOW, progress="a"), LIMITS)
    assert step.task.state is TaskState.NEEDS_INPUT


def test_bad_results_end_in_a_question_whatever_else_changes():
    before = task()
    for number in range(1, LIMITS.exits_without_progress + 1):
        facts = RunEndFacts(NOW, progress=f"changed {number}")
        step = decide_after_run(before, verdict(Outcome.BAD_RESULT), facts, LIMITS)
        assert step.task.state is (
            TaskState.NEEDS_INPUT if number == LIMITS.exits_without_progress else TaskState.RETRYING
        )
        before = replace(step.task, state=TaskState.RUNNING)


def test_attempts_come_to_an_end():
    step = end(Outcome.CRASH, task(attempt=LIMITS.max_restarts))
    assert step.task.state is TaskState.FAILED and "Tried 100 times" in step.task.reason


@given(st.lists(st.sampled_from([Outcome.NETWORK, Outcome.SERVER_ERROR]), min_size=2, max_size=150))
def test_an_outage_counts_no_attempt_waits_longer_each_time_and_gives_nothing_up(outcomes):
    before, waits = task(attempt=LIMITS.max_restarts), []
    for outcome in outcomes:
        step = end(outcome, before)
        assert step.task.state is TaskState.RETRYING
        assert step.task.attempt == LIMITS.max_restarts - 1
        waits.append(parse_timestamp(step.task.wake_at) - NOW)
        before = replace(step.task, state=TaskState.RUNNING, attempt=LIMITS.max_restarts)
    hour = timedelta(hours=1)
    assert waits[0] == timedelta(seconds=LIMITS.restart_delay_seconds)
    assert all(b == min(a * 2, hour) for a, b in itertools.pairwise(waits))
    # Whatever else happens ends the outage.
    assert end(Outcome.CRASH, replace(before, attempt=2)).task.outages == 0


def test_an_outage_in_the_middle_of_work_is_an_attempt_like_others():
    before = task(attempt=LIMITS.max_restarts, progress="a", outages=7)
    facts = RunEndFacts(NOW, progress="b")
    step = decide_after_run(before, verdict(Outcome.SERVER_ERROR), facts, LIMITS)
    assert (step.task.state, step.task.outages) == (TaskState.FAILED, 0)
    step = decide_after_run(
        replace(before, attempt=3), verdict(Outcome.SERVER_ERROR), facts, LIMITS
    )
    assert (step.task.state, step.task.attempt) == (TaskState.RETRYING, 3)


@pytest.mark.parametrize("outcome", [Outcome.QUOTA, Outcome.AUTH, Outcome.CONFIG])
def test_who_waits_for_a_provider_or_an_operator_uses_up_no_attempts(outcome):
    assert end(outcome, task(attempt=4)).task.attempt == 3


def test_a_refused_request_in_an_old_conversation_is_tried_once_in_a_new_one():
    refused = verdict(Outcome.BAD_REQUEST)
    old = task(session="a-long-one")
    step = decide_after_run(old, refused, RunEndFacts(NOW, session="a-long-one"), LIMITS)
    assert (step.task.state, step.task.session) == (TaskState.RETRYING, "")
    fresh = replace(step.task, state=TaskState.RUNNING)
    step = decide_after_run(fresh, refused, RunEndFacts(NOW, session="a-new-one"), LIMITS)
    assert step.task.state is TaskState.BLOCKED


@pytest.mark.parametrize("outcome", [Outcome.RATE_LIMITED, Outcome.OVERLOADED])
def test_rate_limits_count_no_attempt_wait_longer_each_time_and_end(outcome):
    before, waits = task(attempt=4), []
    for _ in range(LIMITS.rate_limited_requeue_budget):
        step = end(outcome, before)
        assert (step.task.state, step.task.attempt) == (TaskState.PARKED, 3)
        assert step.task.exits_without_progress == 0
        waits.append(step.task.wake_at)
        before = replace(step.task, state=TaskState.RUNNING, attempt=4)
    assert waits == [format_timestamp(NOW + timedelta(minutes=number)) for number in range(1, 6)]
    step = end(outcome, before)
    assert (step.task.state, step.task.attempt) == (TaskState.BLOCKED, 3)
    assert step.task.reason.startswith("rate-limited requeues exhausted")


@given(
    st.floats(),
    st.sampled_from([Outcome.RATE_LIMITED, Outcome.OVERLOADED]),
)
def test_a_providers_word_makes_waits_longer_never_shorter(seconds, outcome):
    before = task()
    for number in range(1, LIMITS.rate_limited_requeue_budget + 1):
        signal = LimitSignal(outcome, retry_after_seconds=seconds)
        step = end(outcome, before, limit=signal)
        wait = parse_timestamp(step.task.wake_at) - NOW
        known = min(seconds, MAX_PARK.total_seconds()) if seconds > 0 else 0.0
        told = timedelta(seconds=known)
        assert abs(wait - max(timedelta(minutes=number), told)) <= timedelta(milliseconds=1)
        assert step.task.attempt == 0
        before = replace(step.task, state=TaskState.RUNNING, attempt=1)


@pytest.mark.parametrize(
    ("signal", "until"),
    [
        (LimitSignal(Outcome.QUOTA, retry_after_seconds=90), NOW + timedelta(seconds=90)),
        (
            LimitSignal(Outcome.QUOTA, resets_at=format_timestamp(NOW + timedelta(hours=5))),
            NOW + timedelta(hours=5),
        ),
        (LimitSignal(Outcome.QUOTA, resets_at="2126-01-01T00:00:00Z"), NOW + MAX_PARK),
        (LimitSignal(Outcome.QUOTA, resets_at="2006-01-01T00:00:00Z"), NOW + timedelta(minutes=1)),
        (LimitSignal(Outcome.QUOTA, resets_at="tomorrow"), NOW + timedelta(hours=1)),
        (LimitSignal(Outcome.QUOTA, retry_after_seconds=1e12), NOW + MAX_PARK),
    ],
)
def test_a_parked_task_wakes_when_its_limit_ends(signal, until):
    assert end(Outcome.QUOTA, limit=signal).task.wake_at == format_timestamp(until)


def test_a_bad_result_is_told_to_the_next_attempt():
    step = end(Outcome.BAD_RESULT, why="result.json is not JSON: x.")
    assert step.task.note == "result.json is not JSON: x."
    assert "result.json is not JSON" in render_status_comment(step.task)


def test_a_question_goes_to_where_the_talk_is():
    said = AgentResult.model_validate({"status": "needs_input", "question": "Which?"})
    (asked,) = end(Outcome.NEEDS_INPUT, result=said).effects
    assert isinstance(asked, QueueWrite) and asked.action.number == 12
    (asked,) = end(Outcome.NEEDS_INPUT, task(pr_number=15), result=said).effects
    assert isinstance(asked, QueueWrite) and asked.action.number == 15


def test_a_block_names_the_branch_and_blocks_the_pull_request():
    said = AgentResult.model_validate({"status": "blocked", "summary": "No access."})
    facts = RunEndFacts(NOW, kept_branch="agent/checkpoint/12-x")
    step = decide_after_run(
        task(pr_number=15), verdict(Outcome.BLOCKED, result=said), facts, LIMITS
    )
    comment, pull = step.effects
    assert isinstance(comment, QueueWrite) and "agent/checkpoint/12-x" in comment.action.body
    assert pull == SetPullStatus(PullStatus.BLOCKED)


ERRORS: list[tuple[HostlerError, ErrorAction]] = [
    (TestsFailed(RAN), ErrorAction.REPAIR),
    (DesignMissing("docs/design/1-x.md"), ErrorAction.REPAIR),
    (git.HistoryRewritten("base", "a" * 40, "b" * 40), ErrorAction.REPAIR),
    (git.WrongBranch("a", "b"), ErrorAction.REPAIR),
    (git.DetachedHead("a", "b" * 40), ErrorAction.REPAIR),
    (git.BranchDeleted("a"), ErrorAction.REPAIR),
    (git.UnfinishedMerge("rebase"), ErrorAction.REPAIR),
    (git.FilesTooLarge(["a"], 100), ErrorAction.REPAIR),
    (git.PushRaced("a", None, "b" * 40), ErrorAction.REPAIR),
    (git.PushUnverified("a", "b" * 40, None), ErrorAction.AGAIN),
    (git.DiskFull("x"), ErrorAction.AGAIN),
    (git.GitTimeout("push", 60), ErrorAction.AGAIN),
    (git.GitFailed("push", 1, "x"), ErrorAction.AGAIN),
    (git.RemoteUnreachable("https://x"), ErrorAction.AGAIN),
    (Unreachable("GET /x", "refused"), ErrorAction.AGAIN),
    (ServerFailed("GET /x", 502), ErrorAction.AGAIN),
    (RateLimited("GET /x", 403, NOW, "primary"), ErrorAction.AGAIN),
    (Gone("GET /x", 410, "This issue was deleted"), ErrorAction.STOP),
    (Moved("GET /x", 301, "https://x", 7), ErrorAction.STOP),
    (Unauthorized("GET /x", 401, "Bad credentials"), ErrorAction.OPERATOR),
    (git.PushRefused("a", "protected"), ErrorAction.BLOCK),
    (git.CheckoutTampered(Path("x"), "y"), ErrorAction.BLOCK),
    (git.CheckoutMissing("x"), ErrorAction.BLOCK),
    (git.RemoteDenied("https://x"), ErrorAction.OPERATOR),
    (git.RemoteMissing("https://x"), ErrorAction.OPERATOR),
    (git.RemoteMoved("https://x"), ErrorAction.OPERATOR),
    (git.BranchMissing("main", []), ErrorAction.OPERATOR),
    (git.GitMissing(), ErrorAction.OPERATOR),
    (git.GitTooOld("2.1"), ErrorAction.OPERATOR),
    (git.WorkWouldBeLost(Path("x"), ["a"]), ErrorAction.OPERATOR),
    (SetupFailed(RAN), ErrorAction.OPERATOR),
    (SecretRefused(["GH_TOKEN"]), ErrorAction.OPERATOR),
    (RunFilesFailed(Path("x"), OSError("full")), ErrorAction.OPERATOR),
]


@pytest.mark.parametrize(("error", "answer"), ERRORS, ids=lambda one: type(one).__name__)
def test_each_error_has_its_answer_and_people_read_what_to_do(error, answer):
    assert action_for_error(error) is answer
    step = decide_after_error(task(), error, RunEndFacts(NOW, finishing=True), LIMITS)
    expected = {
        ErrorAction.REPAIR: TaskState.RETRYING,
        ErrorAction.BLOCK: TaskState.BLOCKED,
        ErrorAction.STOP: TaskState.STOPPED,
    }.get(answer, TaskState.PARKED)
    assert step.task.state is expected
    assert error.what in render_status_comment(step.task)
    assert step.task.finishing == (expected is TaskState.PARKED)
    if answer is ErrorAction.REPAIR:
        assert error.what in step.task.note


@given(st.integers(-100_000, 100_000), st.integers(0, 10))
def test_a_limit_is_waited_out_but_never_for_longer_than_an_hour(seconds, requeues):
    until = NOW + timedelta(seconds=seconds)
    error = RateLimited("GET /x", 403, until, "primary")
    waiting = decide_after_error(task(requeues=requeues), error, RunEndFacts(NOW), LIMITS).task
    at = parse_timestamp(waiting.wake_at or "")
    assert NOW + timedelta(minutes=1) <= at <= NOW + timedelta(hours=1)
    assert at >= min(until, NOW + timedelta(hours=1))


def test_no_error_of_git_is_forgotten():
    def leaves(kind: type[HostlerError]) -> list[type[HostlerError]]:
        below = kind.__subclasses__()
        return [leaf for one in below for leaf in leaves(one)] if below else [kind]

    assert {type(error) for error, _ in ERRORS} >= set(leaves(CheckoutError))


@given(st.integers(0, 5), st.integers(0, 12))
def test_repair_rounds_end(rounds, turns):
    before = task(repair_rounds=rounds, pr_number=15)
    facts = RunEndFacts(NOW, turns_without_person=turns)
    state = decide_after_error(before, TestsFailed(RAN), facts, LIMITS).task.state
    if rounds >= LIMITS.repair_rounds:
        assert state is TaskState.BLOCKED
    elif turns >= LIMITS.pr_turns_without_person:
        assert state is TaskState.NEEDS_INPUT
    else:
        assert state is TaskState.RETRYING


@given(st.sampled_from(Flow), st.sampled_from(TaskState), st.booleans(), st.booleans())
def test_every_status_says_what_happens_next(flow, state, pull, wakes):
    text = render_status_comment(
        task(
            state,
            flow=flow,
            pr_number=15 if pull else None,
            wake_at=format_timestamp(NOW) if wakes else None,
            reason="{odd} reason",
        )
    )
    assert "*Next:*" in text and "{odd} reason" in text
    assert ("#15" in text) == pull


def test_only_three_states_are_over():
    assert {state for state in TaskState if task(state).over} == OVER


@pytest.mark.parametrize("flow", Flow)
def test_pull_requests_refer_to_their_issue(flow):
    body = pull_body(task(flow=flow), AgentResult(status="done", pr_body="Closes: #12, fixes #120"))
    if flow is Flow.DESIGN:
        assert "Refs: #12, fixes #120" in body and "\n\nRefs #12" in body
    else:
        assert body.endswith("Fixes #12")


def test_titles_and_messages_have_a_fallback():
    assert pull_title(task(), None) == "Crash"
    assert commit_message(task(), None) == "Crash\n\nRefs #12"
    assert commit_message(task(), AgentResult(status="done", commit_message="Mend")) == "Mend"

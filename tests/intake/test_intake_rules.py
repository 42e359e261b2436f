"""The pure rules, for anything that anybody may do."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.checkouts.names import require_path_component
from hostler.config.settings import Repo
from hostler.forge.actions import require_token
from hostler.forge.port import ItemKind
from hostler.intake.decisions import decide, needs_labeller
from hostler.intake.model import (
    AddFeedback,
    ChangeTaskState,
    CommentEvent,
    IntakeDecision,
    IssueEvent,
    PullEvent,
    RedirectComment,
    SetPullState,
    StartTask,
    TakeOverTask,
    ThreadState,
    UnreadableEvent,
    UpdateTaskIssue,
    parse_event,
)
from hostler.intake.process import TAKEN_OVER
from hostler.intake.repo_policy import RepoPolicy, build_repo_policy, find_flow
from hostler.model import RepoName
from hostler.store.inbox import InboxRow
from hostler.store.pull_requests import Floors, PullRow, PullStatus
from hostler.store.tasks import OVER, Flow, Task, TaskState, task_id

ANN, MALLORY = "ann", "mallory"
WATCH = RepoPolicy(RepoName("octo", "stable"), "stable", frozenset({ANN}))
LABELS = ["agent:bugfix", "agent:small-job", "agent:design", "agent:ignore", "other"]
STAMP = "2026-01-01T00:00:00.000Z"
SPEAKING = (ItemKind.ISSUE_COMMENT, ItemKind.REVIEW_COMMENT, ItemKind.REVIEW)


def row(kind: str, author: str = ANN, number: int = 1, **payload: Any) -> InboxRow:
    return InboxRow(
        "octo/stable", f"{kind}:9:x", kind, number, 9, author, STAMP, json.dumps(payload)
    )


def issue(author: str = ANN, labels: tuple[str, ...] = (), **more: Any) -> IssueEvent:
    given = {"title": "t", "body": "b", "is_open": True, "is_pull": False} | more
    return IssueEvent(row("issue", author), labels=frozenset(labels), **given)


def task(state: TaskState = TaskState.QUEUED, **more: Any) -> Task:
    base = Task(
        "id", "stable", "octo/stable", 1, Flow.BUGFIX, "t", ANN, state, STAMP, 1, body_digest="d"
    )
    return replace(base, **more)


people = st.sampled_from([ANN, "Ann", MALLORY, "eve", "renovate[bot]", "ghost"])
strangers = st.sampled_from([MALLORY, "eve", "renovate[bot]", "ghost", "ann2", ""])
label_sets = st.lists(st.sampled_from(LABELS), max_size=5).map(tuple)
states = st.sampled_from(TaskState)
tasks = st.lists(st.builds(task, states, pr_number=st.none() | st.just(5)), max_size=2).map(tuple)
pulls = st.builds(
    PullRow,
    st.just("octo/stable"),
    st.just(5),
    st.just(1),
    st.just("id"),
    st.just("b"),
    st.sampled_from(PullStatus),
)
knowns = st.builds(
    ThreadState,
    tasks=tasks,
    pull=st.none() | pulls,
    pull_task=st.none() | st.builds(task, states, pr_number=st.just(5)),
    issue=st.none() | st.builds(issue),
    labellers=st.none() | st.dictionaries(st.sampled_from(LABELS), strangers),
    floors=st.builds(
        Floors, st.integers(0, 20), st.integers(0, 20), st.sampled_from(["", STAMP, TAKEN_OVER])
    ),
    pull_opening=st.booleans(),
    is_newest=st.booleans(),
    is_first=st.booleans(),
    delivered=st.booleans(),
    redirected=st.booleans(),
)
said = st.builds(
    lambda kind, body: CommentEvent(row(kind, ANN), body, "", 9),
    st.sampled_from(SPEAKING),
    st.just("do"),
)
remarks = st.builds(
    lambda kind, author, body, verdict: CommentEvent(row(kind, author), body, verdict, 9),
    st.sampled_from(SPEAKING),
    strangers,
    st.sampled_from(["do it", "/hostler stop", "", "<!-- hostler:action=x -->"]),
    st.sampled_from(["", "APPROVED", "CHANGES_REQUESTED", "DISMISSED"]),
)
issues = st.builds(
    lambda author, labels, open_, pull: issue(author, labels, is_open=open_, is_pull=pull),
    strangers,
    label_sets,
    st.booleans(),
    st.booleans(),
)


def spends(decision: IntakeDecision) -> list[object]:
    """Effects that lead to an agent's start."""
    waking = (TaskState.QUEUED, TaskState.RUNNING, TaskState.RETRYING)
    return [
        effect
        for effect in decision.effects
        if isinstance(effect, StartTask | AddFeedback | RedirectComment)
        or (isinstance(effect, ChangeTaskState) and effect.state in waking)
    ]


@given(st.one_of(issues, remarks), knowns)
def test_nothing_that_strangers_do_starts_an_agent(signal, known):
    """Whatever is known already: a stranger's issue, label, comment, edit or review."""
    assert spends(decide(signal, known, WATCH)) == []


@given(issues, knowns)
def test_a_strangers_new_text_is_never_taken_for_approved(signal, known):
    decision = decide(signal, known, WATCH)
    if any(isinstance(effect, UpdateTaskIssue) for effect in decision.effects):
        moves = [effect for effect in decision.effects if isinstance(effect, ChangeTaskState)]
        assert [move.state for move in moves] == [TaskState.NEEDS_INPUT]


@given(label_sets)
def test_ignore_beats_bugfix_beats_small_job_beats_design(labels):
    decision = decide(issue(ANN, labels), ThreadState(), WATCH)
    begun = [effect.flow for effect in decision.effects if isinstance(effect, StartTask)]
    if "agent:ignore" in labels:
        assert begun == []
    elif "agent:bugfix" in labels:
        assert begun == [Flow.BUGFIX]
    elif "agent:small-job" in labels:
        assert begun == [Flow.SMALL_JOB]
    else:
        assert begun == ([Flow.DESIGN] if "agent:design" in labels else [])


@given(st.one_of(issues, remarks, st.builds(issue, people, label_sets)), knowns)
def test_every_decision_has_a_reason_and_waits_only_without_effect(signal, known):
    decision = decide(signal, known, WATCH)
    assert decision.reason.endswith((".", "?"))
    assert not (decision.waits and decision.effects)


@given(st.builds(issue, people, label_sets), knowns)
def test_what_is_over_stays_over_and_a_known_issue_gets_no_second_task(signal, known):
    for effect in decide(signal, known, WATCH).effects:
        if isinstance(effect, ChangeTaskState):
            assert effect.task.state not in OVER
        if isinstance(effect, StartTask):
            assert known.tasks == ()


@given(st.booleans(), st.booleans(), knowns)
def test_only_a_merge_leads_out_of_stopped(is_open, merged, known):
    seen = PullEvent(row("pull", number=5), is_open, merged, "a" * 40)
    for effect in decide(seen, known, WATCH).effects:
        if isinstance(effect, ChangeTaskState) and effect.task.state in OVER:
            assert merged and effect.state is TaskState.DONE
        if isinstance(effect, SetPullState):
            assert not effect.pull.final


@given(label_sets, label_sets, states.filter(lambda state: state is not TaskState.DONE))
def test_a_merged_design_begins_its_implementation_unless_ignore_is_on_either(
    of_issue, of_pull, state
):
    design = task(state, flow=Flow.DESIGN, pr_number=5)
    pull = PullRow("octo/stable", 5, 1, "id", "b", PullStatus.AWAITING_FEEDBACK)
    known = ThreadState(tasks=(design,), pull=pull, pull_task=design, issue=issue(labels=of_issue))
    seen = PullEvent(row("pull", number=5), False, True, "a" * 40, frozenset(of_pull), STAMP)
    begun = [
        effect for effect in decide(seen, known, WATCH).effects if isinstance(effect, StartTask)
    ]
    assert bool(begun) == ("agent:ignore" not in {*of_issue, *of_pull})


@given(said, knowns)
def test_words_of_a_takeover_are_never_told(signal, known):
    decision = decide(signal, replace(known, floors=Floors(comments_since=TAKEN_OVER)), WATCH)
    assert not decision.waits and not decision.effects


@given(said, knowns)
def test_words_are_held_for_a_block_and_for_nothing_else(signal, known):
    decision = decide(signal, known, WATCH)
    tasks = [task for task in (known.pull_task, known.current_task) if task is not None]
    stuck = any(task.state is TaskState.BLOCKED for task in tasks)
    stuck = stuck or (known.pull is not None and known.pull.status is PullStatus.BLOCKED)
    if decision.held:
        assert stuck and decision.waits and not decision.effects


@given(said, knowns)
def test_words_on_what_is_over_are_neither_told_nor_held(signal, known):
    closed = known.pull is not None and known.pull.final
    over = known.pull_task is not None and known.pull_task.over
    if known.pull is not None and known.pull_task is not None and (closed or over):
        decision = decide(signal, known, WATCH)
        assert not decision.waits and not decision.effects


@given(knowns.filter(lambda known: known.is_newest), st.booleans())
def test_words_on_an_issue_with_a_pull_request_are_told_redirected_or_were_before(known, first):
    """Nothing that is seen for the first time is dropped, whatever the floors say."""
    alive = task(TaskState.AWAITING_FEEDBACK, pr_number=5)
    floors = replace(known.floors, comments_since="")
    fresh = replace(known, tasks=(alive,), pull=None, pull_task=None, floors=floors, is_first=first)
    if first:
        fresh = replace(fresh, delivered=False, redirected=False)
    decision = decide(CommentEvent(row(ItemKind.ISSUE_COMMENT), "do", "", 9), fresh, WATCH)
    kinds = [type(effect) for effect in decision.effects]
    assert kinds in ([AddFeedback], [RedirectComment], [])
    if first:
        assert kinds
    if fresh.delivered:
        assert kinds == [AddFeedback]
    elif fresh.redirected:
        assert kinds == []


@given(st.builds(issue, people, st.just(("agent:ignore",))), knowns)
def test_what_carries_the_label_is_stopped_and_taken_over(signal, known):
    if known.is_newest:
        effects = decide(signal, known, WATCH).effects
        moved = {effect.task.id for effect in effects if isinstance(effect, ChangeTaskState)}
        assert moved == {one.id for one in known.tasks if not one.over}
        assert [one.task for one in effects if isinstance(one, TakeOverTask)] == list(known.tasks)


@given(people, label_sets)
def test_who_labelled_is_asked_only_where_it_decides(author, labels):
    seen = issue(author, labels)
    waits = decide(seen, ThreadState(), WATCH).waits
    assert waits == needs_labeller(seen, WATCH)


@given(st.sampled_from(list(ItemKind)), st.text(max_size=60))
def test_any_payload_is_read_or_named_unreadable(kind, text):
    found = parse_event(replace(row(kind.value), payload=text))
    assert isinstance(found, UnreadableEvent | CommentEvent | IssueEvent | PullEvent)


@pytest.mark.parametrize(
    ("labels", "flow"),
    [(["AGENT:BUGFIX"], Flow.BUGFIX), (["agent:bug"], None), ([], None)],
)
def test_labels_are_read_without_regard_to_case(labels, flow):
    found = find_flow(WATCH, labels)
    assert (found[1] if found else None) is flow


def test_settings_become_a_watch():
    made = build_repo_policy(
        "stable", Repo(owner="octo", name="stable", allowed_users=["Ann", "bob"])
    )
    assert made.allows("ANN") and made.allows("Bob") and not made.allows("ann2")


def test_ids_of_tasks_sort_by_age_and_fit_into_folders_and_tokens():
    made = task_id(datetime(2026, 3, 1, 23, 59, 58, tzinfo=UTC), "Odd--Name_./x", 12, "small_job")
    assert made == "20260301-235958-odd-name-x-12-small-job"
    assert require_path_component(made) and require_token(f"status:{made}:1")

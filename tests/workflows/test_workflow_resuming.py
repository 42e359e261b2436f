"""Going on by hand: every refusal, stale events, words that wait; on a database."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from intake_yard import BUGFIX, IGNORE, Yard
from workflow_farm import SCOPES

from hostler.errors import Unreachable
from hostler.forge.github.polling.poller import scan_repository
from hostler.forge.port import Pull
from hostler.model import Surface
from hostler.store.operator import AuditAction, audit_entries_of
from hostler.store.pull_requests import PullRow, PullStatus, add_pull, change_pull, pulls_in
from hostler.store.repositories import Repo
from hostler.store.tasks import Flow, Task, TaskState, require_task
from hostler.workflows import commands
from hostler.workflows.effects import apply_transition, handle_settled_write
from hostler.workflows.ingest import ingest_events, start_issue_now
from hostler.workflows.outcomes import to_blocked
from hostler.workflows.resume import (
    BlockedTaskResetter,
    NoSuchPull,
    NotResumed,
    PullSnapshot,
    ResumeRequest,
    check_local,
    check_remote,
    find_own_pull,
    list_blocked,
    resume_pull,
    unblock,
)
from hostler.workflows.turns import add_conversation, load_turn_input

SHA, OTHER_SHA = "1" * 40, "2" * 40
ORDER = ResumeRequest("ann")


def poll(yard: Yard) -> None:
    yard.tick()
    with yard.store.read() as tx:
        watched = [pull.pr_number for pull in pulls_in(tx, yard.name)]
    scan_repository(yard.store, yard.hub, yard.name, pulls=watched, settled=handle_settled_write)
    ingest_events(yard.store, yard.hub, yard.watch)


def with_pull(yard: Yard) -> int:
    yard.file("Crash", "ann", BUGFIX)
    poll(yard)
    return yard.open_pull(yard.task())


def closed(yard: Yard) -> int:
    """A pull request that was closed, and is open again on GitHub."""
    pull = with_pull(yard)
    yard.change(pull, state="closed")
    poll(yard)
    assert (yard.task().state, yard.pull(pull).status) == (TaskState.STOPPED, PullStatus.CLOSED)
    yard.change(pull, state="open")
    poll(yard)
    assert yard.pull(pull).status is PullStatus.CLOSED
    return pull


def blocked_pull(yard: Yard) -> int:
    pull = with_pull(yard)
    block_task(yard)
    return pull


def block_task(yard: Yard) -> None:
    """As the rules do it, after a run."""
    task = yard.set(yard.task(), state=TaskState.RUNNING)
    with yard.store.write(*SCOPES) as tx:
        apply_transition(tx, task, to_blocked(task, "The push was refused.", ""))


def resume(yard: Yard, pull: int, **order: object):
    yard.tick()
    return resume_pull(yard.store, yard.hub, yard.watch, pull, replace(ORDER, **order))


def reset(yard: Yard, **order: object) -> Task:
    yard.tick()
    return unblock(yard.store, yard.hub, yard.watch, yard.task(), replace(ORDER, **order))


def bodies(yard: Yard) -> list[str]:
    texts = {str(one["id"]): one["body"] for one in yard.hub.comments.values()}
    return [texts[key.split(":")[1]] for key in yard.waiting(yard.task())]


# Resume.


def test_a_closed_and_reopened_pull_request_awaits_feedback_again(yard: Yard):
    pull = closed(yard)
    yard.hub.pulls[pull]["head"]["sha"] = OTHER_SHA
    done = resume(yard, pull)
    assert done.changed
    assert (yard.pull(pull).status, yard.pull(pull).last_seen_head_sha) == (
        PullStatus.AWAITING_FEEDBACK,
        OTHER_SHA,
    )
    task = yard.task()
    assert (task.state, task.pr_number) == (TaskState.AWAITING_FEEDBACK, pull)
    with yard.store.read() as tx:
        assert [one.what for one in audit_entries_of(tx, task.id)] == [AuditAction.RESUMED]
    yard.say(pull, "go on", by="ann")
    poll(yard)
    assert bodies(yard) == ["go on"] and yard.task().state is TaskState.QUEUED


def test_resuming_again_changes_nothing(yard: Yard):
    pull = closed(yard)
    resume(yard, pull)
    before = yard.task(), yard.pull(pull)
    assert not resume(yard, pull).changed
    assert (yard.task(), yard.pull(pull)) == before


def test_an_older_version_that_says_closed_comes_too_late(yard: Yard):
    pull = with_pull(yard)
    yard.change(pull, state="closed")
    poll(yard)
    # Closed once more in between, and read, but not looked at yet.
    yard.change(pull, state="open")
    yard.change(pull, state="closed", title="again")
    with yard.store.write(*SCOPES) as tx:
        row = yard.pull(pull)
        change_pull(tx, row, replace(row, status=PullStatus.BLOCKED))
    yard.read()
    with yard.store.write(*SCOPES) as tx:
        change_pull(tx, yard.pull(pull), row)
    yard.change(pull, state="open")
    resume(yard, pull)
    poll(yard)
    assert yard.pull(pull).status is PullStatus.AWAITING_FEEDBACK
    assert yard.task().state is TaskState.AWAITING_FEEDBACK


def test_words_said_while_it_was_closed_are_told_a_bounded_way_back(yard: Yard):
    pull = closed(yard)
    yard.say(pull, "long ago", by="ann")
    poll(yard)
    yard.clock.advance(7200)
    yard.say(pull, "please go on", by="ann")
    yard.say(pull, "no", by="mallory")
    yard.hub.review_line(pull, "and here", by="bob")
    poll(yard)
    assert yard.waiting(yard.task()) == []
    done = resume(yard, pull, backfill=timedelta(hours=1))
    assert done.task.state is TaskState.QUEUED
    kinds = sorted(key.split(":")[0] for key in yard.waiting(yard.task()))
    assert kinds == ["issue_comment", "review_comment"]


def test_what_was_answered_before_is_not_told_again(yard: Yard):
    pull = with_pull(yard)
    yard.say(pull, "old", by="ann")
    poll(yard)
    with yard.store.write() as tx:
        tx.constant("UPDATE feedback_events SET processed_at = '2026-01-01T00:00:00.000Z'")
    yard.set(yard.task(), state=TaskState.AWAITING_FEEDBACK)
    yard.change(pull, state="closed")
    poll(yard)
    yard.change(pull, state="open")
    assert resume(yard, pull).task.state is TaskState.AWAITING_FEEDBACK
    assert bodies(yard) == []


def test_words_that_waited_when_it_was_closed_get_their_turn(yard: Yard):
    pull = with_pull(yard)
    yard.say(pull, "unanswered", by="ann")
    poll(yard)
    yard.change(pull, state="closed")
    poll(yard)
    yard.change(pull, state="open")
    assert resume(yard, pull).task.state is TaskState.QUEUED
    assert bodies(yard) == ["unanswered"]


def test_the_thread_is_to_be_read_again(yard: Yard):
    pull = closed(yard)
    with yard.store.write() as tx:
        Repo(yard.name).upsert_poll_cursor(
            tx,
            Surface.PR_ISSUE_COMMENTS,
            pull,
            last_updated_at="2026-01-01T00:00:00Z",
            last_comment_id=1,
            bootstrap_complete=True,
        )
    resume(yard, pull)
    with yard.store.read() as tx:
        cursor = Repo(yard.name).get_poll_cursor(tx, Surface.PR_ISSUE_COMMENTS, pull)
    assert cursor is not None and not cursor.bootstrap_complete


def test_a_stopped_task_goes_on_with_its_open_pull_request(yard: Yard):
    pull = with_pull(yard)
    with yard.store.write(*SCOPES) as tx:
        commands.stop_task(tx, yard.task(), "bob")
    assert resume(yard, pull).task.state is TaskState.AWAITING_FEEDBACK


def test_after_a_takeover_only_words_from_the_resume_on_are_told(yard: Yard):
    pull = with_pull(yard)
    yard.label(1, IGNORE, "bob")
    yard.say(pull, "during", by="ann")
    poll(yard)
    yard.change(pull, state="closed")
    poll(yard)
    with pytest.raises(NotResumed, match="closed on GitHub"):
        resume(yard, pull)
    yard.change(pull, state="open")
    with pytest.raises(NotResumed, match=r"octo/stable#1 has the label agent:ignore"):
        resume(yard, pull)
    yard.change(1, labels=[{"name": BUGFIX}])
    resume(yard, pull)
    poll(yard)
    assert bodies(yard) == []
    yard.say(pull, "after", by="ann")
    poll(yard)
    assert bodies(yard) == ["after"]


@pytest.mark.parametrize("again", [commands.resume_task, commands.retry_task])
def test_a_task_that_is_resumed_after_a_takeover_hears_what_is_said_then(yard: Yard, again):
    pull = with_pull(yard)
    yard.say(pull, "before", by="ann")
    poll(yard)
    yard.label(1, IGNORE, "bob")
    yard.say(pull, "during", by="ann")
    poll(yard)
    with yard.store.write(*SCOPES) as tx:
        again(tx, yard.task(), "ann")
    poll(yard)
    assert bodies(yard) == []
    yard.say(pull, "after", by="ann")
    poll(yard)
    assert bodies(yard) == ["after"]


def test_the_conversation_before_the_end_of_a_takeover_is_not_shown(yard: Yard):
    yard.file("Crash", "ann", BUGFIX)
    yard.say(1, "before", by="ann")
    poll(yard)
    yard.label(1, IGNORE, "bob")
    yard.say(1, "during", by="ann")
    poll(yard)
    yard.change(1, labels=[{"name": BUGFIX}])
    yard.tick()
    start_issue_now(yard.store, yard.watch, yard.hub.issue(1), at=yard.hub.now())
    yard.say(1, "after", by="ann")
    with yard.store.read() as tx:
        whole = add_conversation(load_turn_input(tx, yard.task()), yard.watch, yard.hub.thread(1))
    assert [one.body for one in (*whole.comments, *whole.conversation)] == ["after"]


def test_the_label_on_the_pull_request_itself_counts_too(yard: Yard):
    pull = closed(yard)
    yard.hub.issues[pull]["labels"] = [{"name": "Agent:Ignore"}]
    with pytest.raises(NotResumed, match="users have taken over"):
        resume(yard, pull)


def test_merged_is_final_here_and_there(yard: Yard):
    pull = closed(yard)
    yard.hub.merge(pull)
    with pytest.raises(NotResumed, match="already merged"):
        resume(yard, pull)
    row = yard.pull(pull)
    with yard.store.write() as tx:
        change_pull(tx, row, replace(row, status=PullStatus.MERGED))
    yard.hub.pulls.clear()  # GitHub is not even asked
    with pytest.raises(NotResumed, match="already merged"):
        resume(yard, pull)


def test_another_head_than_the_one_that_was_seen_is_refused(yard: Yard):
    pull = closed(yard)
    with pytest.raises(NotResumed, match=f"is {SHA}, not {OTHER_SHA}"):
        resume(yard, pull, head_sha=OTHER_SHA)
    assert yard.pull(pull).status is PullStatus.CLOSED
    assert resume(yard, pull, head_sha=SHA.upper()).changed


def test_a_task_that_has_begun_anew_keeps_its_new_pull_request(yard: Yard):
    pull = closed(yard)
    yard.set(yard.task(), state=TaskState.QUEUED, pr_number=None)
    with pytest.raises(NotResumed, match="was started again"):
        resume(yard, pull)
    new = yard.open_pull(yard.task(), "agent/bugfix/1-again")
    with pytest.raises(NotResumed, match=f"continues with pull request {new}"):
        resume(yard, pull)


def test_what_cannot_be_found_any_more_is_said(yard: Yard):
    pull = closed(yard)
    del yard.hub.pulls[pull]
    with pytest.raises(NotResumed, match="no longer exists on GitHub"):
        resume(yard, pull)
    with yard.store.write() as tx:
        tx.constant("DELETE FROM tasks")
    with pytest.raises(NotResumed, match="was deleted"):
        resume(yard, pull)


def test_a_deleted_issue_is_no_hindrance(yard: Yard):
    pull = closed(yard)
    del yard.hub.issues[1]
    assert resume(yard, pull).changed


def test_nothing_is_changed_while_github_does_not_answer(yard: Yard, monkeypatch):
    pull = closed(yard)
    before = yard.task(), yard.pull(pull)

    def silent(number: int) -> object:
        raise Unreachable("GET pull", "down")

    monkeypatch.setattr(yard.hub, "pull", silent)
    with pytest.raises(Unreachable):
        resume(yard, pull)
    assert (yard.task(), yard.pull(pull)) == before


def test_which_pull_request_is_meant(yard: Yard):
    pull = with_pull(yard)
    with yard.store.write() as tx:
        assert find_own_pull(tx, pull) == find_own_pull(tx, pull, "OCTO/Stable")
        with pytest.raises(
            NoSuchPull, match="Pull request 99 was not opened by Hostler"
        ) as unknown:
            find_own_pull(tx, 99)
        with pytest.raises(NoSuchPull, match="Pull request 2 of octo/barn was not") as elsewhere:
            find_own_pull(tx, pull, "octo/barn")
        assert "Hostler opened one in octo/stable" in elsewhere.value.remedy
        add_pull(tx, replace(yard.pull(pull), repo_full_name="octo/barn"))
        with pytest.raises(NoSuchPull, match="octo/barn and octo/stable") as several:
            find_own_pull(tx, pull)
        assert "--repo octo/barn" in several.value.remedy
    assert unknown.value.exit_code == several.value.exit_code == 2


# Blocked.


def test_a_block_stands_on_task_and_pull_request(yard: Yard):
    pull = blocked_pull(yard)
    assert (yard.task().state, yard.pull(pull).status) == (TaskState.BLOCKED, PullStatus.BLOCKED)


def test_the_end_of_a_block_tells_what_was_said_meanwhile_once(yard: Yard):
    pull = blocked_pull(yard)
    yard.say(pull, "try again", by="ann")
    poll(yard)
    assert bodies(yard) == []
    task = reset(yard)
    assert (task.state, yard.pull(pull).status) == (TaskState.QUEUED, PullStatus.AWAITING_FEEDBACK)
    assert bodies(yard) == ["try again"]
    poll(yard)
    assert bodies(yard) == ["try again"]


def test_without_words_it_awaits_feedback(yard: Yard):
    pull = blocked_pull(yard)
    assert reset(yard).state is TaskState.AWAITING_FEEDBACK
    with pytest.raises(NotResumed, match="no longer blocked"):
        reset(yard)
    assert yard.pull(pull).status is PullStatus.AWAITING_FEEDBACK


def test_words_of_the_turn_that_was_blocked_get_another_turn(yard: Yard):
    pull = with_pull(yard)
    yard.say(pull, "rename it", by="ann")
    poll(yard)
    block_task(yard)
    assert reset(yard).state is TaskState.QUEUED
    assert bodies(yard) == ["rename it"]


def test_a_blocked_issue_without_a_pull_request_is_queued_with_its_words(yard: Yard):
    yard.file("Crash", "ann", BUGFIX)
    poll(yard)
    block_task(yard)
    yard.say(1, "the key is mended", by="ann")
    poll(yard)
    assert reset(yard).state is TaskState.QUEUED
    assert bodies(yard) == ["the key is mended"]


@pytest.mark.parametrize("end", ["closed", "merged"])
def test_what_is_over_on_github_is_not_reset(yard: Yard, end: str):
    pull = blocked_pull(yard)
    if end == "closed":
        yard.change(pull, state="closed")
    else:
        yard.hub.merge(pull)
    with pytest.raises(NotResumed) as refused:
        reset(yard)
    assert refused.value.closed
    assert (yard.task().state, yard.pull(pull).status) == (TaskState.BLOCKED, PullStatus.BLOCKED)
    poll(yard)
    assert yard.pull(pull).status.value == end


def test_what_is_blocked_since_when_and_how_many_words_wait(yard: Yard):
    pull = blocked_pull(yard)
    yard.say(pull, "one", by="ann")
    yard.say(1, "two", by="bob")
    yard.say(pull, "three", by="mallory")
    yard.file("Other", "ann", BUGFIX)
    poll(yard)
    with yard.store.read() as tx:
        (one,) = list_blocked(tx)
        assert list_blocked(tx, yard.name) == [one]
    assert (one.name, one.waiting) == (f"octo/stable#{pull}", 2)
    assert one.remedy == f"hostler feedback blocked reset --pr {pull} --repo octo/stable"
    assert one.task.reason == "The push was refused."


def test_several_go_on_each_by_itself(yard: Yard):
    pull = blocked_pull(yard)
    yard.change(pull, state="closed")
    yard.file("Other", "ann", BUGFIX)
    poll_without_pulls(yard)
    with yard.store.write(*SCOPES) as tx:
        task = require_task(tx, yard.tasks()[-1].id)
        apply_transition(tx, task, to_blocked(task, "No key.", ""))
    watches = {yard.name: yard.watch}
    with yard.store.read() as tx:
        found = list_blocked(tx)
    for dry in (True, False):
        resetter = BlockedTaskResetter(yard.store, lambda _: yard.hub, watches, ORDER, dry)
        first, second = (resetter.reset(one) for one in found)
        assert first.task is None and first.closed and "is closed on GitHub" in first.why
        assert second.task is not None
        expected = TaskState.BLOCKED if dry else TaskState.QUEUED
        assert yard.tasks()[-1].state is expected is second.task.state
    stranger = BlockedTaskResetter(yard.store, lambda _: yard.hub, {}, ORDER).reset(found[0])
    assert stranger.why == "octo/stable is no longer watched."


def poll_without_pulls(yard: Yard) -> None:
    yard.tick()
    scan_repository(yard.store, yard.hub, yard.name, settled=handle_settled_write)
    ingest_events(yard.store, yard.hub, yard.watch)


# The rules, for anything.

pulls = st.builds(
    lambda status: PullRow("octo/stable", 5, 1, "id", "b", status), st.sampled_from(PullStatus)
)
tasks = st.builds(
    lambda state, pull: Task(
        "id", "p", "octo/stable", 1, Flow.BUGFIX, "t", "ann", state, "", 1, pr_number=pull
    ),
    st.sampled_from(TaskState),
    st.sampled_from([None, 5, 6]),
)
standings = st.builds(
    PullSnapshot, pulls, st.none() | tasks, st.booleans(), st.sampled_from([None, 6])
)
theirs = st.builds(
    lambda state, merged, sha: Pull(
        5, "t", "", state, merged, False, "us", "b", sha, "main", None, "", ""
    ),
    st.sampled_from(["open", "closed"]),
    st.booleans(),
    st.sampled_from([SHA, OTHER_SHA]),
)


@given(standings)
def test_nothing_goes_on_that_is_final_or_elsewhere(here):
    if check_local(here) is None:
        assert here.pull.status is not PullStatus.MERGED
        assert here.task is not None and here.task.state is not TaskState.DONE
        assert here.current is None
        assert here.task.over or here.task.pr_number == 5
        assert not here.has_open_run or here.is_watched


@given(standings, theirs, st.sampled_from(["", SHA, OTHER_SHA]))
def test_only_what_is_open_and_as_it_was_seen_goes_on(here, there, sha):
    refused = check_remote(here, there, sha)
    good = there.state == "open" and not there.merged and sha in ("", there.head_sha)
    assert (refused is None) == good
    if refused is not None:
        assert refused.closed == (there.merged or there.state != "open")

"""Floors, blocks and takeovers: what is told, what waits, what is let go; on a database."""

from __future__ import annotations

from dataclasses import replace

import pytest
from intake_yard import BUGFIX, DESIGN, IGNORE, Yard

from hostler.forge.port import ItemKind
from hostler.intake.manual_start import start_issue
from hostler.intake.process import TAKEN_OVER, ProcessResult, end_takeover, truncate_to_second
from hostler.store.inbox import count_held, pending_inbox_rows
from hostler.store.outbox import OutboxRow, open_writes
from hostler.store.pull_requests import Floors, PullStatus, change_pull, comment_floors
from hostler.store.tasks import Flow, TaskState


def redirects(yard: Yard) -> list[OutboxRow]:
    with yard.store.read() as tx:
        return [row for row in open_writes(tx) if row.token.startswith("redirect")]


def floors(yard: Yard, issue: int = 1) -> Floors:
    with yard.store.read() as tx:
        return comment_floors(tx, yard.name, issue)


def with_pull(yard: Yard) -> int:
    """Issue 1, at work, and its pull request."""
    yard.file("Crash", "ann", BUGFIX)
    yard.poll()
    return yard.open_pull(yard.task())


def block(yard: Yard, pull: int) -> None:
    row = yard.pull(pull)
    with yard.store.write("tasks") as tx:
        change_pull(tx, row, replace(row, status=PullStatus.BLOCKED))
    yard.set(yard.task(), state=TaskState.BLOCKED)


def go_on(yard: Yard, pull: int) -> None:
    row = yard.pull(pull)
    with yard.store.write("tasks") as tx:
        change_pull(tx, row, replace(row, status=PullStatus.AWAITING_FEEDBACK))
    yard.set(yard.task(), state=TaskState.AWAITING_FEEDBACK)


def wake(yard: Yard, number: int = 1) -> None:
    """`hostler run`, with GitHub's time as it is."""
    yard.tick()
    with yard.store.write("tasks", "outbox") as tx:
        start_issue(tx, yard.watch, yard.hub.issue(number), at=yard.hub.now())


def words(yard: Yard) -> list[str]:
    """What waits for the agent, by its text."""
    task = yard.task()
    bodies = {f"{one['id']}": one["body"] for one in yard.hub.comments.values()}
    return [bodies[key.split(":")[1]] for key in yard.waiting(task)]


def looked_at(taken: ProcessResult, number: int) -> int:
    return sum(event.number == number for event in taken.events)


# Floors.


def test_floors_rise_with_what_is_told_and_what_is_redirected(yard: Yard):
    yard.file("Crash", "ann", BUGFIX)
    early = yard.say(1, "only on Linux")
    yard.poll()
    assert floors(yard) == Floors(pre_pr_last_consumed_comment_id=early)
    yard.open_pull(yard.task())
    late = yard.say(1, "and on BSD", by="bob")
    yard.poll()
    assert floors(yard) == Floors(early, late)


def test_a_comment_below_the_floor_that_is_seen_late_is_redirected_all_the_same(yard: Yard):
    with_pull(yard)
    first = yard.say(1, "one", by="ann")
    hidden = yard.hub.comments.pop(first)
    yard.say(1, "two", by="bob")
    yard.poll()
    assert len(redirects(yard)) == 1
    yard.hub.comments[first] = hidden
    yard.poll()
    assert len(redirects(yard)) == 2
    assert floors(yard).post_pr_last_redirected_comment_id > first
    yard.tick()
    yard.hub.edit(ItemKind.ISSUE_COMMENT, first, "one, better")
    yard.poll()
    assert len(redirects(yard)) == 2


def test_a_comment_from_before_the_pull_request_that_is_seen_late_is_told(yard: Yard):
    yard.file("Crash", "ann", BUGFIX)
    first = yard.say(1, "one", by="ann")
    hidden = yard.hub.comments.pop(first)
    yard.say(1, "two", by="bob")
    yard.poll()
    yard.open_pull(yard.task())
    yard.hub.comments[first] = hidden
    yard.poll()
    assert words(yard) == ["one", "two"] and redirects(yard) == []


def test_an_edit_of_redirected_words_is_not_told_because_later_ones_were_an_answer(yard: Yard):
    with_pull(yard)
    sent = yard.say(1, "over here?", by="ann")
    yard.poll()
    yard.set(yard.task(), state=TaskState.NEEDS_INPUT, question="Which one?")
    yard.say(1, "The second.", by="bob")
    yard.poll()
    assert words(yard) == ["The second."]
    yard.tick()
    yard.hub.edit(ItemKind.ISSUE_COMMENT, sent, "over here!")
    yard.poll()
    assert words(yard) == ["The second."] and len(redirects(yard)) == 1


def test_an_edit_of_told_words_is_told_although_later_ones_were_redirected(yard: Yard):
    yard.file("Crash", "ann", BUGFIX)
    told = yard.say(1, "only on Linux", by="ann")
    yard.poll()
    yard.open_pull(yard.task())
    yard.say(1, "over here?", by="bob")
    yard.poll()
    yard.tick()
    yard.hub.edit(ItemKind.ISSUE_COMMENT, told, "only on Linux 6")
    yard.poll()
    assert words(yard) == ["only on Linux 6"] and len(redirects(yard)) == 1


# Blocks.


def test_words_of_a_blocked_task_wait_unlooked_at_and_are_told_once(yard: Yard):
    pull = with_pull(yard)
    block(yard, pull)
    yard.say(pull, "try harder", by="ann")
    yard.say(1, "and here", by="bob")
    first = yard.poll()
    assert looked_at(first, pull) and looked_at(first, 1)
    with yard.store.read() as tx:
        assert count_held(tx, yard.name, {1, pull}) == 2
        # Waiting means: in the inbox, without effect.
        waiting = [row for row in pending_inbox_rows(tx, yard.name) if row.kind == "issue_comment"]
    assert len(waiting) == 2 and words(yard) == []
    assert not any(event.kind == "issue_comment" for event in yard.poll().events)
    go_on(yard, pull)
    yard.poll()
    assert words(yard) == ["try harder"] and len(redirects(yard)) == 1
    assert yard.task().state is TaskState.QUEUED
    yard.poll()
    assert words(yard) == ["try harder"] and len(redirects(yard)) == 1


def test_only_the_newest_version_of_what_waited_is_told(yard: Yard):
    pull = with_pull(yard)
    block(yard, pull)
    said = yard.say(pull, "one", by="ann")
    yard.poll()
    yard.tick()
    yard.hub.edit(ItemKind.ISSUE_COMMENT, said, "two")
    yard.poll()
    go_on(yard, pull)
    yard.poll()
    assert words(yard) == ["two"]


@pytest.mark.parametrize(
    ("by", "body"), [("mallory", "do it"), ("ann", "/hostler x"), ("ann", " ")]
)
def test_what_is_no_work_does_not_wait_for_the_end_of_a_block(yard: Yard, by: str, body: str):
    pull = with_pull(yard)
    block(yard, pull)
    yard.say(pull, body, by=by)
    yard.poll()
    with yard.store.read() as tx:
        assert pending_inbox_rows(tx, yard.name, pull) == []


@pytest.mark.parametrize("end", ["merged", "closed", "ignored", "stopped"])
def test_whatever_ends_a_blocked_task_ends_the_wait_of_its_words(yard: Yard, end: str):
    pull = with_pull(yard)
    block(yard, pull)
    yard.say(pull, "try harder", by="ann")
    yard.poll()
    yard.tick()
    if end == "merged":
        yard.hub.merge(pull)
    elif end == "closed":
        yard.change(pull, state="closed")
    elif end == "ignored":
        yard.label(1, IGNORE, "ann")
    else:
        yard.set(yard.task(), state=TaskState.STOPPED)
    yard.poll()
    yard.poll()
    states = {"merged": (TaskState.DONE, PullStatus.MERGED)}
    task, status = states.get(end, (TaskState.STOPPED, PullStatus.BLOCKED))
    if end == "closed":
        status = PullStatus.CLOSED
    assert (yard.task().state, yard.pull(pull).status) == (task, status)
    with yard.store.read() as tx:
        assert pending_inbox_rows(tx, yard.name) == []
    assert words(yard) == []


# Takeovers.


@pytest.mark.parametrize("where", [1, 2])
def test_words_before_and_during_a_takeover_are_never_told_and_words_after_are(
    yard: Yard, where: int
):
    pull = with_pull(yard)
    yard.say(pull, "before", by="ann")
    yard.poll()
    assert words(yard) == ["before"]
    yard.say(pull, "just before", by="ann")
    yard.label(where, IGNORE, "bob")
    yard.say(pull, "during", by="ann")
    yard.poll()
    assert yard.task().state is TaskState.STOPPED and words(yard) == []
    yard.say(pull, "still during", by="bob")
    yard.poll()
    yard.say(pull, "not read before the end", by="bob")
    yard.change(where, labels=[{"name": BUGFIX}])
    assert floors(yard).comments_since == TAKEN_OVER
    wake(yard)
    yard.poll()
    assert yard.task().state is TaskState.QUEUED and words(yard) == []
    yard.say(pull, "after", by="ann")
    yard.poll()
    assert words(yard) == ["after"]


def test_words_of_a_takeover_that_are_changed_after_it_are_told(yard: Yard):
    pull = with_pull(yard)
    yard.label(1, IGNORE, "bob")
    said = yard.say(pull, "during", by="ann")
    yard.poll()
    yard.change(1, labels=[{"name": BUGFIX}])
    wake(yard)
    yard.tick()
    yard.hub.edit(ItemKind.ISSUE_COMMENT, said, "now really")
    yard.poll()
    assert words(yard) == ["now really"]


def test_what_is_said_in_the_second_of_the_start_counts(yard: Yard):
    pull = with_pull(yard)
    yard.label(1, IGNORE, "bob")
    yard.poll()
    yard.change(1, labels=[{"name": BUGFIX}])
    yard.clock.advance(0.75)
    with yard.store.write("tasks", "outbox") as tx:
        start_issue(tx, yard.watch, yard.hub.issue(1), at=yard.clock.now())
    yard.hub.say(pull, "at once", by="ann")
    yard.poll()
    assert words(yard) == ["at once"]


def test_taking_the_label_off_starts_nothing(yard: Yard):
    with_pull(yard)
    yard.label(1, IGNORE, "bob")
    yard.poll()
    yard.change(1, labels=[{"name": BUGFIX}])
    yard.poll()
    assert yard.task().state is TaskState.STOPPED


def test_an_issue_without_a_task_is_not_taken_over(yard: Yard):
    yard.file("Crash", "ann", IGNORE)
    yard.say(1, "only on Linux", by="ann")
    yard.poll()
    yard.change(1, labels=[{"name": BUGFIX}])
    yard.poll()
    assert words(yard) == ["only on Linux"]


def test_an_implementation_after_a_takeover_hears_from_its_begin_on(yard: Yard):
    yard.file("Cache", "ann", DESIGN)
    yard.poll()
    pull = yard.open_pull(yard.task())
    yard.label(1, IGNORE, "ann")
    yard.say(1, "we do it ourselves", by="ann")
    yard.poll()
    yard.change(1, labels=[{"name": DESIGN}])
    yard.tick()
    yard.hub.merge(pull)
    yard.poll()
    design, following = yard.tasks()
    assert design.state is TaskState.DONE and yard.waiting(following) == []
    yard.say(1, "now you", by="ann")
    yard.poll()
    assert len(yard.waiting(following)) == 1


@pytest.mark.parametrize("said", [(), ("now you",), ("now you", "please")])
def test_an_implementation_after_a_takeover_is_told_what_was_said_since_the_merge(
    yard: Yard, said: tuple[str, ...]
):
    yard.file("Cache", "ann", DESIGN)
    yard.poll()
    pull = yard.open_pull(yard.task())
    yard.label(pull, IGNORE, "bob")
    yard.poll()
    yard.say(1, "we do it ourselves", by="ann")
    yard.poll()
    yard.change(pull, labels=[])
    yard.tick()
    yard.hub.merge(pull)
    for body in said:
        yard.say(1, body, by="ann")
    yard.say(pull, "thank you", by="bob")
    yard.poll()
    _, following = yard.tasks()
    assert len(yard.waiting(following)) == len(said)


@pytest.mark.parametrize("where", ["issue", "pull request"])
@pytest.mark.parametrize("seen", ["before the merge", "with the merge", "put on after the merge"])
def test_a_design_that_is_merged_with_the_label_has_no_implementation(
    yard: Yard, where: str, seen: str
):
    """Two changes that are seen together have no order: the label counts in any case."""
    yard.file("Cache", "ann", DESIGN)
    yard.poll()
    pull = yard.open_pull(yard.task())
    labelled = 1 if where == "issue" else pull
    if seen != "put on after the merge":
        yard.label(labelled, IGNORE, "bob")
    if seen == "before the merge":
        yard.poll()
    yard.tick()
    yard.hub.merge(pull)
    if seen == "put on after the merge":
        yard.label(labelled, IGNORE, "bob")
    yard.poll()
    assert [(task.flow, task.state) for task in yard.tasks()] == [(Flow.DESIGN, TaskState.DONE)]
    yard.change(labelled, labels=[])
    yard.poll()
    assert len(yard.tasks()) == 1


def test_the_label_on_a_pull_request_that_is_over_takes_nothing_over(yard: Yard):
    yard.file("Cache", "ann", DESIGN)
    yard.poll()
    pull = yard.open_pull(yard.task())
    yard.tick()
    yard.hub.merge(pull)
    yard.poll()
    yard.label(pull, IGNORE, "bob")
    yard.poll()
    assert [task.state for task in yard.tasks()] == [TaskState.DONE, TaskState.QUEUED]
    yard.say(1, "only on Linux", by="ann")
    yard.poll()
    assert len(yard.waiting(yard.tasks()[-1])) == 1


def test_a_stop_by_hand_is_no_takeover(yard: Yard):
    pull = with_pull(yard)
    yard.say(pull, "before", by="ann")
    yard.poll()
    yard.set(yard.task(), state=TaskState.STOPPED)
    wake(yard)
    yard.poll()
    assert words(yard) == ["before"]


def test_without_githubs_time_the_newest_moment_that_it_has_shown_counts(yard: Yard):
    pull = with_pull(yard)
    yard.label(1, IGNORE, "bob")
    yard.say(pull, "during", by="ann")
    yard.poll()
    yard.clock.advance(3600)
    with yard.store.write("tasks") as tx:
        end_takeover(tx, yard.task())
        end_takeover(tx, yard.task(), yard.clock.now())  # only the first ends a takeover
    newest = max(one["updated_at"] for one in yard.hub.issues.values())
    assert floors(yard).comments_since == truncate_to_second(newest)

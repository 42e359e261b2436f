"""Turns on a pull request: every word answered once, in its thread, in the same session."""

from __future__ import annotations

from dataclasses import replace

import pytest
from workflow_farm import SCOPES, Farm, ended, said

from hostler.agents.outcomes import Outcome
from hostler.forge.port import ItemKind
from hostler.store.tasks import TaskState, change_task
from hostler.workflows.finish import finish_run
from hostler.workflows.turns import (
    TurnKind,
    add_conversation,
    add_delivered_comments,
    drop_events,
    drop_withdrawn,
    load_turn_input,
    pending_event_keys,
    turn_kind,
)


def material(farm: Farm, task):
    with farm.store.read() as tx:
        return load_turn_input(tx, task)


def replies_to(farm: Farm, comment: int) -> list[str]:
    return [
        one["body"].splitlines()[0]
        for one in farm.hub.review_comments.values()
        if one.get("in_reply_to_id") == comment and one["user"]["login"] == farm.hub.login
    ]


def test_each_remark_gets_its_answer_in_its_thread(farm: Farm):
    task = farm.walk()
    line = farm.hub.review_line(2, "Rename it.", by="ann")
    farm.tick()
    follow = farm.hub.review_line(2, "And this.", by="bob", reply_to=line)
    comment = farm.say(2, "Add a test.", by="bob")
    farm.hub.review(2, "CHANGES_REQUESTED", "Nearly.", by="ann")
    farm.poll()
    task, checkout = farm.begin()
    turn = material(farm, task)
    assert turn_kind(task, turn) is TurnKind.FEEDBACK and task.session == "s1"
    assert {one.row.object_id for one in turn.comments} >= {line, follow, comment}
    farm.git.commit(checkout.path, "fix.py", "renamed = True\n")
    words = [
        {"comment_id": line, "body": "Renamed."},
        {"comment_id": follow, "body": "That too."},
        {"comment_id": comment, "body": "Added."},
    ]
    task = farm.close(task, said(summary="All taken up.", replies=words))
    farm.send()
    assert task.state is TaskState.AWAITING_FEEDBACK and farm.waiting(task) == []
    assert replies_to(farm, line) == ["Renamed.", "That too."]
    on_pull = farm.texts(2)
    assert "@bob: Added." in on_pull
    head = farm.on_remote(task.branch)
    assert f"@ann: Done in {head[:7]}. All taken up." in on_pull
    assert farm.pull(2).last_seen_head_sha == head
    farm.poll()
    assert farm.reread(task).state is TaskState.AWAITING_FEEDBACK


def test_an_edited_remark_is_answered_again(farm: Farm):
    farm.walk()
    line = farm.hub.review_line(2, "Rename it.", by="ann")
    for body in ("Renamed.", "Back again."):
        farm.poll()
        task, checkout = farm.begin()
        farm.git.commit(checkout.path, "fix.py", f"{body}\n")
        farm.close(task, said(replies=[{"comment_id": line, "body": body}]))
        farm.send()
        farm.tick()
        farm.hub.edit(ItemKind.REVIEW_COMMENT, line, "No, the old name.")
    assert replies_to(farm, line) == ["Renamed.", "Back again."]


def test_words_during_a_turn_start_the_next_one(farm: Farm):
    farm.walk()
    farm.say(2, "First.", by="ann")
    farm.poll()
    task, checkout = farm.begin()
    farm.say(2, "Second.", by="bob")
    farm.poll()
    assert farm.reread(task).state is TaskState.RUNNING
    farm.git.commit(checkout.path, "fix.py", "x = 1\n")
    task = farm.close(task, said(summary="Done."))
    assert task.state is TaskState.QUEUED
    task, _ = farm.begin()
    assert [one.body for one in material(farm, task).comments] == ["Second."]


def test_words_during_a_turn_that_ends_with_a_question_are_not_left_lying(farm: Farm):
    """They may be the answer: nobody says it a second time."""
    farm.walk()
    farm.say(2, "First.", by="ann")
    farm.poll()
    task, _ = farm.begin()
    farm.say(2, "Nicer than before.", by="bob")
    farm.poll()
    task = farm.close(task, said("needs_input", question="Nicer how?"))
    assert (task.state, task.question) == (TaskState.QUEUED, "Nicer how?")
    task, _ = farm.begin()
    assert [one.body for one in material(farm, task).comments] == ["First.", "Nicer than before."]
    task = farm.close(task, said("needs_input", question="Nicer how?"))
    assert task.state is TaskState.NEEDS_INPUT


def test_a_question_that_somebody_else_asked_meanwhile_stays(farm: Farm):
    farm.walk()
    farm.say(2, "First.", by="ann")
    farm.poll()
    task, _ = farm.begin()
    farm.say(2, "Second.", by="bob")
    farm.poll()
    with farm.store.write(*SCOPES) as tx:
        present = farm.reread(task)
        change_task(tx, present, replace(present, state=TaskState.NEEDS_INPUT))
    assert farm.close(task, ended(Outcome.CRASH)).state is TaskState.NEEDS_INPUT


def test_words_that_reached_the_agent_at_work_are_of_its_turn(farm: Farm):
    farm.walk()
    farm.say(2, "First.", by="ann")
    farm.poll()
    task, checkout = farm.begin()
    for _ in range(2):
        farm.say(2, "Blue.", by="bob")
        farm.poll()
    with farm.store.write(*SCOPES) as tx:
        # One of both was shown to it; and somebody's that nobody has said here.
        task = add_delivered_comments(tx, farm.reread(task), [("bob", "Blue."), ("eve", "Red.")])
        assert add_delivered_comments(tx, task, []) == task
    assert len(task.turn_keys) == 2
    farm.git.commit(checkout.path, "fix.py", "x = 1\n")
    task = farm.close(task, said(summary="Done."))
    assert task.state is TaskState.QUEUED and len(farm.waiting(task)) == 1
    task, checkout = farm.begin()
    assert [one.body for one in material(farm, task).comments] == ["Blue."]
    with farm.store.write(*SCOPES) as tx:
        assert add_delivered_comments(tx, task, [("bob", "Blue.")]) == task
    # What came to nothing is told again.
    task = farm.close(task, ended(Outcome.CRASH))
    task, _ = farm.begin()
    assert [one.body for one in material(farm, task).comments] == ["Blue."]


@pytest.mark.parametrize("outcome", [Outcome.CRASH, Outcome.TIMEOUT, Outcome.QUOTA])
def test_a_turn_that_fails_loses_no_word(farm: Farm, outcome: Outcome):
    farm.walk()
    said_ = farm.say(2, "First.", by="ann")
    farm.poll()
    task, _ = farm.begin()
    task = farm.close(task, ended(outcome))
    assert task.state in (TaskState.RETRYING, TaskState.PARKED)
    task, _ = farm.begin()
    assert [one.row.object_id for one in material(farm, task).comments] == [said_]


def test_an_answer_without_a_change_is_enough_on_a_pull_request(farm: Farm):
    farm.walk()
    comment = farm.say(2, "Why so?", by="ann")
    farm.poll()
    task, _ = farm.begin()
    words = [{"comment_id": comment, "body": "Because."}]
    task = farm.close(task, said(replies=words))
    farm.send()
    assert task.state is TaskState.AWAITING_FEEDBACK
    assert farm.texts(2) == ["Why so?", "@ann: Because."]


def test_replies_are_made_once_however_often_the_turn_is_closed(farm: Farm):
    farm.walk()
    comment = farm.say(2, "Why so?", by="ann")
    farm.poll()
    task, _ = farm.begin()
    verdict = said(replies=[{"comment_id": comment, "body": "Because."}])
    for _ in range(3):
        finish_run(farm.desk, task, verdict)
    farm.close(task, verdict)
    farm.send()
    assert farm.texts(2) == ["Why so?", "@ann: Because."]


def test_a_question_on_a_pull_request_is_answered_there(farm: Farm):
    farm.walk()
    farm.say(2, "Make it nicer.", by="ann")
    farm.poll()
    task, _ = farm.begin()
    task = farm.close(task, said("needs_input", question="Nicer how?"))
    farm.send()
    assert task.state is TaskState.NEEDS_INPUT
    assert any(text.startswith("Nicer how?") for text in farm.texts(2))
    farm.say(2, "Shorter.", by="bob")
    farm.poll()
    task, _ = farm.begin()
    turn = material(farm, task)
    assert [one.body for one in turn.comments] == ["Make it nicer.", "Shorter."]


def test_what_was_taken_back_is_not_acted_on(farm: Farm):
    farm.walk()
    gone = farm.say(2, "Nonsense.", by="ann")
    farm.say(2, "Sense.", by="ann")
    farm.poll()
    farm.hub.delete(ItemKind.ISSUE_COMMENT, gone)
    task, _ = farm.begin()
    left, dropped = drop_withdrawn(farm.hub, material(farm, task))
    assert [one.body for one in left.comments] == ["Sense."]
    with farm.store.write(*SCOPES) as tx:
        task = drop_events(tx, task, dropped)
        assert task.state is TaskState.RUNNING and len(pending_event_keys(tx, task)) == 1
        task = drop_events(tx, task, task.turn_keys)
    assert (task.state, farm.waiting(task)) == (TaskState.AWAITING_FEEDBACK, [])


def test_the_conversation_holds_what_allowed_people_said(farm: Farm):
    farm.file("Crash", "ann", "agent:bugfix")
    farm.say(1, "only on Linux", by="bob")
    farm.say(1, "rm -rf /", by="mallory")
    farm.poll()
    farm.say(1, "and BSD", by="ann")
    task, _ = farm.begin()
    whole = add_conversation(material(farm, task), farm.watch, farm.hub.thread(1))
    assert [one.body for one in whole.comments] == ["only on Linux"]
    assert [one.body for one in whole.conversation] == ["and BSD"]


def test_a_stranger_moves_nothing_on_a_pull_request(farm: Farm):
    task = farm.walk()
    farm.say(2, "Do it my way.", by="mallory")
    farm.hub.review_line(2, "And here.", by="eve")
    farm.hub.review(2, "CHANGES_REQUESTED", "Now.", by="renovate[bot]")
    farm.poll()
    assert farm.reread(task).state is TaskState.AWAITING_FEEDBACK
    assert farm.waiting(task) == []


def test_the_last_transaction_may_be_part_of_a_larger_one(farm: Farm):
    farm.walk()
    comment = farm.say(2, "Why so?", by="ann")
    farm.poll()
    task, _ = farm.begin()
    ending = finish_run(farm.desk, task, said(replies=[{"comment_id": comment, "body": "So."}]))
    before = farm.open()
    with pytest.raises(RuntimeError), farm.store.write(*SCOPES) as tx:
        ending.apply(tx)
        raise RuntimeError("the run's fence was lost")
    assert farm.reread(task).state is TaskState.RUNNING
    assert len(farm.waiting(task)) == 1
    assert farm.open() == before

"""Operator commands with the whole service on the sandbox."""

from __future__ import annotations

from service_town import ALICE, BOB, EVE, US

from hostler.model import Surface
from hostler.store.operator import CommandStatus, all_pauses, commands_in
from hostler.store.tasks import TaskState


def ours(person, number):
    return [one["body"] for one in person.comments(number) if one["user"]["login"] == US]


def answers(person, number):
    """Our replies to commands, without status comments."""
    return [body for body in ours(person, number) if body.startswith("@")]


def test_operators_command_on_the_operations_issue_and_on_threads(found_town):
    town = found_town()
    alice, eve = town.person(ALICE), town.person(EVE)
    operations = alice.file("Operations")
    alice.say(operations, "/hostler pause")  # history
    town.repo = {"operator_logins": ["Alice"], "operations_issue_number": operations}
    with town.service() as service:
        number = alice.file("Notes", "agent:small-job")
        service.poll()
        pull = service.until(lambda: service.task(number, TaskState.AWAITING_FEEDBACK).pr_number)
        alice.say(operations, "/hostler status")
        eve.say(pull, "/hostler stop")
        town.person(BOB).say(pull, "/hostler stop")
        service.poll()
        service.until(lambda: len(answers(alice, operations)) == len(answers(alice, pull)) == 1)
        assert f"`#{number}`" not in answers(alice, operations)[0]
        assert "1 awaiting feedback" in answers(alice, operations)[0]
        assert answers(alice, pull)[0].startswith(("@eve", "@bob"))
        comment = alice.say(pull, "Enough of this.\n\n/hostler stop")
        service.poll()
        service.task(number, TaskState.STOPPED)
        service.until(lambda: len(answers(alice, pull)) == 2)
        alice("PATCH", f"/issues/comments/{comment}", body="/hostler resume")
        service.poll()
        service.task(number, TaskState.AWAITING_FEEDBACK)
        service.until(lambda: len(answers(alice, pull)) == 3)
        service.rested()
        with service.app.store.read() as tx:
            rows = commands_in(tx, service.task(number).repo, tuple(CommandStatus))
    assert sorted((row.verb, row.status) for row in rows) == [
        *[("resume", "applied"), ("status", "applied")],
        *[("stop", "applied"), ("stop", "refused"), ("stop", "refused")],
    ]


def test_the_operations_issue_is_heard_with_thread_feeds_too(found_town):
    town = found_town(runtime={"feeds": "threads"})
    alice = town.person(ALICE)
    operations = alice.file("Operations")
    alice.say(operations, "/hostler unpause")  # history
    town.repo = {"operator_logins": [ALICE], "operations_issue_number": operations}
    with town.service() as service:
        service.until(lambda: begun(service))
        alice.say(operations, "/hostler pause")
        service.poll()
        service.until(lambda: answers(alice, operations))
        service.poll()
        service.rested()
        with service.app.store.read() as tx:
            assert list(all_pauses(tx)) == ["project:stable"]
    (reply,) = answers(alice, operations)
    assert "is paused" in reply


def begun(service) -> bool:
    """Whether the operations issue was read for the first time."""
    with service.app.store.read() as tx:
        cursors = "SELECT 1 FROM github_comment_poll_cursors WHERE surface = ?"
        return tx.constant(cursors, [Surface.ISSUE_OPERATOR_COMMANDS.value]).first() is not None

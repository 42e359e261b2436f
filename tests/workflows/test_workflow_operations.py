"""A restart of the service: asked for once, carried out once, answered once."""

from __future__ import annotations

import pytest

from hostler.store.operator import CommandRow, CommandStatus, add_command, find_command
from hostler.store.outbox import Lane, open_writes
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import OPERATOR_COMMANDS_APPLIED
from hostler.workflows.commands import (
    RESTART_SCOPES,
    current_restart,
    finish_restart,
    request_restart,
    start_restart,
)

COMMAND = CommandRow(
    *("k1", "octo/stable", 7, 70, "ann", "restart", "2026-01-01T00:00:00.000Z"),
    status=CommandStatus.WAITING,
)


def ask(store, command=COMMAND):
    with store.write(*RESTART_SCOPES) as tx:
        if command is not None:
            add_command(tx, command)
        return request_restart(tx, "ann", command)


def replies(tx):
    return [(row.lane, row.scope_number, row.payload) for row in open_writes(tx)]


@pytest.mark.parametrize(
    ("ok", "detail", "became", "words"),
    [
        (True, "Version 2 runs.", CommandStatus.APPLIED, "Restarted. Version 2 runs."),
        (True, "", CommandStatus.APPLIED, "Restarted."),
        (False, "Work went on.", CommandStatus.FAILED, "The restart failed: Work went on."),
    ],
)
def test_the_end_of_a_restart_is_stored_and_told_at_once(yard, ok, detail, became, words):
    before = metrics.value(OPERATOR_COMMANDS_APPLIED, verb="restart")
    assert ask(yard.store)
    with yard.store.write(*RESTART_SCOPES) as tx:
        assert start_restart(tx).status == "running"
    with yard.store.write(*RESTART_SCOPES) as tx:
        over = finish_restart(tx, ok, detail)
    assert (over.status, over.detail) == ("done" if ok else "failed", detail)
    with yard.store.read() as tx:
        found, (reply,) = find_command(tx, "k1"), replies(tx)
    assert (found.status, found.result) == (became, words)
    assert reply[:2] == (Lane.OPERATOR, 7)
    assert f"@ann: {words}" in reply[2]
    assert metrics.value(OPERATOR_COMMANDS_APPLIED, verb="restart") - before == ok


def test_a_restart_is_asked_for_once_until_it_is_over(yard):
    assert ask(yard.store)
    assert not ask(yard.store)
    with yard.store.write(*RESTART_SCOPES) as tx:
        assert current_restart(tx).command_key == "k1"
        assert start_restart(tx) is not None
        assert start_restart(tx) is None
        assert not request_restart(tx, "bob")
        assert finish_restart(tx, ok=True) is not None
        assert finish_restart(tx, ok=True) is None
        assert current_restart(tx) is None
        assert len(replies(tx)) == 1
        assert request_restart(tx, "bob")


def test_a_restart_can_be_over_before_it_has_begun(yard):
    """Whoever was killed with a restart pending comes back as a new service anyway."""
    ask(yard.store)
    with yard.store.write(*RESTART_SCOPES) as tx:
        assert finish_restart(tx, ok=True).status == "done"
        assert start_restart(tx) is None


def test_nobody_is_told_of_a_restart_that_no_command_asked_for(yard):
    assert ask(yard.store, None)
    with yard.store.write(*RESTART_SCOPES) as tx:
        assert current_restart(tx).repo_full_name is None
        assert finish_restart(tx, ok=False, detail="It took too long.").status == "failed"
        assert replies(tx) == []


def test_an_end_that_was_undone_is_no_end(yard):
    ask(yard.store)
    before = metrics.value(OPERATOR_COMMANDS_APPLIED, verb="restart")
    with pytest.raises(ZeroDivisionError), yard.store.write(*RESTART_SCOPES) as tx:
        finish_restart(tx, ok=True)
        raise ZeroDivisionError
    with yard.store.read() as tx:
        assert current_restart(tx).status == "pending"
        assert replies(tx) == []
    assert metrics.value(OPERATOR_COMMANDS_APPLIED, verb="restart") == before

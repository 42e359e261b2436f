"""Rows of operator commands and runtime operations, on both databases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.errors import StoreConflict
from hostler.model import RepoName
from hostler.store.operator import (
    OPEN,
    RESTART,
    CommandRow,
    CommandStatus,
    Operation,
    OperationStatus,
    add_command,
    begin_operation,
    change_command,
    change_operation,
    commands_in,
    find_command,
    find_operation,
    remove_commands,
    threads_commanded,
)
from hostler.store.repositories import Repo

HERE, THERE = RepoName("octo", "stable"), RepoName("octo", "meadow")


def said(key="k1", **more):
    fields = {"comment_id": 2**40, "actor": "Ann", "verb": "retry", "said_at": "2026-01-01"}
    return CommandRow(key, str(HERE), 7, **fields | more)


def test_a_command_comes_back_as_it_was_stored(store):
    with store.write() as tx:
        assert add_command(tx, said(arguments={"issue": "7"}))
        moment = tx.stamp()
    with store.read() as tx:
        expected = replace(said(arguments={"issue": "7"}), created_at=moment, updated_at=moment)
        assert find_command(tx, "k1") == expected
        assert find_command(tx, "k2") is None


def test_a_known_command_stays_as_it_is(store):
    with store.write() as tx:
        add_command(tx, said())
        change_command(tx, said(), CommandStatus.APPLIED, "Done.")
        assert not add_command(tx, said(verb="stop"))
        found = find_command(tx, "k1")
    assert (found.verb, found.status, found.result) == ("retry", CommandStatus.APPLIED, "Done.")


def test_open_commands_come_as_they_were_said(store):
    with store.write() as tx:
        add_command(tx, said("late", said_at="2026-01-03", comment_id=1))
        add_command(tx, said("second", said_at="2026-01-02", comment_id=9))
        add_command(tx, said("first", said_at="2026-01-02", comment_id=8))
        add_command(tx, said("over", status=CommandStatus.REFUSED))
        add_command(tx, said("asked", status=CommandStatus.WAITING, said_at="2026-01-04"))
        add_command(tx, replace(said("elsewhere"), repo_full_name=str(THERE)))
        assert [one.command_key for one in commands_in(tx, HERE, OPEN)] == [
            *("first", "second", "late", "asked")
        ]


def test_only_the_first_to_settle_a_command_does(store):
    with store.write() as tx:
        add_command(tx, said())
        change_command(tx, said(), CommandStatus.APPLIED)
    with pytest.raises(StoreConflict, match="no longer seen"), store.write() as tx:
        change_command(tx, said(), CommandStatus.FAILED)


def test_commands_and_operations_follow_a_renamed_repository(store):
    with store.write() as tx:
        Repo(HERE).add(tx, 1)
        add_command(tx, said())
        begin_operation(tx, Operation(RESTART, "ann", "k1", str(HERE)))
        Repo(THERE).add(tx, 1)
        assert [one.command_key for one in commands_in(tx, THERE, OPEN)] == ["k1"]
        assert find_operation(tx, RESTART).repo_full_name == str(THERE)


def test_commands_go_with_their_thread_and_open_ones_are_told(store):
    with store.write() as tx:
        add_command(tx, said("done", status=CommandStatus.APPLIED))
        add_command(tx, replace(said("open"), thread_number=8))
        add_command(tx, replace(said("asked", status=CommandStatus.WAITING), thread_number=9))
        threads = [(str(HERE), number) for number in (7, 8, 9)]
        assert threads_commanded(tx, [*threads, (str(THERE), 8)]) == set(threads[1:])
        remove_commands(tx, [threads[0], (str(THERE), 8)])
        assert [find_command(tx, key) is None for key in ("done", "open")] == [True, False]


def test_one_operation_of_a_kind_is_under_way(store, clock):
    with store.write("operations") as tx:
        assert find_operation(tx, RESTART) is None
        assert begin_operation(tx, Operation(RESTART, "ann"))
        assert not begin_operation(tx, Operation(RESTART, "bob"))
        first = find_operation(tx, RESTART)
        running = change_operation(tx, first, OperationStatus.RUNNING)
        assert not begin_operation(tx, Operation(RESTART, "bob"))
        done = change_operation(tx, running, OperationStatus.DONE, "It is back.")
    assert (done.requested_by, done.status, done.detail) == ("ann", "done", "It is back.")
    clock.advance(60)
    with store.write("operations") as tx:
        assert begin_operation(tx, Operation(RESTART, "bob"))
        second = find_operation(tx, RESTART)
    assert (second.requested_by, second.status, second.detail) == ("bob", "pending", "")


def test_an_operation_moves_once(store):
    with store.write("operations") as tx:
        begin_operation(tx, Operation(RESTART, "ann"))
        first = find_operation(tx, RESTART)
        change_operation(tx, first, OperationStatus.RUNNING)
    with pytest.raises(StoreConflict, match="no longer pending"), store.write() as tx:
        change_operation(tx, first, OperationStatus.FAILED)

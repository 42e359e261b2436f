"""Rows of inbox, outbox and feedback, on both databases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.errors import StoreConflict
from hostler.model import RepoName, ScopeKind
from hostler.store.inbox import (
    FeedbackEvent,
    InboxRow,
    add_inbox_row,
    consume_inbox_rows,
    mark_feedback_events_processed,
    pending_feedback_events,
    pending_inbox_rows,
    record_feedback_event,
)
from hostler.store.outbox import (
    Lane,
    OutboxRow,
    WriteState,
    add_write,
    change_write,
    find_write,
    open_writes,
    recorded_ids,
)
from hostler.store.transaction import MAX_VALUES_PER_STATEMENT

HERE = RepoName("octo", "stable")
MOMENT = "2026-01-01T00:00:00.000Z"


def write(token="t1", **more):
    return OutboxRow(
        repo_full_name=str(HERE),
        token=token,
        scope_kind=ScopeKind.ISSUE,
        scope_number=7,
        lane=Lane.FEEDBACK,
        kind="comment",
        payload='{"a": "ü"}',
        state=WriteState.QUEUED,
        not_before=MOMENT,
        **more,
    )


def event(key="k1", number=7):
    return InboxRow(str(HERE), key, "issue_comment", number, 2**40, "alice", MOMENT, '{"a": 1}')


def test_a_write_is_read_as_it_was_stored(store):
    with store.write() as tx:
        add_write(tx, write())
        found = find_write(tx, HERE, "t1")
        assert replace(found, sequence=0) == write()
        assert found.sequence > 0
        assert find_write(tx, HERE, "t2") is None
        assert find_write(tx, RepoName("octo", "barn"), "t1") is None


def test_a_token_is_queued_once(store):
    with store.write() as tx:
        add_write(tx, write())
    with pytest.raises(StoreConflict), store.write() as tx:
        add_write(tx, write())


def test_open_writes_come_in_order_with_the_state_of_what_they_depend_on(store):
    with store.write() as tx:
        add_write(tx, write("a"))
        add_write(tx, write("b", depends_on="a"))
        add_write(tx, write("c"))
        assert [(row.token, row.dependency) for row in open_writes(tx)] == [
            ("a", None),
            ("b", WriteState.QUEUED),
            ("c", None),
        ]
        first = find_write(tx, HERE, "a")
        change_write(tx, first, replace(first, state=WriteState.SENT, result_id=2**40))
        assert [(row.token, row.dependency) for row in open_writes(tx)] == [
            ("b", WriteState.SENT),
            ("c", None),
        ]
        assert recorded_ids(tx, HERE, ["comment"], [2**40, 5]) == {2**40}
        assert recorded_ids(tx, HERE, ["reply"], [2**40]) == set()


def test_a_write_that_somebody_moved_is_not_moved_again(store):
    with store.write() as tx:
        add_write(tx, write())
        before = find_write(tx, HERE, "t1")
        change_write(tx, before, replace(before, state=WriteState.SENDING))
    with pytest.raises(StoreConflict), store.write() as tx:
        change_write(tx, before, replace(before, state=WriteState.SENT))


def test_an_event_is_new_once_per_repository(store):
    with store.write() as tx:
        assert add_inbox_row(tx, event())
        assert not add_inbox_row(tx, event())
        assert add_inbox_row(tx, replace(event(), repo_full_name="octo/barn"))
        (found,) = pending_inbox_rows(tx, HERE)
        assert (found.event_key, found.object_id, found.received_at) == ("k1", 2**40, tx.stamp())


def test_events_wait_in_order_until_they_are_consumed_once(store):
    keys = [f"k{number}" for number in range(MAX_VALUES_PER_STATEMENT + 20)]
    with store.write() as tx:
        for number, key in enumerate(keys):
            add_inbox_row(tx, event(key, number % 2))
        assert [row.event_key for row in pending_inbox_rows(tx, HERE)] == keys
        assert len(pending_inbox_rows(tx, HERE, 1)) == len(keys) // 2
        consume_inbox_rows(tx, HERE, keys[1:])
        assert [row.event_key for row in pending_inbox_rows(tx, HERE)] == keys[:1]
    with pytest.raises(StoreConflict), store.write() as tx:
        consume_inbox_rows(tx, HERE, keys)
    with store.read() as tx:
        assert len(pending_inbox_rows(tx, HERE)) == 1


def test_feedback_is_kept_once_until_it_is_processed(store):
    said = FeedbackEvent("k1", 12, 7, "issue_comment", 2**40, MOMENT)
    with store.write() as tx:
        for _ in range(2):
            record_feedback_event(tx, HERE, said)
        assert pending_feedback_events(tx, HERE, 12) == [said]
        assert pending_feedback_events(tx, HERE, 13) == []
        mark_feedback_events_processed(tx, HERE, ["k1"])
        record_feedback_event(tx, HERE, said)
        assert pending_feedback_events(tx, HERE, 12) == []


def test_a_rename_takes_everything_along(store):
    there = RepoName("octo", "barn")
    with store.write() as tx:
        repo = store.repo(HERE)
        repo.add(tx, 42)
        add_write(tx, write())
        add_inbox_row(tx, event())
        record_feedback_event(tx, HERE, FeedbackEvent("k1", 12, 7, "review", 1, MOMENT))
        repo.rename(tx, there)
        assert find_write(tx, there, "t1") and pending_inbox_rows(tx, there)
        assert pending_feedback_events(tx, there, 12)
        assert find_write(tx, HERE, "t1") is None

"""What runs have cost, and notices, on both databases."""

from __future__ import annotations

from dataclasses import replace

from hostler.store.operator import (
    Notice,
    NoticeState,
    add_notice,
    change_notice,
    count_notices,
    first_time,
    forget_notices,
    known_notices,
    queued_notices,
)
from hostler.store.runs import Run, RunState, Spent, add_run, spent_by_tasks, spent_since

BASE = Run("r", "t", "stable", 1, 1, "work", "helper", "command", "p", "f", "2026-01-01")


def put(tx, name: str, task: str, usd: float, **more: object) -> None:
    ended = {"state": RunState.ENDED, "exited_at": "2026-01-02T10:00:00.000Z", **more}
    add_run(tx, replace(BASE, run=name, task_id=task, usd=usd, fence=int(name), **ended))


def test_costs_are_summed_by_task_and_by_day(store):
    with store.write() as tx:
        put(tx, "1", "a", 1.5)
        put(tx, "2", "a", 0.0)
        put(tx, "3", "b", 2.0, project="barn")
        put(tx, "4", "b", 4.0, project="barn", exited_at="2026-01-01T23:59:59.999Z")
        put(tx, "5", "c", 0.0, counted=False)
    with store.read() as tx:
        found = spent_by_tasks(tx, ["a", "b", "c", "d"])
        today = spent_since(tx, "2026-01-02T00:00:00.000Z")
    assert found == {"a": Spent(1.5, 1), "b": Spent(6.0), "c": Spent()}
    assert today == {"stable": Spent(1.5, 1), "barn": Spent(2.0)}


def test_an_agent_at_work_counts_with_what_it_said_so_far(store):
    with store.write() as tx:
        put(tx, "1", "a", 1.0)
        put(tx, "2", "a", 0.5, state=RunState.RUNNING, exited_at=None)
    with store.read() as tx:
        assert spent_by_tasks(tx, ["a"]) == {"a": Spent(1.5)}
        assert spent_since(tx, "2026-01-02T00:00:00.000Z") == {"stable": Spent(1.5)}
        assert spent_by_tasks(tx, []) == {}


def test_a_cause_is_told_of_once(store):
    with store.write() as tx:
        assert first_time(tx, "k", "budget")
        assert not first_time(tx, "k", "budget")
        assert not add_notice(tx, Notice("k", "blocked"))
    with store.read() as tx:
        assert queued_notices(tx) == [] and known_notices(tx, ["k", "l"]) == {"k"}


def test_notices_wait_in_the_order_in_which_they_are_due(store, clock):
    with store.write() as tx:
        add_notice(tx, Notice("late", "blocked", not_before="2030-01-01T00:00:00.000Z"))
        add_notice(tx, Notice("now", "parked", "It waits", "because", "https://x"))
    with store.write() as tx:
        assert [one.key for one in queued_notices(tx)] == ["now", "late"]
        change_notice(tx, "now", state=NoticeState.SENT.value, attempts=1)
        assert [one.key for one in queued_notices(tx)] == ["late"]
        assert count_notices(tx, NoticeState.SENT) == 1
    clock.advance(10)
    with store.write() as tx:
        forget_notices(tx, tx.stamp())
        # What is still to be sent stays.
        assert known_notices(tx, ["now", "late"]) == {"late"}

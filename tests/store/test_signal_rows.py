"""Limit signals, on both databases."""

from __future__ import annotations

from datetime import timedelta

from hostler.model import format_timestamp
from hostler.store.governor import SIGNAL_RETENTION, Signal, Source, add_signals, signals_of_pool


def signal(run="r1", pool="openai", reason="rate_limited", **more):
    return Signal(run, pool, "t1", "yard", Source.LIVE, reason, **more)


def test_signals_are_kept_in_their_order_with_whose_they_are(store):
    with store.write() as tx:
        moments = [format_timestamp(tx.now() + timedelta(seconds=number)) for number in range(2)]
        add_signals(tx, [signal(status=429, times=3), signal(reason="quota", resets_at="x")])
        add_signals(tx, [])
        add_signals(tx, [signal(status=529, at=moments[1])])
        add_signals(tx, [signal(run="r2", pool="google")])
    with store.read() as tx:
        found = signals_of_pool(tx, "openai")
        assert [one.status for one in found] == [429, 0, 529]
        assert (found[0].times, found[0].task_id, found[0].project) == (3, "t1", "yard")
        assert found[1].resets_at == "x" and found[0].source is Source.LIVE
        assert [one.status for one in signals_of_pool(tx, "openai", moments[1])] == [529]


def test_what_is_old_is_forgotten(store):
    with store.write() as tx:
        old = format_timestamp(tx.now() - SIGNAL_RETENTION - timedelta(seconds=1))
        add_signals(tx, [signal(at=old), signal(run="r1")])
    with store.write() as tx:
        add_signals(tx, [signal(run="r2", pool="google")])
    with store.read() as tx:
        assert [one.at > old for one in signals_of_pool(tx, "openai")] == [True]
        assert len(signals_of_pool(tx, "google")) == 1

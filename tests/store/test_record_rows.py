"""What the service notes of itself, on both databases."""

from __future__ import annotations

from datetime import timedelta
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from hostler.model import format_timestamp
from hostler.store.governor import SAMPLE_RETENTION, PoolSample, add_samples, samples_since
from hostler.store.repositories import POLL_HISTORY, Polls, add_polls, polls_since

SECONDS = st.integers(0, 1000).map(float)
MOMENTS = st.sampled_from(["", "2026-03-01T00:00:00.000Z", "2026-03-02T00:00:00.000Z"])
COUNTED = st.builds(
    Polls,
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 9),
    SECONDS,
    SECONDS,
    MOMENTS,
    SECONDS,
    MOMENTS,
)


def sample(at, pool="openai", **more):
    return PoolSample(pool, at, 8, 4, **{"active": 2, "breaker": "closed", "parked": False, **more})


def test_samples_are_kept_for_a_day(store):
    with store.write() as tx:
        now = tx.now()
        old, new = (
            format_timestamp(now - SAMPLE_RETENTION - timedelta(seconds=1)),
            format_timestamp(now),
        )
        add_samples(tx, [sample(old)])
        add_samples(tx, [sample(new, active=3), sample(new, "google", parked=True)])
        add_samples(tx, [sample(new, active=4, breaker="open")])
    with store.read() as tx:
        found = samples_since(tx, "")
    assert [(one.pool, one.at, one.active) for one in found] == [
        ("google", new, 2),
        ("openai", new, 4),
    ]
    assert found[0].parked is True and found[1].breaker == "open"
    assert "pool" not in found[0].as_json() and found[0].as_json()["at"] == new


def test_looks_of_an_hour_are_one_row_and_a_day_is_kept(store):
    with store.write() as tx:
        now = tx.now()
        add_polls(tx, "barn", Polls(2, 1, 0, 5.0, 4.0, format_timestamp(now), 4.0))
        add_polls(tx, "barn", Polls(1, 0, 1, 9.0, 9.0, format_timestamp(now), 9.0, late_since="x"))
        add_polls(tx, "yard", Polls(late_since="y"))
    with store.read() as tx:
        found = polls_since(tx, format_timestamp(now - POLL_HISTORY))
    assert found["barn"] == Polls(3, 1, 1, 14.0, 9.0, format_timestamp(now), 9.0, "x")
    assert found["yard"].late_since == "y" and found["yard"].polls == 0


@given(st.lists(COUNTED, max_size=6), st.integers(0, 6))
def test_looks_may_be_summed_up_in_any_portions(counted, cut):
    whole = reduce(Polls.__add__, counted, Polls())
    early = reduce(Polls.__add__, counted[:cut], Polls())
    late = reduce(Polls.__add__, counted[cut:], Polls())
    both = early + late if counted[cut:] else early
    assert both == whole
    assert whole.polls == sum(one.polls for one in counted)
    assert whole.worst_seconds == max([one.worst_seconds for one in counted], default=0.0)


def test_hours_of_the_day_before_are_forgotten(store):
    with store.write() as tx:
        old = format_timestamp(tx.now() - POLL_HISTORY - timedelta(hours=2))
        row = "INSERT INTO poll_hours VALUES ('barn', ?, 1, 0, 0, 1, 1, ?, 1, '')"
        tx.constant(row, (old, old))
        assert polls_since(tx, "")["barn"].polls == 1
        add_polls(tx, "yard", Polls(1))
        assert set(polls_since(tx, "")) == {"yard"}

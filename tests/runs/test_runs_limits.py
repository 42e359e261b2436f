"""What a stream tells of limits and money: stored once, with the offset, and whose it is."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from intake_yard import database

from hostler.agents.events import LimitSignal, Retrying, StreamTally, Usage
from hostler.agents.outcomes import LIMIT_OUTCOMES, Outcome
from hostler.agents.verdict import DecidedBy, EndedBy, ProcessExit, RunVerdict
from hostler.clock import FakeClock
from hostler.model import parse_timestamp
from hostler.runs import NewRun, admit_run, transitions
from hostler.runs.outcome import (
    MAX_LIMITS_PER_READ,
    Limit,
    Offsets,
    RunEnding,
    StreamReader,
    append_limit,
    find_limit,
)
from hostler.runs.transitions import subtract_usage
from hostler.store.governor import Source, signals_of_pool

BURST = LimitSignal(Outcome.RATE_LIMITED, 429, 2.0)


@pytest.fixture
def store():
    with database(FakeClock()) as opened:
        yield opened


def begin(store, kind="claude", task="t1"):
    with store.write() as tx:
        run = admit_run(tx, NewRun(task, "yard", "work", "helper", kind, "anthropic"))
        return transitions.store_running(tx, transitions.store_starting(tx, run, {"pid": 1}))


def end(store, run, outcome=Outcome.SUCCESS, tally=None, limit=None, limits=(), last=()):
    verdict = RunVerdict(outcome, DecidedBy.STREAM, "It is over.", limit=limit)
    ending = RunEnding(
        verdict, ProcessExit(EndedBy.EXIT, 0), True, tally or StreamTally(), Offsets(), limits, last
    )
    with store.write("admission") as tx:
        over = transitions.store_exited(tx, run, ending)
        return transitions.store_ended(tx, transitions.store_finishing(tx, over))


def heard(store):
    with store.read() as tx:
        return [(one.source, one.reason, one.times) for one in signals_of_pool(tx, "anthropic")]


def test_signals_are_stored_with_the_offset_and_never_twice(store):
    run = begin(store)
    with store.write() as tx:
        transitions.store_progress(tx, run, StreamTally(), Offsets(10, 0), [Limit(BURST, 4)])
    with pytest.raises(transitions.FenceLost), store.write() as tx:
        # Somebody who read the same lines, and was late.
        transitions.store_progress(tx, run, StreamTally(), Offsets(10, 0), [Limit(BURST, 4)])
    assert heard(store) == [(Source.LIVE, "rate_limited", 4)]


def test_a_death_is_another_signal_than_a_retry(store):
    end(store, begin(store), Outcome.RATE_LIMITED, limit=BURST, limits=(Limit(BURST, 2),))
    end(store, begin(store, task="t2"), Outcome.OVERLOADED)
    end(store, begin(store, task="t3"), Outcome.CRASH, limit=BURST)
    assert sorted(heard(store)) == [
        (Source.DEATH, "overloaded", 1),
        (Source.DEATH, "rate_limited", 1),
        (Source.LIVE, "rate_limited", 2),
    ]


def test_a_last_word_and_the_death_that_follows_are_one_signal(store):
    ended = {"limit": BURST, "limits": (Limit(BURST, 3),), "last": (Limit(BURST),)}
    end(store, begin(store), Outcome.RATE_LIMITED, **ended)
    assert heard(store) == [(Source.LIVE, "rate_limited", 3), (Source.DEATH, "rate_limited", 1)]


def test_a_last_word_that_did_not_decide_is_a_signal_of_the_living(store):
    end(store, begin(store), Outcome.SUCCESS, limit=BURST, last=(Limit(BURST),))
    assert heard(store) == [(Source.LIVE, "rate_limited", 1)]


RETRY = {"type": "error", "message": "Reconnecting... 1/5 (unexpected status 429 Too Many)"}
FAILED = {"type": "turn.failed", "error": {"message": "unexpected status 429 Too Many Requests"}}
GOES_ON = {"type": "turn.started"}


@pytest.mark.parametrize(
    ("lines", "told", "last"),
    [
        ([RETRY, FAILED], 1, 1),
        ([RETRY, FAILED, FAILED], 1, 1),
        ([FAILED, GOES_ON], 1, 0),
        ([FAILED, GOES_ON, FAILED], 1, 1),
        ([RETRY, RETRY], 2, 0),
    ],
)
def test_limits_of_a_last_word_wait_for_what_follows(store, tmp_path, lines, told, last):
    reader = StreamReader(begin(store, "codex"), tmp_path, FakeClock())
    with (tmp_path / "stdout").open("a") as stream:
        for line in lines:
            print(json.dumps(line), file=stream, flush=True)
            reader.read()
    assert sum(one.times for one in reader.limits) == told
    assert len(reader.final_limits) == last


def say(folder, *lines):
    with (folder / "stdout").open("a") as stream:
        for line in lines:
            print(json.dumps(line), file=stream)


def adopted(store, run, reader, folder):
    """What was read is stored, and somebody else reads on."""
    with store.write() as tx:
        run = transitions.store_progress(tx, run, reader.tally, reader.offsets, reader.limits)
    return run, StreamReader(run, folder, FakeClock())


def conclude(store, run, reader, outcome):
    reader.read_rest()
    ended = {"limit": reader.tally.limit, "limits": reader.limits, "last": reader.final_limits}
    end(store, run, outcome, reader.tally, **ended)


@pytest.mark.parametrize(
    ("outcome", "after", "source"),
    [
        (Outcome.SUCCESS, [], Source.LIVE),
        (Outcome.SUCCESS, [GOES_ON], Source.LIVE),
        (Outcome.SUCCESS, [FAILED], Source.LIVE),
        (Outcome.RATE_LIMITED, [], Source.DEATH),
        (Outcome.RATE_LIMITED, [FAILED], Source.DEATH),
    ],
)
def test_a_last_word_before_an_adoption_is_told_once(store, tmp_path, outcome, after, source):
    run = begin(store, "codex")
    reader = StreamReader(run, tmp_path, FakeClock())
    say(tmp_path, FAILED)
    assert reader.read()
    run, reader = adopted(store, run, reader, tmp_path)
    assert heard(store) == []
    say(tmp_path, *after)
    conclude(store, run, reader, outcome)
    assert heard(store) == [(source, "rate_limited", 1)]


def test_more_said_after_an_adoption_is_stored_once_and_with_its_offset(store, tmp_path):
    run = begin(store, "codex")
    reader = StreamReader(run, tmp_path, FakeClock())
    for line in (FAILED, GOES_ON, FAILED, GOES_ON):
        say(tmp_path, line)
        assert reader.read()
        run, reader = adopted(store, run, reader, tmp_path)
    conclude(store, run, reader, Outcome.SUCCESS)
    assert heard(store) == [(Source.LIVE, "rate_limited", 1)] * 2


USED_UP = "You've hit your usage limit. Try again at 11:30 PM."


def test_a_time_of_day_is_of_the_day_on_which_it_was_written(store, tmp_path):
    # By the clock of this machine, wherever it is.
    written = datetime(2026, 3, 1, 23, 0).astimezone()
    say(tmp_path, {"type": "turn.failed", "error": {"message": USED_UP}})
    os.utime(tmp_path / "stdout", (written.timestamp(),) * 2)
    reader = StreamReader(begin(store, "codex"), tmp_path, FakeClock(written + timedelta(hours=3)))
    reader.read()
    (limit,) = reader.final_limits
    assert parse_timestamp(limit.signal.resets_at) == written + timedelta(minutes=31)


def test_a_reader_collects_limits_until_they_are_stored(store, tmp_path):
    run = begin(store)
    retry = {"type": "system", "subtype": "api_retry", "error_status": 429, "retry_delay_ms": 5}
    other = {**retry, "error_status": 529}
    wall = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 9}}
    lines = [retry, retry, other, wall]
    (tmp_path / "stdout").write_text("".join(json.dumps(line) + "\n" for line in lines))
    reader = StreamReader(run, tmp_path, FakeClock())
    assert reader.read()
    assert [(one.signal.reason, one.times) for one in reader.limits] == [
        (Outcome.RATE_LIMITED, 2),
        (Outcome.OVERLOADED, 1),
        (Outcome.QUOTA, 1),
    ]
    reader.mark_stored()
    assert reader.limits == ()


def test_an_agent_that_prints_limits_without_end_fills_no_table(store, tmp_path):
    both = [
        {"type": "system", "subtype": "api_retry", "error_status": status}
        for status in (429, 529) * 1000
    ]
    (tmp_path / "stdout").write_text("".join(json.dumps(line) + "\n" for line in both))
    reader = StreamReader(begin(store), tmp_path, FakeClock())
    reader.read()
    assert len(reader.limits) == MAX_LIMITS_PER_READ


@given(st.lists(st.sampled_from([BURST, LimitSignal(Outcome.OVERLOADED, 529)])))
def test_counting_the_same_again_loses_none(signals):
    known: tuple[Limit, ...] = ()
    for signal in signals:
        known = append_limit(known, signal)
    assert [one.signal for one in known for _ in range(one.times)] == signals


@given(st.sampled_from(Outcome))
def test_only_retries_for_a_limit_are_limits(reason):
    assert (find_limit(Retrying(reason, 1.0, 5)) is not None) == (reason in LIMIT_OUTCOMES)


@pytest.mark.parametrize(
    ("kind", "usd", "tokens"),
    [("claude", [1.0, 0.5, 0.25], [10, 30, 60]), ("codex", [1.0, 1.5, 1.75], [10, 20, 30])],
)
def test_what_a_session_counts_on_is_counted_once(store, kind, usd, tokens):
    """Money of claude and tokens of codex are told for the whole session."""
    spent = []
    for money, used in ((1.0, 10), (1.5, 30), (1.75, 60)):
        tally = StreamTally(session="s", usage=Usage(used, total=True), usd=money)
        spent.append(end(store, begin(store, kind), tally=tally))
    assert [run.usd for run in spent] == usd
    assert [run.input_tokens for run in spent] == tokens


def test_what_a_run_did_not_live_to_say_is_counted_by_the_next(store):
    end(store, begin(store), Outcome.TIMEOUT, StreamTally(session="s"))
    later = end(store, begin(store), tally=StreamTally(session="s", usd=3.0))
    assert later.usd == 3.0
    fresh = end(store, begin(store), tally=StreamTally(session="other", usd=1.0))
    assert fresh.usd == 1.0


usages = st.builds(Usage, *[st.integers(0, 100)] * 3)


@given(usages, usages)
def test_nothing_is_spent_backwards(total, before):
    found = subtract_usage(total, before)
    assert min(found.input_tokens, found.output_tokens, found.cached_tokens) >= 0


def test_a_wall_with_a_time_of_day_is_stored_with_its_moment(store, tmp_path):
    clock = FakeClock()
    at = (clock.now() + timedelta(minutes=90)).astimezone()
    wall = f"You've hit your usage limit. Try again at {at:%b} {at.day}th, {at:%Y %I:%M %p}."
    line = json.dumps({"type": "turn.failed", "error": {"message": wall}})
    (tmp_path / "stdout").write_text(line + "\n")
    reader = StreamReader(begin(store, "codex"), tmp_path, clock)
    reader.read()
    (limit,) = reader.final_limits
    until = parse_timestamp(limit.signal.resets_at) - clock.now()
    assert timedelta(minutes=89) < until <= timedelta(minutes=91)
    assert reader.tally.limit == limit.signal

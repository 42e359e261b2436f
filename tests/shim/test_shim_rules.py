"""The shim's rules, as functions of what is known."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.model import format_timestamp
from hostler.shim import agent, processes, run_files
from hostler.shim.spec import InvalidSpec, RunSpec
from hostler.shim.supervisor import SupervisedRun

spans = st.floats(0.01, 100_000)
limits = st.builds(agent.ShimLimits, st.just(0.0) | spans, st.just(0.0) | spans)
sights = st.builds(
    agent.AgentActivity,
    st.integers(0, 3),
    st.integers(0, 2),
    tool_runs=st.booleans() | st.just(False),
)
looks = st.lists(st.tuples(st.floats(0, 1000), sights), max_size=20)


@given(limits, looks)
def test_nothing_ends_before_its_time(limit, seen):
    """Against a model that keeps the whole history."""
    now = 50.0
    state = agent.start_supervision(now)
    history = [(now, agent.AgentActivity(0))]
    for gap, sight in seen:
        now += gap
        state = agent.update_supervision(state, sight, now)
        history.append((now, sight))
        broken = [
            at
            for (_, before), (at, after) in pairwise(history)
            if after.tool_runs or (before.written, before.reaped) != (after.written, after.reaped)
        ]
        silent = now - max(broken, default=50.0)
        why = agent.find_end_reason(state, limit, now, stop_asked=False)
        wall_over = bool(limit.wall) and now - 50.0 >= limit.wall
        silence_over = bool(limit.silence) and silent >= limit.silence
        assert why == ("wall_timeout" if wall_over else "stall" if silence_over else None)
        assert agent.find_end_reason(state, limit, now, stop_asked=True) == "stop"


@given(limits, st.floats(0, 1e6))
def test_a_look_is_never_far_and_never_now(limit, now):
    pause = agent.next_check_seconds(agent.start_supervision(50.0), limit, 50.0 + now)
    assert 0 < pause <= 60


@given(spans)
def test_a_silent_agent_is_ended_by_its_looks_on_time(silence):
    limit = agent.ShimLimits(0.0, silence)
    now = 0.0
    state = agent.start_supervision(now)
    while not agent.find_end_reason(state, limit, now, stop_asked=False):
        now += agent.next_check_seconds(state, limit, now)
        state = agent.update_supervision(state, agent.AgentActivity(0), now)
        if now > silence * 2 + 1:
            break
    assert silence <= now <= silence + agent.MIN_CHECK_SECONDS + 1e-6 * silence


@given(st.floats(0.1, 1000))
def test_an_agent_with_a_tool_at_work_is_never_stalled(silence):
    limit = agent.ShimLimits(0.0, silence)
    now = 0.0
    state = agent.start_supervision(now)
    for _ in range(100):
        now += agent.next_check_seconds(state, limit, now)
        state = agent.update_supervision(state, agent.AgentActivity(0, tool_runs=True), now)
        assert agent.find_end_reason(state, limit, now, stop_asked=False) is None


keys = st.frozensets(st.tuples(st.integers(2, 9), st.integers(1, 3)), max_size=6)


@given(keys, keys, keys, st.floats(-10, 10), st.floats(0, 1))
def test_nobody_is_killed_within_the_grace_and_everybody_after_it(alive, asked, killed, left, last):
    what = processes.plan_termination(alive, asked, killed, left, last)
    if left > 0:
        assert not what.kill
        assert what.ask == alive - asked, "asked once, newcomers too"
        assert 0 < what.pause <= min(left, processes.MAX_GRACE_WAIT_SECONDS)
    else:
        assert what.kill == alive
        assert not what.ask
        assert (what.pause == 0) == bool(alive - killed), "no pause while new ones appear"
        assert what.pause <= processes.MAX_PAUSE_SECONDS


def process(pid: int, parent: int) -> processes.Process:
    fields = [b"S", str(parent).encode(), *[b"0"] * 15, b"1", b"0", b"7"]
    return processes.Process(pid, b"%d (a) b) " % pid + b" ".join(fields))


@given(st.dictionaries(st.integers(1, 12), st.integers(0, 12)), st.sets(st.integers(0, 12)))
def test_below_is_who_can_be_reached_even_in_a_table_torn_by_time(parents, roots):
    table = {pid: process(pid, parent) for pid, parent in parents.items()}
    reached = set(roots)
    while more := {pid for pid, parent in parents.items() if parent in reached} - reached:
        reached |= more
    found = [p.pid for p in processes.find_descendants(table, roots)]
    assert len(found) == len(set(found))
    assert set(found) == reached - roots


def test_a_name_with_brackets_does_not_confuse_the_table():
    assert process(3, 2).name == "a) b"
    assert (process(3, 2).parent, process(3, 2).key) == (2, (3, 7))


FIELDS = ["run", "argv", "cwd", "env", "inherit", "stdin", "wall_seconds", "grace_seconds", "nice"]
GOOD = {"run": "r", "argv": ["true"], "cwd": "/", "env": {"A": "b"}}
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from(FIELDS), values))
def test_any_spec_is_understood_or_refused(changes):
    try:
        spec = RunSpec({**GOOD, **changes})
    except InvalidSpec as error:
        assert str(error).split(":")[0].split()[0] in FIELDS, "the field is named"
    else:
        assert spec.argv[0]
        assert 0 <= spec.grace <= 366 * 86400


def test_marks_cannot_be_overruled_by_the_spec():
    spec = RunSpec({**GOOD, "env": {"HOSTLER_MARK": "forged", "HOSTLER_RUN": "other"}})
    assert spec.environment({}, "mine") == {"HOSTLER_MARK": "mine", "HOSTLER_RUN": "r"}


def test_what_is_asked_for_wins_over_what_is_inherited():
    spec = RunSpec({**GOOD, "inherit": ["A", "B"]})
    assert spec.environment({"A": "x", "B": "y", "C": "z"}, "m") == {
        "A": "b",
        "B": "y",
        "HOSTLER_RUN": "r",
        "HOSTLER_MARK": "m",
    }


@given(st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))
def test_stamps_are_those_of_the_whole_house(moment):
    exact = moment.replace(microsecond=moment.microsecond // 1000 * 1000 + 500)
    assert run_files.format_timestamp(exact.timestamp()) == format_timestamp(exact)


def test_the_longest_last_word_fits_into_the_reserved_room():
    word = dict(SupervisedRun(RunSpec({**GOOD, "run": "r" * 200}), {}).exit_record)
    word |= {"reason": "\U0001f40e" * run_files.MAX_TEXT_LENGTH, "ended_by": "shim_failed"}
    word |= {"started_at": "x" * 24, "exited_at": "x" * 24, "ended_at": "x" * 24}
    word |= {"seconds": 1e9 + 0.123, "cpu_seconds": 1e9 + 0.123, "stdout_bytes": 1 << 60}
    assert len(run_files.format_json(word).encode()) < run_files.RESERVED_BYTES


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"version": 99}', "\x00"])
def test_a_file_that_is_not_ours_is_unreadable(tmp_path, text):
    (tmp_path / "f.json").write_text(text)
    with pytest.raises(run_files.UnreadableRunFile):
        run_files.read_json(str(tmp_path / "f.json"))


def test_what_is_written_is_read(tmp_path):
    path = str(tmp_path / "f.json")
    assert run_files.read_json(path) is None
    run_files.write_json(path, {"a": "ä" * 5000})
    run_files.write_json(path, {"a": 1})
    assert run_files.read_json(path) == {"version": 1, "a": 1}
    assert json.loads((tmp_path / "f.json").read_text()) == {"version": 1, "a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["f.json"]

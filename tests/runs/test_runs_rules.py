"""Pure rules: where a run may go, what becomes of it, how its end is stored."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hostler.runs
from hostler.agents.events import (
    CostEvent,
    Finished,
    LimitSignal,
    SessionEvent,
    StreamTally,
    Text,
    ToolUse,
    Usage,
    tally_events,
)
from hostler.agents.outcomes import LIMIT_OUTCOMES, NextAction, Outcome
from hostler.agents.result import AgentResult, ResultStatus
from hostler.agents.verdict import (
    DecidedBy,
    EndedBy,
    ProcessExit,
    RunEnd,
    RunVerdict,
    judge_exit_code,
    judge_run,
    parse_exit,
)
from hostler.runs.outcome import (
    MAX_TEXT_CHARS,
    RunEnding,
    apply_stop_request,
    dump_tally,
    ending_without_agent,
    load_tally,
    next_action,
    shorten_tally,
    verdict_columns,
    verdict_of,
)
from hostler.runs.states import (
    MOVES_REFUSED_AFTER_STOP,
    RUN_MOVES,
    RecoveryAction,
    RecoveryDecision,
    RunEvidence,
    RunMove,
    decide_recovery,
    next_run_state,
    run_folder_path,
    run_id,
)
from hostler.store.runs import LIVE, Run, RunState
from hostler.telemetry.redaction import register_secret, unregister_secret

states, moves = st.sampled_from(RunState), st.sampled_from(RunMove)
evidence = st.builds(RunEvidence, st.booleans(), st.booleans(), st.booleans(), st.booleans())
texts = st.text(max_size=40)
events = st.one_of(
    st.builds(Text, texts),
    st.builds(ToolUse, texts),
    st.builds(SessionEvent, texts),
    st.builds(Usage, st.integers(0, 2**53), st.integers(0, 9), st.integers(0, 9), st.booleans()),
    st.builds(CostEvent, st.floats(0, 1e6), st.booleans()),
    st.builds(LimitSignal, st.sampled_from(sorted(LIMIT_OUTCOMES)), st.integers(0, 599)),
    st.builds(Finished, st.booleans(), st.none() | st.sampled_from(Outcome), texts),
)
verdicts = st.builds(
    RunVerdict,
    st.sampled_from(Outcome),
    st.sampled_from(DecidedBy),
    texts,
    st.none()
    | st.builds(AgentResult, status=st.just(ResultStatus.DONE), summary=st.just("Mended.")),
    st.none() | st.builds(LimitSignal, st.sampled_from(sorted(LIMIT_OUTCOMES))),
)
exits = st.builds(ProcessExit, st.sampled_from(EndedBy), st.none() | st.integers())


def a_run(**facts):
    given = dict.fromkeys(("run", "task_id", "project", "kind", "agent", "agent_kind"), "x")
    return Run(**given, pool="", folder="f", fence=1, attempt=1, admitted_at="now", **facts)


@given(states, moves, st.booleans())
def test_a_run_only_goes_forward_and_never_back_from_its_end(state, move, stopped):
    to = next_run_state(state, move, stopped=stopped)
    if to is not None:
        order = list(RunState)
        assert order.index(to) > order.index(state)
        assert state is not RunState.ENDED


def test_every_state_leads_to_the_end():
    for state in set(RunState) - {RunState.ENDED}:
        assert any(next_run_state(state, move, stopped=True) for move in RunMove), state


def test_after_a_stop_nothing_starts():
    assert next_run_state(RunState.STARTING, RunMove.GO, stopped=True) is None
    for state in LIVE:
        assert next_run_state(state, RunMove.NEVER_STARTED, stopped=True) is None
        assert next_run_state(state, RunMove.OVER, stopped=True) is RunState.EXITED
    assert {RUN_MOVES[move][1] for move in MOVES_REFUSED_AFTER_STOP} == {
        RunState.RUNNING,
        RunState.ENDED,
    }


TABLE = [
    (RunState.ENDED, RunEvidence(True, True, True), RecoveryAction.NOTHING),
    (RunState.EXITED, RunEvidence(True), RecoveryAction.FINISH),
    (RunState.FINISHING, RunEvidence(False), RecoveryAction.FINISH),
    *[(state, RunEvidence(True, True, True, False), RecoveryAction.ADOPT) for state in LIVE],
    *[(state, RunEvidence(False, True, True, False), RecoveryAction.CONCLUDE) for state in LIVE],
    *[
        (state, RunEvidence(False, False, False, False), RecoveryAction.NEVER_STARTED)
        for state in LIVE
    ],
    *[(state, RunEvidence(False, False, True, True), RecoveryAction.SWEEP) for state in LIVE],
    *[
        (state, RunEvidence(False, False, True, False), RecoveryAction.LEAVE_ALONE)
        for state in LIVE
    ],
]


@pytest.mark.parametrize(("state", "seen", "action"), TABLE)
def test_the_recovery_table_holds_row_by_row(state, seen, action):
    assert decide_recovery(state, seen, stopped=False) == RecoveryDecision(action)
    stop = action is not RecoveryAction.NOTHING
    assert decide_recovery(state, seen, stopped=True) == RecoveryDecision(action, stop)


@given(states, evidence, st.booleans())
def test_a_place_is_given_back_only_when_nothing_can_be_alive(state, seen, stopped):
    action = decide_recovery(state, seen, stopped=stopped).action
    if seen.shim_alive and state in LIVE:
        assert action is RecoveryAction.ADOPT
    if action is RecoveryAction.NEVER_STARTED:
        assert not (seen.shim_alive or seen.may_have_agent or seen.has_exit_file)
    if action is RecoveryAction.SWEEP:
        assert seen.is_reachable and not seen.shim_alive


@given(states, evidence, st.booleans())
def test_a_stop_changes_how_and_not_whether(state, seen, stopped):
    decision = decide_recovery(state, seen, stopped=stopped)
    assert decision.action is decide_recovery(state, seen, stopped=False).action
    assert decision.stop == (stopped and state is not RunState.ENDED)


@given(st.lists(events), st.lists(events))
def test_a_stored_tally_goes_on_as_if_it_had_never_been_stored(before, later):
    stored = load_tally(dump_tally(tally_events(before)))
    assert stored == load_tally(dump_tally(stored))
    assert shorten_tally(tally_events(later, stored)) == shorten_tally(
        tally_events([*before, *later])
    )


def test_no_tally_is_an_empty_one_and_a_huge_text_is_cut():
    assert load_tally(None) == StreamTally()
    huge = tally_events([Text("x" * 10_000_000), Finished(ok=True, text="\0\ud800" * 5000)])
    kept = load_tally(dump_tally(huge))
    assert len(kept.last_text) == MAX_TEXT_CHARS
    assert len(dump_tally(huge)) < 40_000
    assert kept == shorten_tally(huge)


def test_a_stored_tally_tells_no_secret_that_we_know():
    secret = "a-secret-of-ours"
    register_secret(secret)
    try:
        said = [Text("x" * (MAX_TEXT_CHARS - 5) + secret), SessionEvent(secret)]
        kept = shorten_tally(tally_events([*said, Finished(ok=True, text=f"It is {secret}.")]))
    finally:
        unregister_secret(secret)
    assert "a-sec" not in dump_tally(kept)
    assert len(kept.last_text) == MAX_TEXT_CHARS


@given(verdicts, exits, st.lists(events), st.none() | texts.map(lambda text: text + "!"))
def test_the_stored_verdict_is_the_verdict_and_a_stop_comes_first(verdict, exit, heard, stop):
    columns = verdict_columns(RunEnding(verdict, exit, True, tally_events(heard)), stop)
    run = a_run(**columns | {"counted": True, "stop_why": stop})
    expected = apply_stop_request(verdict, stop)
    found = verdict_of(run)
    assert (found.outcome, found.decided_by) == (expected.outcome, expected.decided_by)
    assert (found.result, found.limit) == (verdict.result, verdict.limit)
    if stop is not None:
        assert found.decided_by is DecidedBy.STOP
        assert next_action(run) is NextAction.STOP
    assert abs(run.exit_code or 0) < 2**31
    assert max(run.input_tokens, run.output_tokens) <= 2**53
    assert json.loads(columns["tally"])


@given(texts.map(lambda text: text + "@everybody"))
def test_a_stop_that_nobody_asked_for_stops_no_task_and_is_not_quoted(said):
    end = judge_run(RunEnd(EndedBy.STOP, reason=said), by_itself)
    run = a_run(
        **verdict_columns(RunEnding(end, ProcessExit(EndedBy.STOP), True), None) | {"counted": True}
    )
    assert verdict_of(run).outcome is Outcome.CRASH and next_action(run) is NextAction.RETRY
    assert "@everybody" not in run.why
    asked = verdict_columns(RunEnding(end, ProcessExit(EndedBy.STOP), True), "by ada")
    assert asked["outcome"] == "interrupted" and asked["why"].endswith(": by ada")


def by_itself(_code, _tally):
    raise AssertionError("its own word was not asked for")


def test_a_stop_that_came_after_the_outcome_still_counts():
    run = a_run(outcome="success", decided_by="result")
    assert next_action(run) is NextAction.FINISH
    assert next_action(replace(run, stop_why="later")) is NextAction.STOP


def test_a_run_without_an_agent_does_not_count():
    ending = ending_without_agent(Outcome.CONFIG, "No program.")
    assert verdict_columns(ending, None)["counted"] == 0
    never = a_run(outcome="never_started", decided_by="never_started")
    assert next_action(never) is NextAction.RETRY
    for run in (never, a_run()):
        with pytest.raises(ValueError, match="no outcome"):
            verdict_of(run)


def test_an_exit_has_no_reason_unless_one_is_given_and_a_long_one_is_cut():
    assert ProcessExit(EndedBy.EXIT).reason == parse_exit({"ended_by": "exit"}).reason == ""
    assert parse_exit({"reason": "x" * 501}).reason == "x" * 500


def test_the_first_signal_is_named():
    assert "SIGHUP" in judge_exit_code(-1).why


moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


@given(moments, moments)
def test_names_of_runs_sort_by_age(one, other):
    first, second = sorted([one, other])
    if run_id(first, "") != run_id(second, ""):
        assert run_id(first, "ffffff") < run_id(second, "000000")


def test_a_name_can_be_read_out():
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    assert run_id(moment, "9f3a1c") == "20260102-030405-678-9f3a1c"
    assert run_folder_path("p", "t1", "r1") == "projects/p/tasks/t1/runs/r1"


def test_the_package_names_all_its_modules():
    described = hostler.runs.__doc__ or ""
    for path in Path(hostler.runs.__file__).parent.glob("[a-z]*.py"):
        assert f"`{path.stem}`" in described, path.stem

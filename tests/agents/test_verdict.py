"""One pure decision from everything known at the end of a run."""

from __future__ import annotations

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.agents.adapters.command import CommandAdapter
from hostler.agents.events import Finished, LimitSignal, StreamTally, Text, tally_events
from hostler.agents.outcomes import LIMIT_OUTCOMES, Outcome
from hostler.agents.result import (
    FAULT_SENTENCES,
    AgentResult,
    DoneFile,
    ResultFault,
    ResultReading,
    ResultStatus,
)
from hostler.agents.scripted.adapter import ScriptedAdapter
from hostler.agents.verdict import (
    LOST_EXIT,
    DecidedBy,
    EndedBy,
    ProcessExit,
    RunEnd,
    judge_exit_code,
    judge_run,
    parse_exit,
)

RESULTS = {status: AgentResult(status=status, question="Why?") for status in ResultStatus}
readings = st.one_of(
    st.sampled_from([ResultReading(result) for result in RESULTS.values()]),
    st.sampled_from([ResultReading(None, fault, FAULT_SENTENCES[fault]) for fault in ResultFault]),
)
limits = st.builds(LimitSignal, st.sampled_from(sorted(LIMIT_OUTCOMES)))
finishes = st.builds(Finished, st.booleans(), st.none() | st.sampled_from(Outcome), st.text())
tallies = st.builds(StreamTally, limit=st.none() | limits, finished=st.none() | finishes)
ends = st.builds(
    RunEnd,
    st.sampled_from(EndedBy),
    st.none() | st.integers(-64, 255),
    tallies,
    readings,
    st.sampled_from([DoneFile(), DoneFile(marked=True), DoneFile(wrong="DONE is a folder.")]),
)
kinds = st.sampled_from([CommandAdapter(), ScriptedAdapter()])


@given(ends, kinds)
def test_any_end_gets_a_verdict_with_a_sentence(end, kind):
    verdict = judge_run(end, kind.program_verdict)
    assert verdict.why
    assert verdict.result == end.result.result
    assert verdict.limit == end.tally.limit
    assert verdict == judge_run(end, kind.program_verdict)


@given(ends, kinds)
def test_the_first_fact_that_holds_decides(end, kind):
    verdict = judge_run(end, kind.program_verdict)
    if end.ended_by not in {EndedBy.EXIT, EndedBy.LOST, EndedBy.SHIM_FAILED}:
        assert verdict.decided_by.value == end.ended_by.value
    elif end.done.wrong or end.done.marked:
        assert verdict.decided_by is DecidedBy.DONE
    elif end.result.result is not None:
        assert verdict.decided_by is DecidedBy.RESULT
    elif end.ended_by is not EndedBy.EXIT:
        assert verdict.decided_by is DecidedBy.LOST
        assert verdict.outcome is Outcome.CRASH
    else:
        assert verdict.decided_by in {DecidedBy.STREAM, DecidedBy.EXIT_CODE, DecidedBy.RESULT}


@given(ends, kinds)
def test_what_we_stopped_is_never_a_success(end, kind):
    verdict = judge_run(end, kind.program_verdict)
    if end.ended_by is EndedBy.STOP:
        assert verdict.outcome is Outcome.INTERRUPTED


@given(ends, kinds)
def test_success_rests_on_a_declaration_or_on_exit_code_0(end, kind):
    verdict = judge_run(end, kind.program_verdict)
    if verdict.outcome is Outcome.SUCCESS:
        assert verdict.declared or end.exit_code == 0


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (ResultStatus.DONE, Outcome.SUCCESS),
        (ResultStatus.BLOCKED, Outcome.BLOCKED),
        (ResultStatus.NEEDS_INPUT, Outcome.NEEDS_INPUT),
    ],
)
def test_a_valid_result_beats_the_exit_code(status, outcome):
    end = RunEnd(EndedBy.EXIT, 1, result=ResultReading(RESULTS[status]))
    verdict = judge_run(end, CommandAdapter().program_verdict)
    assert (verdict.outcome, verdict.decided_by) == (outcome, DecidedBy.RESULT)


def test_done_beats_a_question():
    end = RunEnd(
        EndedBy.EXIT,
        0,
        result=ResultReading(RESULTS[ResultStatus.NEEDS_INPUT]),
        done=DoneFile(marked=True),
    )
    assert judge_run(end, CommandAdapter().program_verdict).outcome is Outcome.SUCCESS


@pytest.mark.parametrize(
    "fault", [fault for fault in ResultFault if fault is not ResultFault.MISSING]
)
def test_a_result_that_cannot_be_used_spoils_a_success_and_says_why(fault):
    end = RunEnd(EndedBy.EXIT, 0, result=ResultReading(None, fault, FAULT_SENTENCES[fault]))
    verdict = judge_run(end, CommandAdapter().program_verdict)
    assert verdict.outcome is Outcome.BAD_RESULT
    assert verdict.why == FAULT_SENTENCES[fault]


def test_a_rate_limit_is_not_hidden_by_a_bad_result():
    wrong = ResultReading(None, ResultFault.CUT_OFF, FAULT_SENTENCES[ResultFault.CUT_OFF])
    end = RunEnd(EndedBy.EXIT, 1, tally_events([LimitSignal(Outcome.RATE_LIMITED, 429)]), wrong)
    verdict = judge_run(end, ScriptedAdapter().program_verdict)
    assert verdict.outcome is Outcome.RATE_LIMITED
    assert FAULT_SENTENCES[ResultFault.CUT_OFF] in verdict.why


def test_exit_code_0_alone_is_a_success_that_nobody_declared():
    verdict = judge_run(RunEnd(EndedBy.EXIT, 0), CommandAdapter().program_verdict)
    assert verdict.outcome is Outcome.SUCCESS
    assert not verdict.declared


@pytest.mark.parametrize(
    ("code", "outcome", "word"),
    [
        (0, Outcome.SUCCESS, "0"),
        (1, Outcome.CRASH, "1"),
        (126, Outcome.CONFIG, "126"),
        (127, Outcome.CONFIG, "not found"),
        (137, Outcome.CRASH, "SIGKILL"),
        (-signal.SIGSEGV, Outcome.CRASH, "SIGSEGV"),
        (-99, Outcome.CRASH, "-99"),
        (None, Outcome.CRASH, "without"),
    ],
)
def test_what_an_exit_code_alone_says(code, outcome, word):
    verdict = judge_exit_code(code)
    assert verdict.outcome is outcome
    assert word in verdict.why


def test_a_scripted_success_needs_both_its_code_and_its_last_event():
    said = tally_events([Text("Hello"), Finished(True, Outcome.SUCCESS)])
    word = ScriptedAdapter().program_verdict
    assert word(0, said).outcome is Outcome.SUCCESS
    assert word(1, said).outcome is Outcome.CRASH
    assert word(0, StreamTally()).outcome is Outcome.CRASH


@given(st.integers(-64, 255).filter(bool), st.sampled_from(sorted(LIMIT_OUTCOMES)))
def test_a_limit_that_stands_at_a_failed_end_is_its_reason(code, reason):
    word = ScriptedAdapter().program_verdict
    assert word(code, tally_events([LimitSignal(reason)])).outcome is reason
    got_through = tally_events([LimitSignal(reason), Text("Got through after all.")])
    assert word(code, got_through).outcome not in LIMIT_OUTCOMES


@given(st.sampled_from([one for one in Outcome if one is not Outcome.SUCCESS]))
def test_the_class_in_the_last_event_is_believed(outcome):
    said = tally_events([Finished(False, outcome, "So it went.")])
    verdict = ScriptedAdapter().program_verdict(1, said)
    assert (verdict.outcome, verdict.decided_by) == (outcome, DecidedBy.STREAM)


@pytest.mark.parametrize(
    ("word", "exit"),
    [
        ({"ended_by": "exit", "exit_code": 3, "signal": None}, ProcessExit(EndedBy.EXIT, 3)),
        ({"ended_by": "exit", "signal": "SIGKILL"}, ProcessExit(EndedBy.EXIT, -signal.SIGKILL)),
        (
            {"ended_by": "not_started", "reason": "no such\nprogram"},
            ProcessExit(EndedBy.NOT_STARTED, None, "no such program"),
        ),
        ({"ended_by": "of old age", "exit_code": True, "signal": "SIGWHAT"}, LOST_EXIT),
        ({"ended_by": ["exit"], "reason": 5}, LOST_EXIT),
        ({}, LOST_EXIT),
    ],
)
def test_the_supervisors_last_word_is_read_with_care(word, exit):
    assert parse_exit(word) == exit


def test_a_program_that_is_not_there_is_a_matter_for_the_operator():
    end = RunEnd(EndedBy.NOT_STARTED, reason="my-agent: not found")
    verdict = judge_run(end, CommandAdapter().program_verdict)
    assert (verdict.outcome, verdict.decided_by) == (Outcome.CONFIG, DecidedBy.NOT_STARTED)
    assert "my-agent: not found" in verdict.why

"""One pure decision from everything known at the end of a run."""

from __future__ import annotations

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.agents.command import Command
from hostler.agents.donefile import Done
from hostler.agents.events import Finished, LimitSignal, Text
from hostler.agents.exitcodes import by_exit_code
from hostler.agents.exitword import LOST, Exit, read_word
from hostler.agents.outcomes import LIMITS, Outcome
from hostler.agents.result import Result, Status
from hostler.agents.resultfile import SENTENCES, Fault, Reading
from hostler.agents.scripted import Scripted
from hostler.agents.tally import Tally, tally
from hostler.agents.verdict import DecidedBy, End, EndedBy, judge

RESULTS = {status: Result(status=status, question="Why?") for status in Status}
readings = st.one_of(
    st.sampled_from([Reading(result) for result in RESULTS.values()]),
    st.sampled_from([Reading(None, fault, SENTENCES[fault]) for fault in Fault]),
)
limits = st.builds(LimitSignal, st.sampled_from(sorted(LIMITS)))
finishes = st.builds(Finished, st.booleans(), st.none() | st.sampled_from(Outcome), st.text())
tallies = st.builds(Tally, limit=st.none() | limits, finished=st.none() | finishes)
ends = st.builds(
    End,
    st.sampled_from(EndedBy),
    st.none() | st.integers(-64, 255),
    tallies,
    readings,
    st.sampled_from([Done(), Done(marked=True), Done(wrong="DONE is a folder.")]),
)
kinds = st.sampled_from([Command(), Scripted()])


@given(ends, kinds)
def test_any_end_gets_a_verdict_with_a_sentence(end, kind):
    verdict = judge(end, kind.own_word)
    assert verdict.why
    assert verdict.result == end.result.result
    assert verdict.limit == end.tally.limit
    assert verdict == judge(end, kind.own_word)


@given(ends, kinds)
def test_the_first_fact_that_holds_decides(end, kind):
    verdict = judge(end, kind.own_word)
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
    verdict = judge(end, kind.own_word)
    if end.ended_by is EndedBy.STOP:
        assert verdict.outcome is Outcome.INTERRUPTED


@given(ends, kinds)
def test_success_rests_on_a_declaration_or_on_exit_code_0(end, kind):
    verdict = judge(end, kind.own_word)
    if verdict.outcome is Outcome.SUCCESS:
        assert verdict.declared or end.exit_code == 0


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (Status.DONE, Outcome.SUCCESS),
        (Status.BLOCKED, Outcome.BLOCKED),
        (Status.NEEDS_INPUT, Outcome.NEEDS_INPUT),
    ],
)
def test_a_valid_result_beats_the_exit_code(status, outcome):
    end = End(EndedBy.EXIT, 1, result=Reading(RESULTS[status]))
    verdict = judge(end, Command().own_word)
    assert (verdict.outcome, verdict.decided_by) == (outcome, DecidedBy.RESULT)


def test_done_beats_a_question():
    end = End(EndedBy.EXIT, 0, result=Reading(RESULTS[Status.NEEDS_INPUT]), done=Done(marked=True))
    assert judge(end, Command().own_word).outcome is Outcome.SUCCESS


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.MISSING])
def test_a_result_that_cannot_be_used_spoils_a_success_and_says_why(fault):
    end = End(EndedBy.EXIT, 0, result=Reading(None, fault, SENTENCES[fault]))
    verdict = judge(end, Command().own_word)
    assert verdict.outcome is Outcome.BAD_RESULT
    assert verdict.why == SENTENCES[fault]


def test_a_rate_limit_is_not_hidden_by_a_bad_result():
    wrong = Reading(None, Fault.CUT_OFF, SENTENCES[Fault.CUT_OFF])
    end = End(EndedBy.EXIT, 1, tally([LimitSignal(Outcome.RATE_LIMITED, 429)]), wrong)
    verdict = judge(end, Scripted().own_word)
    assert verdict.outcome is Outcome.RATE_LIMITED
    assert SENTENCES[Fault.CUT_OFF] in verdict.why


def test_exit_code_0_alone_is_a_success_that_nobody_declared():
    verdict = judge(End(EndedBy.EXIT, 0), Command().own_word)
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
    verdict = by_exit_code(code)
    assert verdict.outcome is outcome
    assert word in verdict.why


def test_a_scripted_success_needs_both_its_code_and_its_last_event():
    said = tally([Text("Hello"), Finished(True, Outcome.SUCCESS)])
    word = Scripted().own_word
    assert word(0, said).outcome is Outcome.SUCCESS
    assert word(1, said).outcome is Outcome.CRASH
    assert word(0, Tally()).outcome is Outcome.CRASH


@given(st.integers(-64, 255).filter(bool), st.sampled_from(sorted(LIMITS)))
def test_a_limit_that_stands_at_a_failed_end_is_its_reason(code, reason):
    word = Scripted().own_word
    assert word(code, tally([LimitSignal(reason)])).outcome is reason
    got_through = tally([LimitSignal(reason), Text("Got through after all.")])
    assert word(code, got_through).outcome not in LIMITS


@given(st.sampled_from([one for one in Outcome if one is not Outcome.SUCCESS]))
def test_the_class_in_the_last_event_is_believed(outcome):
    said = tally([Finished(False, outcome, "So it went.")])
    verdict = Scripted().own_word(1, said)
    assert (verdict.outcome, verdict.decided_by) == (outcome, DecidedBy.STREAM)


@pytest.mark.parametrize(
    ("word", "exit"),
    [
        ({"ended_by": "exit", "exit_code": 3, "signal": None}, Exit(EndedBy.EXIT, 3)),
        ({"ended_by": "exit", "signal": "SIGKILL"}, Exit(EndedBy.EXIT, -signal.SIGKILL)),
        (
            {"ended_by": "not_started", "reason": "no such\nprogram"},
            Exit(EndedBy.NOT_STARTED, None, "no such program"),
        ),
        ({"ended_by": "of old age", "exit_code": True, "signal": "SIGWHAT"}, LOST),
        ({"ended_by": ["exit"], "reason": 5}, LOST),
        ({}, LOST),
    ],
)
def test_the_supervisors_last_word_is_read_with_care(word, exit):
    assert read_word(word) == exit


def test_a_program_that_is_not_there_is_a_matter_for_the_operator():
    end = End(EndedBy.NOT_STARTED, reason="my-agent: not found")
    verdict = judge(end, Command().own_word)
    assert (verdict.outcome, verdict.decided_by) == (Outcome.CONFIG, DecidedBy.NOT_STARTED)
    assert "my-agent: not found" in verdict.why

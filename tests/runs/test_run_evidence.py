"""What is seen of a run, what becomes of it, and what its stream says of its provider."""

from __future__ import annotations

import fcntl
import json
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from hostler.agents.events import Headroom, LimitSignal, Retrying, StreamTally, Text, ToolUse, Usage
from hostler.agents.outcomes import Outcome
from hostler.agents.result import AgentResult, DoneFile, ResultFault, ResultReading, ResultStatus
from hostler.agents.verdict import DecidedBy, EndedBy, RunEnd, RunVerdict, judge_run
from hostler.runs import run_folder
from hostler.runs.outcome import (
    Limit,
    ProviderSignals,
    append_limit,
    death_signals,
    dump_limit,
    find_limit,
    live_signals,
    starts_response,
)
from hostler.runs.run_folder import (
    is_alive,
    is_locked,
    read_evidence,
    read_exit_file,
    read_shim_file,
    stored_shim,
)
from hostler.runs.states import (
    RecoveryAction,
    RecoveryDecision,
    RunEvidence,
    RunMove,
    decide_recovery,
    next_run_state,
    run_folder_path,
    run_id,
)
from hostler.shim import processes
from hostler.store.governor import Signal, Source
from hostler.store.runs import Run, RunState

RUN = Run("r1", "t1", "yard", 1, 1, "work", "helper", "claude", "anthropic", "runs/r1", "2026")
BURST = LimitSignal(Outcome.RATE_LIMITED, 429, 2.0, "2026-03-01T00:00:00.000Z")


@pytest.fixture
def mine():
    """The identity of this very process."""
    return processes.current_identity()


def known(shim):
    return replace(RUN, shim=json.dumps(shim))


@contextmanager
def locked(folder):
    with (folder / "run.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# -- evidence --------------------------------------------------------------------------------------


def test_nothing_is_known_of_a_run_without_a_shim(tmp_path):
    assert read_evidence(tmp_path, RUN) == RunEvidence(False, False, False, True)
    (tmp_path / "stdout.log").write_text("x")
    assert not read_evidence(tmp_path, RUN).may_have_agent


def test_a_held_lock_means_that_the_shim_lives(tmp_path):
    assert not is_locked(tmp_path)
    with locked(tmp_path):
        assert is_locked(tmp_path) and is_alive(tmp_path, None)
        assert read_evidence(tmp_path, RUN).shim_alive
    assert (tmp_path / "run.lock").is_file() and not is_locked(tmp_path)


def test_something_else_in_place_of_the_lock_is_no_lock(tmp_path):
    (tmp_path / "run.lock").mkdir()
    assert not is_locked(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    with locked(tmp_path / "other"):
        (tmp_path / "run.lock").rmdir()
        (tmp_path / "run.lock").symlink_to(other / "run.lock")
        assert not is_locked(tmp_path)


def test_a_shim_lives_as_the_very_process_that_is_known(tmp_path, mine):
    assert is_alive(tmp_path, mine)
    assert not is_alive(tmp_path, {**mine, "start_ticks": 1})
    assert not is_alive(tmp_path, {**mine, "boot_id": "x", "host": "elsewhere"})
    assert not is_alive(tmp_path, None)
    assert read_evidence(tmp_path, known(mine)).shim_alive


def test_what_is_left_of_a_run_is_within_reach_unless_it_ran_elsewhere(tmp_path, mine):
    assert read_evidence(tmp_path, known(mine)).is_reachable
    rebooted = {**mine, "boot_id": "x"}
    assert read_evidence(tmp_path, known(rebooted)).is_reachable
    elsewhere = {**rebooted, "host": "elsewhere"}
    assert not read_evidence(tmp_path, known(elsewhere)).is_reachable
    assert stored_shim(known(mine)) == mine and stored_shim(RUN) is None


def test_the_last_word_is_what_can_be_read_of_it(tmp_path):
    assert read_exit_file(tmp_path) is None
    (tmp_path / "exit.json").write_text('{"code": 3}')
    assert read_exit_file(tmp_path) == {"code": 3} and read_evidence(tmp_path, RUN).has_exit_file
    (tmp_path / "exit.json").write_text("{")
    assert read_exit_file(tmp_path) is None and not read_evidence(tmp_path, RUN).has_exit_file
    (tmp_path / "shim.json").write_text('{"pid": 4}')
    assert read_shim_file(tmp_path) == {"pid": 4}


@pytest.fixture
def traced(tmp_path, mine):
    """Whether there may have been an agent, in a folder that a shim once had."""
    dead = {**mine, "start_ticks": 1}
    (tmp_path / "run.lock").touch()

    def ask():
        return read_evidence(tmp_path, known(dead)).may_have_agent

    return ask


def test_a_shim_that_waits_has_started_no_agent(tmp_path, traced):
    assert not traced()
    (tmp_path / "shim.json").write_text('{"state": "waiting"}')
    assert not traced()


def test_a_shim_that_says_so_has_started_an_agent(tmp_path, traced):
    (tmp_path / "shim.json").write_text('{"state": "started"}')
    assert traced()


@pytest.mark.parametrize("name", [run_folder.STDOUT_FILE, run_folder.STDERR_FILE])
def test_output_is_a_trace_of_an_agent(tmp_path, traced, name):
    (tmp_path / name).touch()
    assert traced()


def test_where_nobody_can_tell_there_may_have_been_an_agent(tmp_path, traced):
    (tmp_path / "shim.json").write_text("{")
    assert traced()
    (tmp_path / "shim.json").unlink()
    (tmp_path / "run.lock").unlink()
    assert traced()


# -- recovery --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seen", "action"),
    [
        (RunEvidence(True, True, True, False), RecoveryAction.ADOPT),
        (RunEvidence(False, True, True, False), RecoveryAction.CONCLUDE),
        (RunEvidence(False, False, False, False), RecoveryAction.NEVER_STARTED),
        (RunEvidence(False, False, True, True), RecoveryAction.SWEEP),
        (RunEvidence(False, False, True, False), RecoveryAction.LEAVE_ALONE),
        (RunEvidence(False), RecoveryAction.NEVER_STARTED),
        (RunEvidence(False, may_have_agent=True), RecoveryAction.SWEEP),
    ],
)
@pytest.mark.parametrize("stopped", [True, False])
def test_what_becomes_of_a_run_that_somebody_else_began(seen, action, stopped):
    for state in (RunState.ADMITTED, RunState.STARTING, RunState.RUNNING):
        assert decide_recovery(state, seen, stopped=stopped) == RecoveryDecision(action, stopped)
    for state in (RunState.EXITED, RunState.FINISHING):
        assert decide_recovery(state, seen, stopped=stopped) == RecoveryDecision(
            RecoveryAction.FINISH, stopped
        )
    assert decide_recovery(RunState.ENDED, seen, stopped=stopped) == RecoveryDecision(
        RecoveryAction.NOTHING, False
    )


def test_what_is_not_said_of_a_run_is_not_there_but_within_reach():
    assert RunEvidence(False) == RunEvidence(False, False, False, True)
    assert RunEnd(EndedBy.EXIT).reason == ""


def test_a_stop_bars_what_would_start_something():
    assert next_run_state(RunState.STARTING, RunMove.GO) is RunState.RUNNING
    assert next_run_state(RunState.STARTING, RunMove.GO, stopped=True) is None
    assert next_run_state(RunState.ADMITTED, RunMove.NEVER_STARTED, stopped=True) is None
    assert next_run_state(RunState.ADMITTED, RunMove.NEVER_STARTED) is RunState.ENDED
    assert next_run_state(RunState.ADMITTED, RunMove.LOCKED, stopped=True) is RunState.STARTING
    assert next_run_state(RunState.RUNNING, RunMove.LOCKED) is None


def test_a_run_is_named_by_its_moment_in_utc():
    moment = datetime(2026, 1, 2, 5, 4, 5, 678_999, tzinfo=timezone(timedelta(hours=2)))
    assert run_id(moment, "9f3a1c") == "20260102-030405-678-9f3a1c"
    assert run_id(datetime(2026, 1, 2, tzinfo=UTC), "x") == "20260102-000000-000-x"
    assert run_folder_path("p", "t", "r") == "projects/p/tasks/t/runs/r"


# -- what a stream says ----------------------------------------------------------------------------


def test_there_is_something_to_tell_if_anything_was_heard():
    assert not ProviderSignals()
    assert (
        ProviderSignals(limits=(Limit(BURST),))
        and ProviderSignals(headrooms=(Headroom(0.5),))
        and ProviderSignals(responses=1)
    )


def test_a_message_that_comes_in_several_lines_is_one_answer():
    fresh, known_one = StreamTally(), StreamTally(parts=(Usage(of="m1"), Usage(of="m2")))
    assert starts_response([Usage(of="m1")], fresh)
    assert not starts_response([Usage(of="m1")], known_one)
    assert starts_response([Usage(of="m3")], known_one)
    # The last named message of a line counts.
    assert starts_response([Usage(of="m1"), Usage(of="m3")], known_one)
    assert not starts_response([Usage(of="m3"), Usage(of="m1")], known_one)
    # A name tells more than the words beside it.
    assert not starts_response([Text("more"), Usage(of="m1")], known_one)
    long = "m" * 150
    assert not starts_response([Usage(of=long)], StreamTally(parts=(Usage(of=long[:100]),)))
    assert starts_response([Usage(of=long)], StreamTally(parts=(Usage(of=long[:99]),)))


def test_without_a_name_words_and_tools_are_answers():
    assert starts_response([Text("Hello")], StreamTally()) and starts_response(
        [ToolUse("ls")], StreamTally()
    )
    assert starts_response([Text("Hel", delta=True)], StreamTally())
    assert starts_response([Text("Hello")], StreamTally(flowing=True))
    assert not starts_response([Text("lo", delta=True)], StreamTally(flowing=True))
    assert starts_response([Text("lo", delta=True), ToolUse("ls")], StreamTally(flowing=True))
    assert not starts_response([], StreamTally()) and not starts_response([Usage()], StreamTally())


def test_a_limit_is_a_signal_or_a_retry_for_one():
    assert find_limit(BURST) is BURST
    retry = Retrying(Outcome.RATE_LIMITED, 3.0, 429)
    assert find_limit(retry) == LimitSignal(Outcome.RATE_LIMITED, 429, 3.0)
    assert find_limit(Retrying(Outcome.CRASH)) is None and find_limit(Text("x")) is None


def test_the_same_limit_again_is_counted():
    later = replace(BURST, retry_after_seconds=9.0)
    found = append_limit(append_limit((), BURST), later)
    assert found == (Limit(later, 2),) and Limit(BURST).times == 1
    assert append_limit(found, later) == (Limit(later, 3),)
    for other in ({"reason": Outcome.OVERLOADED}, {"status": 500}, {"resets_at": "x"}):
        assert append_limit(found, replace(BURST, **other)) == (
            *found,
            Limit(replace(BURST, **other)),
        )
    both = (Limit(replace(BURST, status=1)), Limit(BURST, 5))
    assert append_limit(both, BURST) == (both[0], Limit(BURST, 6))


def test_rows_of_what_a_living_agent_told():
    wide = replace(BURST, status=70_000, resets_at="9" * 50)
    assert [*live_signals(RUN, [Limit(BURST, 4), Limit(wide)])] == [
        Signal("r1", "anthropic", "t1", "yard", Source.LIVE, "rate_limited", 429, 2.0,
               "2026-03-01T00:00:00.000Z", 4),
        Signal("r1", "anthropic", "t1", "yard", Source.LIVE, "rate_limited", 999, 2.0,
               "9" * 40, 1),
    ]  # fmt: skip


def test_a_run_that_a_limit_has_ended_tells_of_it_once():
    dead = replace(RUN, outcome="rate_limited", limit_signal=dump_limit(BURST))
    (row,) = death_signals(dead)
    assert (row.source, row.reason, row.status, row.times) == (Source.DEATH, "rate_limited", 429, 1)
    other = replace(dead, outcome="overloaded")
    assert [(one.reason, one.status) for one in death_signals(other)] == [("overloaded", 429)]
    bare = replace(dead, limit_signal=None)
    assert [(one.reason, one.status) for one in death_signals(bare)] == [("rate_limited", 0)]
    assert [*death_signals(replace(dead, outcome="crash"))] == []


# -- the verdict -----------------------------------------------------------------------------------

OWN = RunVerdict(Outcome.CRASH, DecidedBy.EXIT_CODE, "It crashed.")
GOOD = RunVerdict(Outcome.SUCCESS, DecidedBy.EXIT_CODE, "It ended well.")


def program_verdict(verdict):
    return lambda code, tally: verdict


def test_who_ended_a_run_comes_before_all_that_it_left():
    full = RunEnd(
        EndedBy.EXIT,
        0,
        result=ResultReading(AgentResult(status=ResultStatus.DONE)),
        done=DoneFile(marked=True),
    )
    for ended_by, outcome, by in (
        (EndedBy.STOP, Outcome.INTERRUPTED, DecidedBy.STOP),
        (EndedBy.WALL_TIMEOUT, Outcome.TIMEOUT, DecidedBy.WALL_TIMEOUT),
        (EndedBy.STALL, Outcome.STALLED, DecidedBy.STALL),
        (EndedBy.NOT_STARTED, Outcome.CONFIG, DecidedBy.NOT_STARTED),
    ):
        found = judge_run(replace(full, ended_by=ended_by), program_verdict(GOOD))
        assert (found.outcome, found.decided_by) == (outcome, by)
        assert found.result is full.result.result


def test_the_mark_comes_before_the_result_and_the_result_before_the_programs_word():
    marked = RunEnd(
        EndedBy.EXIT,
        result=ResultReading(AgentResult(status=ResultStatus.BLOCKED, question="Why?")),
        done=DoneFile(marked=True),
    )
    assert judge_run(marked, program_verdict(OWN)).decided_by is DecidedBy.DONE
    wrong = replace(marked, done=DoneFile(marked=True, wrong="DONE is a folder."))
    found = judge_run(wrong, program_verdict(OWN))
    assert (found.outcome, found.why) == (Outcome.BAD_RESULT, "DONE is a folder.")
    said = replace(marked, done=DoneFile())
    assert judge_run(said, program_verdict(GOOD)).outcome is Outcome.BLOCKED
    assert judge_run(RunEnd(EndedBy.EXIT), program_verdict(OWN)) == OWN


def test_only_a_mark_or_a_result_is_declared():
    assert replace(OWN, decided_by=DecidedBy.DONE).declared
    assert replace(OWN, decided_by=DecidedBy.RESULT).declared
    assert not OWN.declared and not replace(OWN, decided_by=DecidedBy.STREAM).declared


def test_what_nobody_saw_end_is_a_crash_whatever_its_stream_said():
    for ended_by in (EndedBy.LOST, EndedBy.SHIM_FAILED):
        found = judge_run(RunEnd(ended_by, 0), program_verdict(GOOD))
        assert (found.outcome, found.decided_by) == (Outcome.CRASH, DecidedBy.LOST)


def test_the_supervisors_reason_is_added_in_500_letters():
    def why(reason):
        return judge_run(RunEnd(EndedBy.STALL, reason=reason), program_verdict(OWN)).why

    plain = "It was silent for too long and was stopped."
    assert why("") == plain == why("  ")
    assert why("no output") == f"{plain} (`no output`)"
    assert why("x" * 500) == f"{plain} (`{'x' * 500}`)"
    assert len(why("x" * 501)) <= len(why("x" * 500))
    lost = judge_run(RunEnd(EndedBy.LOST, reason="gone"), program_verdict(OWN)).why
    assert lost == "It was lost together with its supervisor. (`gone`)"


def test_a_result_that_cannot_be_used_spoils_a_success_and_is_added_to_a_failure():
    fault = next(one for one in ResultFault if ResultReading(None, one, "No JSON.").wrong)
    spoiled = RunEnd(EndedBy.EXIT, result=ResultReading(None, fault, "No JSON."))
    sentence = spoiled.result.sentence
    found = judge_run(spoiled, program_verdict(GOOD))
    assert (found.outcome, found.decided_by, found.why) == (
        Outcome.BAD_RESULT,
        DecidedBy.RESULT,
        sentence,
    )
    failed = judge_run(spoiled, program_verdict(OWN))
    assert (failed.outcome, failed.why) == (Outcome.CRASH, f"It crashed. {sentence}")


def test_the_limit_that_stood_at_the_end_is_kept_unless_the_verdict_has_its_own():
    stood = RunEnd(EndedBy.EXIT, tally=StreamTally(limit=BURST))
    assert judge_run(stood, program_verdict(OWN)).limit is BURST
    own = replace(BURST, status=500)
    assert judge_run(stood, program_verdict(replace(OWN, limit=own))).limit is own

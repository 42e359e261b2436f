"""Wall and silence."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from shim_fixture import Shim, ShimRuns

from hostler.shim import processes, run_files
from hostler.shim import supervisor as run_module
from hostler.shim.agent import AgentActivity, AgentProcess
from hostler.shim.spec import RunSpec
from hostler.shim.supervisor import SupervisedRun

STAY = "here('agent')"
SMALLEST = {"run": "r1", "argv": ["true"], "cwd": "/", "env": {}}


def test_a_run_ends_at_its_wall_limit_even_if_it_talks(shim_runs: ShimRuns):
    code = "while True: print('working', flush=True); time.sleep(0.05)"
    word = shim_runs.run(code, wall_seconds=0.5, silence_seconds=60).run().exit_record()
    assert (word["ended_by"], word["signal"]) == ("wall_timeout", "SIGTERM")


def test_the_wall_limit_holds_against_a_tree_that_ignores_requests(shim_runs: ShimRuns):
    code = "child(lambda: deaf('tool'))\ndeaf('agent')"
    word = shim_runs.run(code, wall_seconds=0.5, grace_seconds=0.2).run().exit_record()
    assert word["ended_by"] == "wall_timeout"
    assert not shim_runs.left()


def test_a_silent_agent_is_stalled(shim_runs: ShimRuns):
    word = shim_runs.run(STAY, silence_seconds=0.5).run().exit_record()
    assert (word["ended_by"], word["signal"]) == ("stall", "SIGTERM")


@contextmanager
def seen_from_outside(shim: Shim, pid: int) -> Iterator[AgentProcess]:
    """The agent of a run, to be looked at as its shim does; the run ends with the block."""
    spec = RunSpec(run_files.read_json(str(shim.folder / run_files.SPEC_FILE)) or {})
    with (shim.folder / "stdout").open() as out, (shim.folder / "stderr").open() as err:
        yield AgentProcess(pid, (out.fileno(), err.fileno()), spec)
    shim.stop(grace=0)
    shim.wait()


def test_a_tool_in_a_session_of_its_own_is_at_work(shim_runs: ShimRuns):
    code = "os.waitpid(child(lambda: (os.setsid(), here('tool'))), 0)\n" + STAY
    shim = shim_runs.run(f"tell('agent', os.getpid())\n{code}").run()
    people = shim_runs.events.people("agent", "tool")
    with seen_from_outside(shim, people["agent"].pid) as agent:
        assert agent.read_activity(AgentActivity(0)).tool_runs
        os.kill(people["tool"].pid, signal.SIGKILL)
        shim_runs.events.people("agent")
        assert not agent.read_activity(AgentActivity(0)).tool_runs


def test_tools_that_are_too_short_to_be_met_are_known_by_the_account_of_children(
    shim_runs: ShimRuns,
):
    code = """
for _ in range(3):
    tell('agent', os.getpid())
    signal.sigwait([signal.SIGUSR2])
    os.waitpid(child(lambda: None), 0)
here('agent')
"""
    held = "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])\n"
    shim = shim_runs.run(held + code).run()
    accounts, process = [], shim_runs.events.people("agent")["agent"]
    with seen_from_outside(shim, process.pid) as agent:
        for _ in range(3):
            accounts.append(agent.read_activity(AgentActivity(0)).reaped)
            os.kill(process.pid, signal.SIGUSR2)
            shim_runs.events.people("agent")
        activity = agent.read_activity(AgentActivity(0))
    assert accounts == sorted({*accounts, activity.reaped})[:-1] and not activity.tool_runs


def test_what_is_written_on_either_stream_is_seen(shim_runs: ShimRuns):
    code = """
tell('agent', os.getpid())
for stream in (sys.stdout, sys.stderr):
    print('.', file=stream, flush=True)
here('agent')
"""
    shim = shim_runs.run(code).run()
    shim_runs.events.people("agent")
    process = shim_runs.events.people("agent")["agent"]
    with seen_from_outside(shim, process.pid) as agent:
        assert agent.read_activity(AgentActivity(0)).written == 4


@pytest.mark.parametrize(
    ("activity", "ended_by"),
    [
        (lambda number: AgentActivity(0), "stall"),
        (lambda number: AgentActivity(number), None),
        (lambda number: AgentActivity(0, reaped=number), None),
        (lambda number: AgentActivity(0, tool_runs=True), None),
    ],
    ids=["silent", "talks", "uses short tools", "uses a long tool"],
)
def test_a_shim_ends_an_agent_only_for_silence(monkeypatch, activity, ended_by):
    now, delays = 0.0, 0

    class Seen:
        def read_activity(self, _before):
            return activity(delays)

    def exits_within(seconds):
        nonlocal now, delays
        now, delays = now + seconds, delays + 1
        return now > 1000

    shim_run = SupervisedRun(RunSpec({**SMALLEST, "silence_seconds": 100}), {})
    monkeypatch.setattr(run_module, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(shim_run, "_exits_within", exits_within)
    assert shim_run._until_over(Seen()) == (ended_by or "exit")
    assert now == pytest.approx(100 if ended_by else 1000, abs=20)


def test_silence_counts_again_when_the_tool_has_ended(shim_runs: ShimRuns):
    code = "os.waitpid(child(lambda: time.sleep(0.5)), 0)\n" + STAY
    assert shim_runs.run(code, silence_seconds=0.5).run().exit_record()["ended_by"] == "stall"


# A script that starts its program, which keeps a server.
WRAPPED = """
def program():
    child(lambda: (os.setpgid(0, 0), here('server')))
    %s
os.waitpid(child(program), 0)
"""


def test_a_program_below_its_script_is_no_tool_where_tools_are_apart(shim_runs: ShimRuns):
    code = WRAPPED % "here('program')"
    shim = shim_runs.run(code, silence_seconds=0.5, tools_apart=True).run()
    assert shim.exit_record()["ended_by"] == "stall"


@pytest.mark.parametrize(("apart", "is_tool"), [(True, False), (False, True)])
def test_a_tool_apart_is_one_and_without_that_word_everything_is(
    shim_runs: ShimRuns, apart, is_tool
):
    shim = shim_runs.run(WRAPPED % "here('program')", tools_apart=apart).run()
    program = shim_runs.events.people("server", "program")["program"]
    with seen_from_outside(shim, program.parent) as agent:
        assert agent.read_activity(AgentActivity(0)).tool_runs is is_tool


def test_a_tool_below_a_program_below_its_script_is_waited_for(shim_runs: ShimRuns):
    tool = "os.waitpid(child(lambda: (os.setsid(), here('tool'))), 0)"
    shim = shim_runs.run(WRAPPED % tool, tools_apart=True).run()
    program = processes.read_process(shim_runs.events.people("server", "tool")["tool"].parent)
    with seen_from_outside(shim, program.parent) as agent:
        assert agent.read_activity(AgentActivity(0)).tool_runs


def test_a_daemon_that_left_the_agent_is_no_tool(shim_runs: ShimRuns):
    code = """
def first():
    os.setsid()
    child(lambda: here('daemon'))
os.waitpid(child(first), 0)
here('agent')
"""
    assert shim_runs.run(code, silence_seconds=0.5).run().exit_record()["ended_by"] == "stall"


def test_without_limits_a_run_lasts(shim_runs: ShimRuns):
    shim = shim_runs.run(STAY, wall_seconds=0, silence_seconds=0).run()
    shim_runs.events.people("agent")
    shim.stop()
    assert shim.exit_record()["ended_by"] == "stop"


TAKES = """
import mmap
reserved = mmap.mmap(-1, 4 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ)
def take():
    try:
        bytearray(256 << 20)
    except MemoryError:
        return 7
    return 0
pid = child(lambda: os._exit(take()))
_, status = os.waitpid(pid, 0)
print(take(), os.waitstatus_to_exitcode(status))
"""


def test_a_process_gets_no_more_memory_than_it_may_have(shim_runs: ShimRuns):
    shim = shim_runs.run(TAKES, memory_mb=128).run()
    assert shim.exit_record()["ended_by"] == "exit"
    assert shim.output() == "7 7\n"
    free = shim_runs.run(TAKES, name="free").run()
    free.wait()
    assert free.output() == "0 0\n"

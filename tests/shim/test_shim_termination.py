"""The whole tree ends, however it was planted."""

from __future__ import annotations

import json
import os
import signal

import pytest
from shim_fixture import ShimRuns, gone

from hostler.shim import processes, run_files

OTHER_SESSION = """
def tool():
    os.setsid()
    child(lambda: here('grandchild'))
    here('tool')
child(tool)
"""
DAEMON = """
def first():
    os.setsid()
    child(lambda: here('daemon'))
os.waitpid(child(first), 0)
"""
STAY = "here('agent')"


def test_children_in_other_sessions_end_with_the_agent(shim_runs: ShimRuns):
    shim = shim_runs.run(OTHER_SESSION + STAY).run()
    people = shim_runs.events.people("agent", "tool", "grandchild")
    shim.stop()
    word = shim.exit_record()
    assert (word["ended_by"], word["signal"], word["killed"]) == ("stop", "SIGTERM", 0)
    assert all(map(gone, people.values()))


def test_a_daemon_that_forked_twice_ends_with_the_agent(shim_runs: ShimRuns):
    shim = shim_runs.run(DAEMON + STAY).run()
    people = shim_runs.events.people("agent", "daemon")
    shim.stop()
    assert shim.exit_record()["killed"] == 0
    assert all(map(gone, people.values()))


def test_what_an_agent_leaves_behind_when_it_exits_is_ended(shim_runs: ShimRuns):
    leave = "signal.signal(signal.SIGUSR1, lambda *_: os._exit(4))\n"
    shim = shim_runs.run(DAEMON + OTHER_SESSION + leave + STAY).run()
    people = shim_runs.events.people("agent", "daemon", "tool", "grandchild")
    os.kill(people["agent"].pid, signal.SIGUSR1)
    word = shim.exit_record()
    assert (word["ended_by"], word["exit_code"], word["left_over"]) == ("exit", 4, 3)
    assert not shim_runs.left()


def test_whoever_ignores_the_request_is_killed_after_the_grace(shim_runs: ShimRuns):
    shim = shim_runs.run("child(lambda: deaf('tool'))\ndeaf('agent')").run()
    shim_runs.events.people("agent", "tool")
    shim.stop(grace=0.3)
    word = shim.exit_record()
    assert (word["signal"], word["killed"]) == ("SIGKILL", 2)


def test_an_agent_that_cleans_up_within_the_grace_may_do_so(shim_runs: ShimRuns):
    code = """
def leave(*_):
    print('bye', flush=True)
    sys.exit(7)
signal.signal(signal.SIGTERM, leave)
here('agent')
"""
    shim = shim_runs.run(code).run()
    shim_runs.events.people("agent")
    shim.stop()
    word = shim.exit_record()
    assert (word["ended_by"], word["exit_code"], word["killed"]) == ("stop", 7, 0)
    assert shim.output() == "bye\n"


def test_stopped_processes_hear_the_request_too(shim_runs: ShimRuns):
    shim = shim_runs.run("child(lambda: here('tool'))\nhere('agent')").run()
    people = shim_runs.events.people("agent", "tool")
    for process in people.values():
        os.kill(process.pid, signal.SIGSTOP)
    shim.stop()
    assert shim.exit_record()["killed"] == 0


def test_a_stopped_process_that_ignores_the_request_is_killed(shim_runs: ShimRuns):
    shim = shim_runs.run("deaf('agent')").run()
    os.kill(shim_runs.events.people("agent")["agent"].pid, signal.SIGSTOP)
    shim.stop(grace=0.1)
    assert shim.exit_record()["signal"] == "SIGKILL"


RESPAWNERS = {"in its group": "pass", "in ever new sessions": "os.setsid()"}


@pytest.mark.parametrize("where", RESPAWNERS)
def test_who_forks_while_being_killed_is_caught(shim_runs: ShimRuns, where):
    """Each generation plants the next and goes; bounded, should the shim never catch one."""
    code = f"""
def respawn():
    for generation in range(20_000):
        if os.fork():
            os._exit(0)
        {RESPAWNERS[where]}
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if generation == 20:
            tell('respawning')
child(respawn)
deaf('agent')
"""
    shim = shim_runs.run(code).run()
    while shim_runs.events.next()[0] != "respawning":
        pass
    shim.stop(grace=0)
    word = shim.exit_record()
    assert word["ended_by"] == "stop"
    assert not shim_runs.left()


def test_a_crowd_ends(shim_runs: ShimRuns):
    code = """
for n in range(60):
    child(lambda: (os.setsid() if n % 2 else None, deaf(f'tool{n}')))
deaf('agent')
"""
    shim = shim_runs.run(code).run()
    shim_runs.events.people("agent", *(f"tool{n}" for n in range(60)))
    shim.stop(grace=0.1)
    assert shim.exit_record()["killed"] == 61


def test_an_agent_killed_by_somebody_else_takes_its_tree_along(shim_runs: ShimRuns):
    shim = shim_runs.run(OTHER_SESSION + STAY).run()
    people = shim_runs.events.people("agent", "tool", "grandchild")
    os.kill(people["agent"].pid, signal.SIGKILL)
    word = shim.exit_record()
    assert (word["ended_by"], word["exit_code"], word["signal"]) == ("exit", None, "SIGKILL")
    assert word["left_over"] == 2
    assert not shim_runs.left()


def test_a_process_whose_first_thread_has_ended_is_alive(shim_runs: ShimRuns):
    code = """
import ctypes, threading
exit_thread = {'x86_64': 60, 'aarch64': 93}[os.uname().machine]
def go_on():
    while open(f'/proc/{os.getpid()}/stat').read().split()[2] != 'Z':
        os.sched_yield()
    tell('agent', os.getpid())
    threading.Event().wait()
threading.Thread(target=go_on).start()
ctypes.CDLL(None).syscall(exit_thread, 0)
"""
    if os.uname().machine not in ("x86_64", "aarch64"):
        pytest.skip("the number of the system call is not known here")
    shim = shim_runs.run(code).run()
    agent = shim_runs.events.people("agent")["agent"]
    assert not agent.zombie
    shim.stop(grace=0)
    assert shim.exit_record()["killed"] == 1
    assert processes.read_process(agent.pid) is None


def test_a_stop_before_go_means_that_no_agent_is_started(shim_runs: ShimRuns):
    shim = shim_runs.run("tell('never')").start()
    shim.ready()
    shim.stop("changed my mind")
    word = shim.go().exit_record()
    assert (word["ended_by"], word["reason"]) == ("stop", "changed my mind")
    assert word["started_at"] is None
    assert not (shim.folder / "stdout").exists()


def test_a_stop_after_the_end_changes_nothing(shim_runs: ShimRuns):
    shim = shim_runs.run().run()
    before = shim.exit_record()
    (shim.folder / "stop.json").write_text("{}")
    assert json.loads((shim.folder / "exit.json").read_text()) == before


def test_a_second_stop_can_hurry_the_first(shim_runs: ShimRuns):
    shim = shim_runs.run("deaf('agent')").run()
    shim_runs.events.people("agent")
    shim.stop(grace=3000)
    shim.stop("now", grace=0)
    assert shim.exit_record()["signal"] == "SIGKILL"


GARBAGE = {
    "nothing": lambda path: path.write_text(""),
    "no JSON": lambda path: path.write_text('{"why": '),
    "a list": lambda path: path.write_text("[]"),
    "no grace": lambda path: path.write_text('{"why": 7, "grace_seconds": "soon"}'),
    "a negative grace": lambda path: path.write_text('{"grace_seconds": -1}'),
    "an endless grace": lambda path: path.write_text('{"grace_seconds": Infinity}'),
    "a FIFO": os.mkfifo,
    "a folder": lambda path: path.mkdir(),
    "a link to nowhere": lambda path: path.symlink_to("/no/such/place"),
    "deep JSON": lambda path: path.write_text("[" * 200_000),
}


@pytest.mark.parametrize("case", GARBAGE)
def test_a_stop_that_cannot_be_understood_is_a_stop(shim_runs: ShimRuns, case):
    shim = shim_runs.run(STAY, grace_seconds=30).run()
    shim_runs.events.people("agent")
    GARBAGE[case](shim.folder / "stop.json")
    shim.signal(signal.SIGTERM)
    word = shim.exit_record()
    assert (word["ended_by"], word["signal"]) == ("stop", "SIGTERM")


def test_signals_to_the_shim_alone_end_nothing(shim_runs: ShimRuns):
    code = "signal.signal(signal.SIGUSR1, lambda *_: tell('awake'))\n" + STAY
    shim = shim_runs.run(code).run()
    agent = shim_runs.events.people("agent")["agent"]
    harmless = signal.valid_signals() - {
        *(signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV, signal.SIGBUS),
        *(signal.SIGFPE, signal.SIGILL, signal.SIGABRT),
    }
    for number in sorted(harmless):
        shim.signal(number)
    # Whatever reached the agent by mistake would have arrived before this.
    os.kill(agent.pid, signal.SIGUSR1)
    assert shim_runs.events.next() == ["awake"]
    assert run_files.is_locked(shim.folder)
    shim.stop()
    assert shim.exit_record()["ended_by"] == "stop"


def test_a_run_whose_folder_is_removed_is_ended(shim_runs: ShimRuns):
    shim = shim_runs.run(STAY).run()
    agent = shim_runs.events.people("agent")["agent"]
    for path in shim.folder.iterdir():
        path.unlink()
    shim.folder.rmdir()
    shim.signal(signal.SIGHUP)
    assert shim.wait() == 7
    assert gone(agent)


def test_a_folder_that_is_moved_keeps_its_run(shim_runs: ShimRuns):
    shim = shim_runs.run(STAY).run()
    shim_runs.events.people("agent")
    shim.folder = shim.folder.rename(shim_runs.folder / "moved")
    shim.stop("moved")
    assert shim.exit_record()["reason"] == "moved"


def test_a_link_or_a_pipe_in_the_place_of_the_last_word_is_not_followed(shim_runs: ShimRuns):
    victim = shim_runs.folder / "victim"
    victim.write_text("mine")
    shim = shim_runs.run(STAY).run()
    shim_runs.events.people("agent")
    (shim.folder / "exit.json.new").unlink()
    (shim.folder / "exit.json.new").symlink_to(victim)
    shim.stop()
    assert shim.exit_record()["ended_by"] == "stop"
    assert victim.read_text() == "mine"

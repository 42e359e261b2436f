"""When the shim itself is killed."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys

import pytest
from shim_fixture import PATIENCE, ShimRuns, gone, python

from hostler.shim import orphans, processes, run_files

TOOLS = """
child(lambda: (os.setsid(), here('tool')))
child(lambda: (os.setsid(), deaf('deaf')))
os.waitpid(child(lambda: (os.setsid(), child(lambda: here('daemon')))), 0)
here('agent')
"""
ALL = ("agent", "tool", "deaf", "daemon")


def killed_shim(shim_runs: ShimRuns, name: str = "r1"):
    shim = shim_runs.run(TOOLS, name=name).run()
    people = shim_runs.events.people(*ALL)
    shim.process.kill()
    shim.wait()
    return shim, people


def until_gone(process: processes.Process) -> None:
    """The kernel tells of an end through a pidfd."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        if not gone(process):
            assert select.select([pidfd], [], [], PATIENCE)[0]
    finally:
        os.close(pidfd)


def test_the_kernel_kills_the_agent_with_its_shim(shim_runs: ShimRuns):
    shim, people = killed_shim(shim_runs)
    until_gone(people["agent"])
    assert not run_files.is_locked(shim.folder)
    assert not (shim.folder / "exit.json").exists()
    orphans.end_orphans_of_run(shim.folder, grace=0)


def test_the_sweep_ends_all_that_is_left_and_nothing_else(shim_runs: ShimRuns):
    bystander = shim_runs.run("child(lambda: here('tool'))\nhere('agent')", name="bystander").run()
    innocent = shim_runs.events.people("agent", "tool")
    unmarked = subprocess.Popen(["sleep", "1000"], env={**os.environ, "HOSTLER_MARK": "no"})
    try:
        shim, people = killed_shim(shim_runs)
        until_gone(people["agent"])
        swept = orphans.end_orphans_of_run(shim.folder, grace=0.3)
        assert (swept.found, swept.killed) == (3, 1)
        assert all(map(gone, people.values()))
        assert not any(map(gone, innocent.values()))
        assert unmarked.poll() is None
    finally:
        unmarked.kill()
        unmarked.wait()
    bystander.stop(grace=0)
    assert bystander.exit_record()["ended_by"] == "stop"


def test_sweeping_twice_finds_nothing_the_second_time(shim_runs: ShimRuns):
    shim, _ = killed_shim(shim_runs)
    orphans.end_orphans_of_run(shim.folder, grace=0)
    assert orphans.end_orphans_of_run(shim.folder).found == 0


def test_runs_with_equal_names_in_two_homes_are_not_mistaken(shim_runs: ShimRuns):
    (shim_runs.folder / "home").mkdir()
    shim, people = killed_shim(shim_runs)
    other = shim_runs.run("here('other')", name="home/r1", run="r1").run()
    theirs = shim_runs.events.people("other")["other"]
    orphans.end_orphans_of_run(shim.folder, grace=0)
    assert all(map(gone, people.values()))
    assert not gone(theirs)
    other.stop(grace=0)
    other.exit_record()


def test_who_lost_the_mark_is_found_below_one_that_has_it(shim_runs: ShimRuns):
    code = """
def clean():
    code = "import os, signal, sys; p = os.open(sys.argv[1], 1); "
    code += "os.write(p, b'clean %d\\\\n' % os.getpid()); signal.pause()"
    os.execve(sys.executable, [sys.executable, '-ISc', code, os.environ['EVENTS']], {})
def tool():
    child(clean)
    here('tool')
child(tool)
here('agent')
"""
    shim = shim_runs.run(code).run()
    people = shim_runs.events.people("agent", "tool", "clean")
    shim.process.kill()
    shim.wait()
    orphans.end_orphans_of_run(shim.folder, grace=0)
    assert all(map(gone, people.values()))


def test_a_living_shim_is_not_swept_away(shim_runs: ShimRuns):
    shim = shim_runs.run("here('agent')").run()
    shim_runs.events.people("agent")
    with pytest.raises(orphans.RunStillHeld):
        orphans.end_orphans_of_run(shim.folder)
    shim.stop(grace=0)
    shim.exit_record()


def test_the_sweeper_spares_itself_and_those_above_it(shim_runs: ShimRuns):
    """A service that was started by an agent carries that agent's mark."""
    code = (
        "from hostler.shim.orphans import end_marked_processes, find_marked_processes;"
        "print(len(find_marked_processes('m1')), end_marked_processes('m1', 0).found)"
    )
    done = subprocess.run(
        ["sh", "-c", '"$0" -c "$1"; exit $?', sys.executable, code],
        env={"HOSTLER_MARK": "m1", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stdout.split() == ["0", "0"], done.stderr


# To free so much takes the kernel longer than it takes to read the table.
LARGE = """
import mmap, signal
room = mmap.mmap(-1, 1 << 29)
for page in range(0, 1 << 29, 4096):
    room[page] = 1
print("here", flush=True)
signal.pause()
"""


@pytest.mark.parametrize("struck_before", [False, True])
def test_one_that_needs_long_to_leave_is_waited_for(struck_before):
    """Its environment is gone long before itself, its files and its locks."""
    mark = f"large-{struck_before}-{os.getpid()}"
    large = subprocess.Popen(
        [sys.executable, "-ISc", LARGE], env={"HOSTLER_MARK": mark}, stdout=subprocess.PIPE
    )
    with large:
        process = processes.read_process(large.pid)
        assert process is not None and large.stdout is not None
        assert large.stdout.readline() == b"here\n"
        if struck_before:
            large.kill()
        orphans.end_marked_processes(mark, grace=0)
        assert gone(process)


def test_a_respawner_is_caught_without_its_shim(shim_runs: ShimRuns):
    code = """
def respawn():
    for generation in range(20_000):
        if os.fork():
            os._exit(0)
        if generation == 20:
            tell('respawning')
child(lambda: (os.setsid(), respawn()))
here('agent')
"""
    shim = shim_runs.run(code).run()
    while shim_runs.events.next()[0] != "respawning":
        pass
    shim.process.kill()
    shim.wait()
    orphans.end_orphans_of_run(shim.folder, grace=0)
    assert not shim_runs.left()


@pytest.mark.parametrize("head_start", [0, 30, 100, 300, 1000, 3000, 10_000, 30_000])
def test_a_shim_killed_at_any_moment_after_go_leaves_nothing_that_the_sweep_misses(
    shim_runs: ShimRuns, head_start
):
    """Also between fork and exec, where the agent has no mark yet."""
    shim = shim_runs.run("child(lambda: (os.setsid(), deaf('tool')))\ndeaf('agent')").run()
    for _ in range(head_start):
        os.sched_yield()
    shim.process.kill()
    shim.wait()
    # A child that has not become the agent yet holds the lock for another moment.
    shim.until_free()
    orphans.end_orphans_of_run(shim.folder, grace=0)
    assert not shim_runs.left()
    assert not (shim.folder / "exit.json").exists()


def test_a_run_that_never_started_needs_no_sweep(shim_runs: ShimRuns):
    shim = shim_runs.run()
    assert orphans.end_orphans_of_run(shim.folder).found == 0


def test_a_run_of_another_boot_is_over_and_one_from_elsewhere_out_of_reach(shim_runs: ShimRuns):
    folder = shim_runs.folder / "old"
    folder.mkdir()
    me = {**processes.current_identity(), "mark": "m2"}

    def with_shim(**changes: object) -> None:
        run_files.write_json(str(folder / "shim.json"), {**me, **changes})

    with_shim(boot_id="another")
    assert orphans.end_orphans_of_run(folder).found == 0
    with_shim(boot_id="another", host="elsewhere")
    with pytest.raises(orphans.RunUnreachable):
        orphans.end_orphans_of_run(folder)
    with_shim(pid_namespace="pid:[1]")
    with pytest.raises(orphans.RunUnreachable):
        orphans.end_orphans_of_run(folder)
    with_shim(mark=None)
    with pytest.raises(orphans.RunUnreachable):
        orphans.end_orphans_of_run(folder)
    (folder / "shim.json").write_text("{")
    with pytest.raises(orphans.RunUnreachable):
        orphans.end_orphans_of_run(folder)


def test_identity_tells_the_same_process_from_another_with_its_pid():
    me = processes.current_identity()
    assert processes.is_alive(me) is True
    assert processes.is_alive({**me, "start_ticks": 1}) is False
    assert processes.is_alive({**me, "pid": 1 << 22}) is False
    assert processes.is_alive({**me, "boot_id": "another"}) is False
    assert processes.is_alive({**me, "boot_id": "another", "host": "elsewhere"}) is None
    assert processes.is_alive({**me, "pid_namespace": "pid:[1]"}) is None
    assert processes.is_alive({**me, "host": "renamed"}) is True
    assert processes.is_alive({}) is None


def test_a_zombie_is_dead():
    child = subprocess.Popen(python("print(flush=True); sys.stdin.read()"), stdin=-1, stdout=-1)
    child.stdout.readline()
    process = processes.read_process(child.pid)
    who = {**processes.current_identity(), "pid": process.pid, "start_ticks": process.ticks}
    assert processes.is_alive(who) is True
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert processes.read_process(child.pid).zombie
    assert processes.is_alive(who) is False
    child.communicate()


def test_a_pid_that_passed_on_is_not_signalled():
    child = subprocess.Popen(["sleep", "1000"])
    try:
        process = processes.read_process(child.pid)
        process.ticks -= 1
        assert not processes.send_signal(process, signal.SIGKILL)
        assert not processes.send_group_signal(process, signal.SIGKILL)
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_files_of_a_killed_shim_are_whole(shim_runs: ShimRuns):
    shim, _ = killed_shim(shim_runs)
    for path in shim.folder.glob("*.json"):
        assert json.loads(path.read_text())["version"] == 1
    orphans.end_orphans_of_run(shim.folder, grace=0)

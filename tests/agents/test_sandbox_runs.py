"""Agents in a real sandbox, under the real supervisor."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from hostler.agents.assignment import RunLimits
from hostler.agents.outcomes import Outcome
from hostler.agents.sandbox import find_sandbox_problem
from hostler.agents.verdict import DecidedBy
from hostler.clock import SystemClock
from hostler.config.settings import Agent, Settings
from hostler.service.agent_checks import AgentSmokeTest
from hostler.shim import processes
from hostler.shim.agent import AgentActivity
from hostler.shim.agent import AgentProcess as ShimAgent
from hostler.shim.spec import RunSpec
from missing_tools import needs
from started_processes import started_with

pytest_plugins = ["scripted_runs"]
WHY = find_sandbox_problem(os.environ)
pytestmark = needs("bubblewrap", WHY)

LOOKS_AROUND = """
echo in > "$HOSTLER_CHECKOUT/in.txt"
echo kept > ~/note
mktemp > /dev/null
echo "home: $(ls -A "$USER_HOME" | tr '\\n' ' ')"
echo "database: $(ls "$HOSTLER_HOME")"
echo "tmp: $(ls /tmp | wc -l)"
echo x > /tmp/free && echo "tmp written"
(echo x > /etc/hostler-was-here) 2>/dev/null || echo "etc refused"
ls /proc | grep -c '^[0-9][0-9]*$' | sed 's/^/processes: /'
grep CapEff /proc/self/status
git -c user.name=a -c user.email=a@b commit -q --allow-empty -m inside && echo committed
hostler done --summary inside
"""
ENDS_WHEN_ASKED = """
trap 'echo asked > asked; exit 3' TERM
setsid sh -c 'trap "" TERM; while :; do sleep 60; done' &
echo ready
while :; do sleep 60 & wait $!; done
"""


@pytest.fixture
def boxed(work, ours, tmp_path):
    """Run a script in a sandbox, and hear its lines."""

    def run(script, heard=lambda _trial, _line: None, **limits):
        file = tmp_path / "bin" / "agent.sh"
        file.parent.mkdir(exist_ok=True)
        file.write_text(script)
        agent = Agent(
            kind="command", command=["sh", str(file)], sandbox="bubblewrap", env=["USER_HOME"]
        )
        seen = {**ours, "USER_HOME": ours["HOME"]}
        asked = replace(work, limits=RunLimits(**{"wall_seconds": 60.0, **limits}))
        lines = []

        def hear(line):
            lines.append(line.text)
            heard(trial, line.text)

        trial = AgentSmokeTest(agent, asked, SystemClock(), hear)
        return trial.run(Settings(), seen), lines

    return run


def carriers(work):
    """Living processes that carry the mark of the run."""
    return started_with(json.loads((work.run_dir / "shim.json").read_text())["mark"])


def test_it_sees_its_work_and_nothing_of_the_house(boxed, work, repository, ours):
    Path(ours["HOME"], ".secret").write_text("x")
    (work.home / "hostler.db").write_text("x")
    tried, lines = boxed(LOOKS_AROUND)
    assert tried.verdict.outcome is Outcome.SUCCESS, lines
    assert tried.verdict.result.summary == "inside"
    assert (work.checkout / "in.txt").read_text() == "in\n"
    assert (work.task_dir / "home" / "note").read_text() == "kept\n"
    assert repository("log", "--format=%s") == "inside"
    told = {line.strip() for line in lines}
    assert {"home:", "database: projects", "tmp written", "etc refused", "committed"} <= told
    assert "CapEff:\t0000000000000000" in told
    (count,) = [int(line.split()[1]) for line in told if line.startswith("processes:")]
    assert count < 8, "only its own"
    assert not Path("/etc/hostler-was-here").exists() and not Path("/tmp/free").exists()


FORGES = """
cd "$HOSTLER_RUN_DIR"
for name in stdout stderr; do
    (echo forged >> $name) 2>/dev/null || echo "$name refused"
    rm -f $name 2>/dev/null || echo "$name stays"
done
mv "$HOSTLER_RUN_DIR" "$HOSTLER_RUN_DIR.old" 2>/dev/null || echo "run stays"
mv "$HOSTLER_TASK_DIR/runs" "$HOSTLER_TASK_DIR/old" 2>/dev/null || echo "runs stay"
echo aside >&2
echo "by descriptor" >> /dev/stdout
hostler done --summary tried
"""


def test_what_it_said_cannot_be_written_by_path(boxed):
    tried, lines = boxed(FORGES)
    assert tried.verdict.result.summary == "tried", lines
    told = set(lines)
    assert {f"{name} refused" for name in ("stdout", "stderr")} <= told
    assert {"stdout stays", "stderr stays", "run stays", "runs stay"} <= told
    assert {"aside", "by descriptor"} <= told and "forged" not in told


CONNECT = """
import socket, sys
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
    print("reached")
except OSError:
    print("refused")
"""


def test_a_home_behind_a_link_is_hidden_and_a_named_socket_is_not_reached(work, ours, tmp_path):
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made, socket.socket(socket.AF_UNIX) as ear:
        real, link, place = Path(made, "real"), Path(made, "link"), str(Path(made, "agent"))
        (real / ".hostler").mkdir(parents=True)
        (real / ".secret").write_text("x")
        link.symlink_to(real)
        ear.bind(place)
        ear.listen()
        home = link / ".hostler"
        task = home / "tasks" / "t1"
        moved = replace(
            work, home=home, task_dir=task, run_dir=task / "runs/r1", checkout=home / "checkout"
        )
        for folder in (moved.run_dir, moved.checkout):
            folder.mkdir(parents=True)
        look = f"echo home: $(ls -A {real}); {sys.executable} -c '{CONNECT}' {place}"
        look += "; hostler done --summary behind"
        agent = Agent(kind="command", command=["sh", "-c", look], sandbox="bubblewrap")
        lines = []
        trial = AgentSmokeTest(agent, moved, SystemClock(), lambda line: lines.append(line.text))
        named = {"HOME": str(link), "SSH_AUTH_SOCK": place}
        tried = trial.run(Settings(), {**ours, **named})
    assert tried.verdict.decided_by is DecidedBy.RESULT, lines
    assert lines[:2] == ["home: .hostler", "refused"]


def test_a_shared_checkout_can_commit_and_secrets_are_empty(work, ours, environment):
    mirror = work.home / "mirrors" / "r.git"
    run = {"env": environment, "check": True, "capture_output": True}
    subprocess.run(["git", "init", "-q", "--bare", mirror], **run)
    work.checkout.rmdir()
    subprocess.run(["git", "clone", "-q", "--shared", mirror, work.checkout], **run)
    token = work.checkout / "token"
    token.write_text("a secret of ours")
    commit = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x"
    command = f"test ! -s token && {commit} && git log -1"
    agent = Agent(kind="command", command=["sh", "-c", command], sandbox="bubblewrap")
    seen = replace(work, shared=(mirror,), private=(token,))
    trial = AgentSmokeTest(agent, seen, SystemClock(), lambda _line: None)
    assert trial.run(Settings(), ours).verdict.outcome is Outcome.SUCCESS


def test_a_stop_leaves_it_its_grace_and_nothing_behind(boxed, work):
    def stop(trial, line):
        if line == "ready":
            trial.stop()

    tried, _ = boxed(ENDS_WHEN_ASKED, stop, grace_seconds=30.0)
    assert tried.verdict.decided_by is DecidedBy.STOP
    assert (work.checkout / "asked").read_text() == "asked\n"
    assert carriers(work) == []


def test_one_that_does_not_listen_is_killed(boxed, work):
    def stop(trial, line):
        if line == "ready":
            trial.stop()

    deaf = "trap '' TERM; echo ready; while :; do sleep 60; done"
    tried, _ = boxed(deaf, stop, grace_seconds=0.2)
    assert tried.verdict.decided_by is DecidedBy.STOP
    assert carriers(work) == []


def test_silence_is_that_of_the_program_below_the_walls(boxed, work):
    tried, _ = boxed("exec sleep 600", silence_seconds=0.5, grace_seconds=0.2)
    assert tried.verdict.outcome is Outcome.STALLED
    assert carriers(work) == []


@pytest.mark.parametrize(
    ("script", "tool_runs"),
    [("sleep 600 & echo ready; wait", True), ("echo ready; exec sleep 600", False)],
    ids=["a tool", "none"],
)
def test_a_tool_at_work_is_one_below_the_program_and_not_below_the_walls(
    boxed, work, script, tool_runs
):
    seen = []

    def look(trial, line):
        if line == "ready":
            shim = json.loads((work.run_dir / "shim.json").read_text())["pid"]
            wall = processes.find_first_child(shim)
            files = [(work.run_dir / name).open() for name in ("stdout", "stderr")]
            spec = RunSpec(json.loads((work.run_dir / "spec.json").read_text()))
            agent = ShimAgent(wall.pid, tuple(file.fileno() for file in files), spec)
            seen.append(agent.read_activity(AgentActivity(len("ready\n"))).tool_runs)
            for file in files:
                file.close()
            trial.stop()

    boxed(script, look, grace_seconds=0.2)
    assert seen == [tool_runs]


def test_with_its_supervisor_everything_inside_ends(boxed, work):
    def kill(_trial, line):
        if line == "ready":
            shim = json.loads((work.run_dir / "shim.json").read_text())["pid"]
            os.kill(shim, signal.SIGKILL)

    tried, _ = boxed(ENDS_WHEN_ASKED, kill)
    assert tried.verdict.decided_by is DecidedBy.LOST
    assert carriers(work) == []


def test_its_exit_code_comes_out(boxed):
    tried, _ = boxed("exit 127")
    assert tried.verdict.outcome is Outcome.CONFIG

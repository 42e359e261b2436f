"""`hostler agents try`: a real agent process under the real supervisor, once."""

from __future__ import annotations

import json
import signal

import pytest

from hostler.cli.commands.agents import _stop_on_signals
from hostler.shim import processes
from hostler_program import Started
from started_processes import started_with

DOES_ITS_WORK = """
cat > got
echo working
git log --oneline >> got
hostler done --summary fine
"""
# A child in another session that hears no request to leave.
STAYS = """
(trap '' TERM; setsid sh -c "trap '' TERM; while :; do sleep 60; done" marked-child) &
echo ready
wait
"""


@pytest.fixture
def scratch(tmp_path):
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def settings(tmp_path):
    def write(script, more=""):
        program = tmp_path / "agent.sh"
        program.write_text(script)
        path = tmp_path / "hostler.toml"
        path.write_text(
            "[runtime]\nstop_grace_seconds = 0\n"
            f'[agent.a]\nkind = "command"\ncommand = ["sh", "{program}"]\n{more}'
        )
        return path

    return write


def test_a_trial_ends_with_a_verdict_and_leaves_nothing(hostler, settings, scratch):
    path = settings(DOES_ITS_WORK)
    words = ("--config", path, "agents", "try", "a", "--yes", "--json")
    done = hostler(*words, env={"TMPDIR": str(scratch)})
    told = json.loads(done.out)
    assert (done.code, told["outcome"], told["result_written"]) == (0, "success", True)
    assert "costs money" in done.err and "working" in done.err
    assert list(scratch.iterdir()) == []


def test_it_works_in_a_repository_with_the_prompt_that_is_given(hostler, settings, scratch):
    path = settings(DOES_ITS_WORK)
    words = ("agents", "try", "a", "-y", "--keep", "--prompt", "Mend the fence.")
    done = hostler("--config", path, *words, env={"TMPDIR": str(scratch)})
    assert done.code == 0 and "result.json was written" in done.out
    (kept,) = scratch.iterdir()
    got = (kept / "checkout" / "got").read_text()
    assert got.startswith("Mend the fence.\n") and got.endswith(" Begin\n")
    assert str(kept) in done.out


def test_a_failure_is_a_failure(hostler, settings):
    done = hostler("--config", settings("exit 3"), "agents", "try", "a", "--yes")
    assert done.code == 1 and done.out.strip().startswith("crash, decided by exit_code")
    assert "no valid result.json" in done.out


def test_nothing_is_spent_without_a_yes(hostler, settings, tmp_path):
    path = settings(f"touch {tmp_path}/ran")
    done = hostler("--config", path, "agents", "try", "a")
    assert done.code == 1 and "costs money" in done.err and "--yes" in done.err
    assert not (tmp_path / "ran").exists()


def test_a_script_costs_nothing_and_asks_nobody(hostler, tmp_path):
    script = tmp_path / "play.json"
    script.write_text(json.dumps({"steps": [{"say": "Hello."}, {"ask": "Which?"}]}))
    path = tmp_path / "hostler.toml"
    path.write_text(f'[agent.a]\nkind = "scripted"\nscript = "{script}"\n')
    done = hostler("--config", path, "agents", "try", "a")
    assert "costs money" not in done.err and "Hello." in done.out
    assert "needs_input" in done.out and done.code == 1


@pytest.mark.parametrize("prompt", ["", " \n", "x" * 20_001])
def test_prompts_that_cannot_be_meant(hostler, settings, prompt):
    done = hostler("--config", settings(""), "agents", "try", "a", "--yes", "--prompt", prompt)
    assert done.code == 2 and "Traceback" not in done.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_ends_it_with_its_whole_tree(settings, environment, tmp_path, scratch, number):
    env = {**environment, "TMPDIR": str(scratch)}
    words = ("--config", str(settings(STAYS)), "agents", "try", "a", "--yes")
    started = Started(words, cwd=tmp_path, env=env)
    for line in started.stdout:
        if line == "ready\n":
            break
    (run,) = scratch.glob("*/task/runs/trial")
    shim = json.loads((run / "shim.json").read_text())
    assert len(processes.list_living_descendants(shim["pid"])) >= 2
    started.send_signal(number)
    said, _ = started.communicate()
    assert started.wait() == 130 and "interrupted" in said
    assert started_with(shim["mark"]) == []
    assert list(scratch.iterdir()) == []


def test_a_signal_that_is_ignored_ends_nothing():
    class Trial:
        def stop(self):
            raise AssertionError("stopped by a signal that was ignored")

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with _stop_on_signals(Trial()):
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_without_git_nothing_is_started(hostler, settings, tmp_path):
    path = settings(f"touch {tmp_path}/ran")
    done = hostler("--config", path, "agents", "try", "a", "-y", env={"PATH": str(tmp_path)})
    assert done.code == 1 and "scratch repository" in done.err
    assert not (tmp_path / "ran").exists()

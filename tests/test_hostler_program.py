"""Commands forked from the preloaded process: as in a process of their own, and safe to fork."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hostler_program import HOSTLER, Started, run_hostler

FORK_WITH = """
import os, sys, threading
sys.path.insert(0, {tests!r})
import preloaded_program
kept = {kept}
preloaded_program.require_forkable(-1)
print("safe", flush=True)
os._exit(0)
"""


def try_to_fork(kept: str) -> subprocess.CompletedProcess[str]:
    code = FORK_WITH.format(tests=str(Path(__file__).parent), kept=kept)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )


def test_one_thread_and_no_unknown_descriptor_is_safe_to_fork():
    assert try_to_fork("None").stdout == "safe\n"


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        ("threading.Thread(target=threading.Event().wait, daemon=True).start()", "2 threads"),
        ("open(os.devnull)", os.devnull),
    ],
    ids=["a second thread", "an unknown descriptor"],
)
def test_anything_else_is_refused_with_a_message(kept, message):
    done = try_to_fork(kept)
    assert (done.returncode, done.stdout) == (70, "")
    assert "not safe to fork" in done.stderr and message in done.stderr


@pytest.mark.parametrize("words", [["--version"], ["no-such-command"], ["task", "list", "--json"]])
def test_a_forked_command_ends_as_one_of_its_own_process(words, environment, tmp_path):
    forked = run_hostler(words, cwd=tmp_path, env=environment)
    alone = subprocess.run(
        [HOSTLER, *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert (forked.returncode, forked.stdout, forked.stderr) == (
        alone.returncode,
        alone.stdout,
        alone.stderr,
    )


def test_many_commands_at_once_all_end(environment, tmp_path):
    def run(_number: int) -> str:
        return run_hostler(["--version"], cwd=tmp_path, env=environment).stdout

    with ThreadPoolExecutor(8) as pool:
        outputs = set(pool.map(run, range(24)))
    assert len(outputs) == 1 and outputs.pop().startswith("hostler ")


def test_a_killed_command_has_the_exit_code_of_its_signal(environment, tmp_path):
    started = Started(["sandbox"], cwd=tmp_path, env=environment)
    assert started.stdout.readline()
    started.kill()
    assert started.wait() == -9
    started.stdout.close()

"""From the lock to the running agent."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from shim_fixture import PATIENCE, ShimRuns

from hostler import shim as shim_package
from hostler.shim import processes, run_files


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_agent_starts_at_the_go_byte_and_not_before(shim_runs: ShimRuns):
    shim = shim_runs.run("tell('started', os.getpid())").start()
    said = shim.ready()
    assert said["state"] == "waiting"
    assert [p.pid for p in shim_runs.left()] == [said["pid"]], "only the shim itself"
    shim.go()
    assert shim_runs.events.next()[0] == "started"
    word = shim.exit_record()
    assert (word["ended_by"], word["exit_code"], word["signal"]) == ("exit", 0, None)


def test_a_shim_whose_starter_is_gone_leaves_without_an_agent_and_without_a_trace(
    shim_runs: ShimRuns,
):
    shim = shim_runs.run("tell('never')").start()
    shim.ready()
    shim.process.stdin.close()
    assert shim.wait() == 3
    assert names(shim.folder) == ["run.lock", "spec.json"]
    assert not run_files.is_locked(shim.folder)


def test_a_folder_left_before_go_can_be_used_again(shim_runs: ShimRuns):
    first = shim_runs.run().start()
    first.ready()
    first.process.kill()
    first.wait()
    assert json.loads((first.folder / "shim.json").read_text())["state"] == "waiting"
    assert shim_runs.again(first.folder).run().exit_record()["ended_by"] == "exit"


def test_a_second_shim_for_the_same_run_is_refused(shim_runs: ShimRuns):
    first = shim_runs.run("here('agent')").run()
    shim_runs.events.people("agent")
    second = shim_runs.again(first.folder).start()
    assert second.wait() == 4
    assert "another shim" in second.complaint()
    assert first.process.poll() is None
    first.stop(grace=0)
    assert first.exit_record()["ended_by"] == "stop"


def test_a_run_that_has_had_its_agent_never_gets_another(shim_runs: ShimRuns):
    first = shim_runs.run().run()
    first.exit_record()
    second = shim_runs.again(first.folder).start()
    assert second.wait() == 9
    (first.folder / "exit.json").unlink()
    third = shim_runs.again(first.folder).start()
    assert third.wait() == 9, "shim.json still says that an agent was started"


def test_the_lock_is_held_as_long_as_the_shim_lives(shim_runs: ShimRuns):
    shim = shim_runs.run("here('agent')")
    assert not run_files.is_locked(shim.folder)
    shim.run()
    shim_runs.events.people("agent")
    assert run_files.is_locked(shim.folder)
    shim.stop(grace=0)
    shim.exit_record()
    assert not run_files.is_locked(shim.folder)


def test_looking_at_the_lock_does_not_keep_a_shim_from_its_run(shim_runs: ShimRuns):
    shim = shim_runs.run().start()
    while not (shim.folder / "shim.json").exists():
        run_files.is_locked(shim.folder)
        assert shim.process.poll() is None, shim.complaint()
    shim.ready()
    assert shim.go().exit_record()["ended_by"] == "exit"


def test_the_shim_says_who_it_is(shim_runs: ShimRuns):
    shim = shim_runs.run("here('agent')").start()
    said = shim.ready()
    assert said == json.loads((shim.folder / "shim.json").read_text())
    assert said["version"] == 1
    assert said["pid"] == shim.process.pid
    assert processes.is_alive(said) is True
    shim.go()
    shim_runs.events.people("agent")
    assert json.loads((shim.folder / "shim.json").read_text())["state"] == "started"
    shim.stop(grace=0)
    shim.exit_record()
    assert processes.is_alive(said) is False


def test_the_agent_gets_exactly_the_environment_that_was_asked_for(shim_runs: ShimRuns):
    code = "print(open('/proc/self/environ').read().replace(chr(0), chr(10)), end='')"
    asked = {"PATH": os.environ["PATH"], "EMPTY": "", "UMLAUT": "ä", "LINES": "a b"}
    shim = shim_runs.run(code, env=asked, inherit=["SHIM_TEST_TOKEN", "NOT_THERE", "PATH"]).run()
    shim.exit_record()
    found = dict(line.split("=", 1) for line in shim.output().splitlines())
    mark = json.loads((shim.folder / "shim.json").read_text())["mark"]
    assert found == {
        **asked,
        "SHIM_TEST_TOKEN": shim_runs.token,
        "HOSTLER_RUN": "r1",
        "HOSTLER_MARK": mark,
    }


def test_no_descriptor_is_passed_on(shim_runs: ShimRuns, tmp_path):
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        code = "print(*sorted(os.listdir('/proc/self/fd'), key=int))"
        shim = shim_runs.run(code).start(pass_fds=[secret.fileno()])
        shim.ready()
        held = {path.readlink() for path in Path(f"/proc/{shim.process.pid}/fd").iterdir()}
        assert tmp_path / "secret" not in held
        shim.go().exit_record()
    # The fourth is the listing's own.
    assert shim.output().split() == ["0", "1", "2", "3"]


def test_a_shim_without_standard_descriptors_works(shim_runs: ShimRuns):
    """Closed ones would be given to the lock and the agent's files."""
    shim = shim_runs.run()
    closing = f"exec {' '.join(shim_package.command(str(shim.folder)))} <&- >&- 2>&-"
    assert subprocess.run(["sh", "-c", closing], timeout=PATIENCE).returncode == 3


def test_signals_are_as_in_a_fresh_login_whatever_the_starter_ignored(shim_runs: ShimRuns):
    def rude() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR2])
        for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)

    shim = shim_runs.run(argv=["cat", "/proc/self/status"]).start(preexec_fn=rude)
    shim.ready()
    assert shim.go().exit_record()["exit_code"] == 0
    status = dict(line.split(":", 1) for line in shim.output().splitlines() if ":" in line)
    # The C library keeps signals 32 and 33 for itself: nobody can set them back.
    ours = ~(0b11 << 31)
    for field in ("SigBlk", "SigIgn", "SigCgt", "SigPnd"):
        assert int(status[field], 16) & ours == 0, field


def test_the_agent_has_a_session_of_its_own_and_its_working_directory(shim_runs: ShimRuns):
    code = "print(os.getpid() == os.getsid(0) == os.getpgid(0), os.getcwd())"
    shim = shim_runs.run(code).run()
    shim.exit_record()
    assert shim.output().split() == ["True", str(shim_runs.folder)]


def test_stdin_is_empty_or_the_prompt_and_then_ends(shim_runs: ShimRuns):
    empty = shim_runs.run("print(len(sys.stdin.read()))").run()
    empty.exit_record()
    assert empty.output() == "0\n"
    prompted = shim_runs.run("print(len(sys.stdin.read()))", name="r2", stdin="prompt.md")
    (prompted.folder / "prompt.md").write_text("x" * 100_000)
    prompted.run().exit_record()
    assert prompted.output() == "100000\n"


def test_lines_of_300_kb_pass_whole_on_both_streams(shim_runs: ShimRuns):
    code = (
        "[print(c * 300_000, file=f, flush=True) for c in 'abc' for f in (sys.stdout, sys.stderr)]"
    )
    shim = shim_runs.run(code).run()
    word = shim.exit_record()
    expected = "".join(c * 300_000 + "\n" for c in "abc")
    assert shim.output() == expected
    assert (shim.folder / "stderr").read_text() == expected
    assert (word["stdout_bytes"], word["stderr_bytes"]) == (900_003, 900_003)


def test_nice_and_the_oom_score_are_passed_on(shim_runs: ShimRuns):
    code = "print(os.nice(0), open('/proc/self/oom_score_adj').read())"
    shim = shim_runs.run(code, nice=7, oom_score_adj=900).run()
    shim.exit_record()
    assert shim.output().split() == [str(os.nice(0) + 7), "900"]


def test_the_last_word_counts_time_and_memory(shim_runs: ShimRuns):
    shim = shim_runs.run("x = bytearray(64 << 20); x[::4096] = b'x' * len(x[::4096])").run()
    word = shim.exit_record()
    assert word["max_rss_kb"] > 64 << 10
    assert word["cpu_seconds"] > 0
    assert word["started_at"] <= word["exited_at"] <= word["ended_at"]


BAD_STARTS = {
    "no such program": ({"argv": ["no-such-program"]}, "cannot start no-such-program"),
    "a program that is no program": ({"argv": ["/etc/passwd"]}, "Permission denied"),
    "no such folder": ({"cwd": "/no/such/folder"}, "cannot enter /no/such/folder"),
    "no such prompt": ({"stdin": "prompt.md"}, "cannot open prompt.md"),
}


@pytest.mark.parametrize("case", BAD_STARTS)
def test_an_agent_that_cannot_be_started_gets_a_last_word_with_the_reason(
    shim_runs: ShimRuns, case
):
    spec, reason = BAD_STARTS[case]
    word = shim_runs.run(**spec).run().exit_record()
    assert (word["ended_by"], word["exit_code"], word["started_at"]) == ("not_started", None, None)
    assert reason in word["reason"]


BAD_SPECS = {
    "no file": None,
    "nothing": "",
    "no JSON": "{",
    "no object": "[]",
    "bytes": "\udcff",
    "no argv": '{"run": "r", "cwd": "/", "env": {}}',
    "empty argv": '{"run": "r", "argv": [], "cwd": "/", "env": {}}',
    "relative cwd": '{"run": "r", "argv": ["true"], "cwd": ".", "env": {}}',
    "numbers in env": '{"run": "r", "argv": ["true"], "cwd": "/", "env": {"A": 1}}',
    "a newer version": '{"version": 2, "run": "r", "argv": ["true"], "cwd": "/", "env": {}}',
    "no time": '{"run": "r", "argv": ["true"], "cwd": "/", "env": {}, "wall_seconds": NaN}',
}


@pytest.mark.parametrize("case", BAD_SPECS)
def test_a_bad_spec_is_refused_with_the_reason_and_leaves_no_trace(shim_runs: ShimRuns, case):
    shim = shim_runs.run()
    spec = shim.folder / "spec.json"
    spec.unlink()
    text = BAD_SPECS[case]
    if text is not None:
        spec.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert shim.start().wait() == 5
    assert "spec" in shim.complaint()
    assert set(names(shim.folder)) <= {"spec.json"}


def test_a_folder_that_is_not_there_is_refused(shim_runs: ShimRuns):
    shim = shim_runs.again(shim_runs.folder / "nowhere").start()
    assert shim.wait() == 6
    assert "nowhere" in shim.complaint()


def test_the_shim_imports_nothing_of_ours_and_nothing_slow(shim_runs: ShimRuns):
    folder = shim_package.__path__[0]
    code = (
        f"import sys; sys.path.append({str(Path(folder).parent)!r});"
        f"import shim.supervisor; print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=PATIENCE
    )
    imported = set(done.stdout.split())
    assert "shim.supervisor" in imported, done.stderr
    assert not {name for name in imported if name.partition(".")[0] == "hostler"}
    assert not imported & {"typing", "dataclasses", "pathlib", "subprocess", "logging", "asyncio"}
    outside = {name.partition(".")[0] for name in imported} - set(sys.stdlib_module_names)
    assert outside == {"shim", "__main__"}


def test_everything_is_loaded_before_go_as_an_upgrade_may_replace_it(shim_runs: ShimRuns):
    copy = shim_runs.folder / "shim"
    shutil.copytree(shim_package.__path__[0], copy)
    shim = shim_runs.run("here('agent')")
    shim.process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(copy), str(shim.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=shim_runs.environment(),
    )
    shim.ready()
    shutil.rmtree(copy)
    shim.go()
    shim_runs.events.people("agent")
    shim.stop(grace=0)
    assert shim.exit_record()["ended_by"] == "stop"

"""The real command from outside: its end, its interruption at several moments, its leftovers."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from demo_processes import gone, nothing_is_left, said_in, with_trace_of

from hostler.cli.demo import service_process
from hostler.shim.processes import read_process
from hostler_program import HOSTLER
from started_processes import read

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
# A machine under tests is not a quiet one; how long it takes is measured elsewhere.
LONG = ("--timeout", "300")
ESCAPE = "\x1b"
GUARD = service_process.__name__


class Demo:
    """A demo with a temporary folder of its own, read line by line."""

    def __init__(self, place: Path, environment: dict[str, str], *argv: str) -> None:
        place.mkdir(exist_ok=True)
        self.place = place
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [HOSTLER, "demo", *argv],
            env={**environment, "TMPDIR": str(place)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def until(self, words: str) -> str:
        """Read until a line holds these words."""
        for line in self.process.stdout:
            self.lines.append(line)
            if words in line:
                return line
        raise AssertionError(f"{words!r} was never said in:\n{''.join(self.lines)}")

    def rest(self) -> int:
        """Read to the end; the exit code."""
        self.lines += self.process.stdout
        self.process.stdout.close()
        return self.process.wait()

    @property
    def said(self) -> str:
        return "".join(self.lines)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "tmp"
    for pid in with_trace_of(tmp_path / "tmp"):  # only where a test has failed
        os.kill(pid, signal.SIGKILL)


def nothing_remains(place: Path) -> None:
    nothing_is_left(place)
    assert list(place.iterdir()) == []


def test_the_story_comes_to_its_end_and_leaves_nothing(place, environment):
    demo = Demo(place, environment, *LONG, "--json")
    assert demo.rest() == 0, demo.said
    data = json.loads(demo.said)
    assert data["good"] is True
    assert all(check["holds"] for check in data["checks"])
    assert len(data["issues"]) == 5
    assert [len(issue["tasks"]) for issue in data["issues"]] == [1, 1, 0, 1, 2]
    assert data["issues"][1]["tasks"][0]["outcomes"] == ["crash", "success"]
    assert data["issues"][3]["questions"] == 1
    nothing_remains(place)


MOMENTS = {
    "at the start": "files",
    "when it is picked up": "picks it up",
    "while agents work": "Reading almanac/years.py",
    "after a failure": "retries soon",
    "when a pull request is open": "opens pull request",
    "after a merge": "merges",
}


# One of each kind in every run; the others take minutes and belong to the long campaigns.
SOAK = pytest.mark.soak
USUAL = "while agents work"
OUR_TOKEN = "ghp_" + "a" * 36


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, id=name, marks=() if name == USUAL else SOAK)
        for name, words in MOMENTS.items()
    ],
)
def test_ctrl_c_leaves_nothing_and_no_process_was_shown_a_token(place, environment, words):
    demo = Demo(place, environment | {"GITHUB_TOKEN": OUR_TOKEN}, *LONG)
    demo.until(words)
    if words == MOMENTS[USUAL]:
        require_no_token(demo)
    # As a terminal does it: to the whole group in the foreground.
    os.killpg(demo.process.pid, signal.SIGINT)
    assert demo.rest() == 130
    assert "Stopped." in demo.said
    assert with_trace_of(place) == {}, "when the demo has ended, all others have"
    nothing_remains(place)


# What each signal means is tested in test_demo_signals.py.
@SOAK
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_do_the_same(place, environment, number):
    demo = Demo(place, environment, *LONG)
    demo.until("starts an agent")
    demo.process.send_signal(number)
    assert demo.rest() == 128 + number
    nothing_remains(place)


@SOAK
def test_a_story_after_an_interrupted_one_is_whole(place, environment):
    first = Demo(place, environment, *LONG)
    first.until("opens pull request")
    first.process.send_signal(signal.SIGINT)
    assert first.rest() == 130
    second = Demo(place, environment, *LONG)
    assert second.rest() == 0, second.said
    assert "checks passed" in second.said
    assert ESCAPE not in second.said
    nothing_remains(place)


# In every run, test_demo_service_process.py kills a demo of a few lines with the real keeper.
@SOAK
@pytest.mark.parametrize("words", ["files", "Reading almanac/years.py", "opens pull request"])
def test_nothing_outlives_a_killed_demo(place, environment, words):
    demo = Demo(place, environment, *LONG)
    demo.until(words)
    demo.process.kill()
    assert demo.rest() == -signal.SIGKILL
    nothing_is_left(place)
    # The sandbox's own folder is swept by the next one.
    assert not list(place.glob("hostler-demo-*"))


@pytest.mark.long
def test_a_killed_service_ends_the_story_at_once(place, environment):
    demo = Demo(place, environment, *LONG)
    demo.until("Reading almanac/years.py")
    (service,) = services_of(place)
    os.kill(service, signal.SIGKILL)
    assert demo.rest() == 1
    assert "the service exited unexpectedly" in demo.said
    nothing_is_left(place)
    assert kept_folder(demo).is_dir()


@pytest.mark.soak
def test_a_killed_keeper_ends_the_story_at_once(place, environment):
    demo = Demo(place, environment, *LONG)
    demo.until("starts an agent")
    (keeper,) = (pid for pid, words in with_trace_of(place).items() if GUARD in words)
    os.kill(keeper, signal.SIGKILL)
    gone(keeper)
    assert demo.rest() == 1
    assert "the process that guards the service was killed" in demo.said
    nothing_is_left(place)


def services_of(place: Path) -> list[int]:
    """Return services of a demo, without their children that have not begun their program yet.

    Between fork and exec a child, such as a git to be, has the command line of its parent.
    """
    found = [
        pid
        for pid, words in with_trace_of(place).items()
        if "service --stop-agents" in words and GUARD not in words
    ]
    processes = {pid: read_process(pid) for pid in found}
    return [pid for pid, one in processes.items() if one is not None and one.parent not in found]


def kept_folder(demo: Demo) -> Path:
    found = re.search(r"The folder of the demo was kept: (.+)", demo.said)
    assert found, demo.said
    return Path(found[1])


@pytest.mark.soak
def test_too_little_time_names_what_is_missing_and_where_the_logs_are(place, environment):
    demo = Demo(place, environment, "--timeout", "4")
    assert demo.rest() == 1
    assert "not finished after 4 s" in demo.said
    assert "almanac #1 is open" in demo.said
    folder = kept_folder(demo)
    assert (folder / "service.log").read_text()
    assert (folder / "token").stat().st_mode & 0o777 == 0o600
    nothing_is_left(place)


def require_no_token(demo: Demo) -> None:
    """Require that neither the demo's token nor our own is shown to its processes."""
    (token,) = [file.read_text().strip() for file in demo.place.glob("hostler-demo-*/token")]
    pids = [pid for pid in with_trace_of(demo.place) if pid != demo.process.pid]
    assert len(pids) >= 3
    for pid in pids:
        told = read(pid, "cmdline") + read(pid, "environ")
        assert token.encode() not in told
        assert OUR_TOKEN.encode() not in told, "our own token stays with the demo"


@SOAK
def test_what_is_kept_can_be_looked_at_until_ctrl_c(place, environment):
    demo = Demo(place, environment, *LONG, "--keep")
    demo.until("checks passed")
    clone = demo.until("git clone").split()
    filing = demo.until("curl -H") + demo.until("issues -d")
    log = Path(demo.until("tail -f").split()[-1])
    command = demo.until("--dry-run").split()
    done = subprocess.run([*clone, str(place / "clone")], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert "400" in (place / "clone/almanac/years.py").read_text()
    preview = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert preview.returncode == 0, preview.stderr
    assert "Run my script on every build" in preview.stdout
    subprocess.run(["sh", "-c", filing], env=environment, check=True, capture_output=True)
    said_in(log, "#6  small job: awaits review, pull request #7")
    demo.process.send_signal(signal.SIGINT)
    assert demo.rest() == 0
    assert (kept_folder(demo) / "home/hostler.db").exists()
    nothing_is_left(place)


@pytest.mark.soak
def test_a_reader_who_leaves_early_ends_it(place, environment):
    demo = Demo(place, environment, *LONG, "--plain")
    demo.until("files")
    demo.process.stdout.close()
    assert demo.process.wait() != 0
    nothing_remains(place)


def test_without_git_there_is_one_clear_line_and_no_folder(place, environment, tmp_path):
    demo = Demo(place, environment | {"PATH": str(tmp_path)})
    assert demo.rest() == 1
    assert "git" in demo.said
    assert "Traceback" not in demo.said
    assert list(place.iterdir()) == []

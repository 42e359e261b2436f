"""The keeper with real processes: whatever dies, nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from demo_processes import gone, waited_for

from hostler.cli.demo.service_process import GuardedService

# Says that it is ready, and leaves on SIGTERM.
SERVICE = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGTERM, lambda *_: sys.exit({code}))
{more}
Path("ready").write_text(" ".join(map(str, [__import__("os").getpid(), *others])))
signal.pause()
"""
STUBBORN = (
    "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(600)"
)
CHILD = f"""
import subprocess
child = subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], start_new_session=True,
                         stdout=subprocess.PIPE)
child.stdout.readline()
others = [child.pid]
"""


class Kennel:
    """A folder with a keeper and a service of few words."""

    def __init__(self, folder: Path, *, code: int = 0, more: str = "others = []") -> None:
        folder.mkdir()
        self.folder = folder
        program = SERVICE.format(code=code, more=more)
        argv = [sys.executable, "-c", program]
        self.kept = GuardedService(folder, folder / "log", argv, os.environ)
        self.pids = [int(word) for word in waited_for(folder / "ready").split()]


@pytest.fixture
def kennel(tmp_path) -> Iterator:
    made: list[Kennel] = []

    def make(**how) -> Kennel:
        made.append(Kennel(tmp_path / "folder", **how))
        return made[0]

    yield make
    for one in made:
        one.kept.close()
        for pid in one.pids:
            gone(pid)


def test_stop_ends_the_service_and_reports(kennel):
    one = kennel()
    report = one.kept.stop()
    assert (report.code, report.left) == (0, ())
    assert one.kept.stop() is report
    assert one.folder.exists(), "it is removed at the very end"
    one.kept.close()
    assert not one.folder.exists()


def test_what_is_kept_stays(kennel):
    one = kennel()
    one.kept.stop()
    one.kept.close(keep=True)
    assert (one.folder / "ready").exists()


def test_the_end_of_the_pipe_is_enough(kennel):
    one = kennel()
    one.kept.close()
    gone(one.pids[0])
    assert not one.folder.exists()


def test_a_service_that_fails_is_told(kennel):
    one = kennel(code=3)
    assert not one.kept.has_ended()
    os.kill(one.pids[0], signal.SIGTERM)
    gone(one.pids[0])
    assert one.kept.stop().code == 3
    assert one.kept.has_ended()


def test_what_a_service_leaves_behind_is_named_and_ended(kennel):
    one = kennel(more=CHILD)
    report = one.kept.stop()
    assert report.code == 0
    assert [line.split()[0] for line in report.left] == [str(one.pids[1])]
    gone(one.pids[1])


def test_a_killed_service_leaves_nothing(kennel):
    one = kennel(more=CHILD)
    os.kill(one.pids[0], signal.SIGKILL)
    report = one.kept.stop()
    assert report.code == -signal.SIGKILL
    assert len(report.left) == 1
    gone(one.pids[1])


def test_the_service_leaves_when_the_keeper_is_killed(kennel):
    one = kennel()
    os.kill(one.kept.pid, signal.SIGKILL)
    gone(one.pids[0])
    assert one.kept.stop().code is None


def test_signals_of_the_terminal_do_not_reach_it(kennel):
    one = kennel()
    assert os.getsid(one.kept.pid) != os.getsid(0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(one.kept.pid, number)
    assert one.kept.stop().code == 0


DEMO = """
import os, sys
from pathlib import Path
from hostler.cli.demo.service_process import GuardedService
folder = Path(sys.argv[1])
kept = GuardedService(folder, folder / "log", [sys.executable, "-c", sys.argv[2]], os.environ)
print(kept.pid, flush=True)
__import__("signal").pause()
"""


def test_a_killed_demo_takes_everything_with_it(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    program = SERVICE.format(code=0, more=CHILD)
    demo = subprocess.Popen(
        [sys.executable, "-c", DEMO, str(folder), program], stdout=subprocess.PIPE, text=True
    )
    keeper = int(demo.stdout.readline())
    pids = [int(word) for word in waited_for(folder / "ready").split()]
    demo.kill()
    demo.wait()
    demo.stdout.close()
    for pid in (*pids, keeper):
        gone(pid)
    assert not folder.exists()

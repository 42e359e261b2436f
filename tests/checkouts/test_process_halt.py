"""Leaving: every child is ended, whoever waits for one hears of it, and none is started."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.checkouts import process
from hostler.checkouts.commands import run_command

ENV = {"PATH": os.environ["PATH"]}


@pytest.fixture(autouse=True)
def afterwards() -> Iterator[None]:
    yield
    process.allow_children()


def test_leaving_ends_a_command_with_its_whole_tree_and_is_no_result(tmp_path: Path) -> None:
    alive, heard = tmp_path / "alive", []
    os.mkfifo(alive)
    reading = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
    command = f"exec 3>{alive}; setsid sleep 600 & echo up >&3; sleep 600"

    def work() -> None:
        try:
            heard.append(run_command(command, tmp_path, ENV, seconds=600))
        except process.Halted:
            heard.append("halted")

    worker = threading.Thread(target=work)
    worker.start()
    os.set_blocking(reading, True)
    # A FIFO without a writer reads as ended: wait for the child to say something first.
    said = b""
    while not said:
        said = os.read(reading, 10)
    process.halt_children()
    worker.join(60)
    assert heard == ["halted"]
    while os.read(reading, 10):
        pass
    os.close(reading)


def test_nothing_is_started_after_leaving_until_it_is_taken_back(tmp_path: Path) -> None:
    process.halt_children()
    process.halt_children()
    with pytest.raises(process.Halted):
        run_command("touch made", tmp_path, ENV, seconds=60)
    assert not (tmp_path / "made").exists()
    process.allow_children()
    process.allow_children()
    assert run_command("touch made", tmp_path, ENV, seconds=60).passed


OWNED = """
import sys
from pathlib import Path
from hostler.checkouts import process
from hostler.checkouts.commands import run_command

process.set_child_owner(sys.argv[1])
run_command("setsid sleep 600 & echo here > ready; sleep 600", Path(sys.argv[2]), {}, seconds=600)
"""


def test_what_a_killed_owner_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    mine, other = f"{tmp_path}/home", f"{tmp_path}/home2"
    for owner, count in ((mine, 2), (other, 2)):
        child = subprocess.Popen([sys.executable, "-c", OWNED, owner, str(tmp_path)])
        assert ready.read_text() == "here\n"
        child.kill()
        child.wait()
        assert count
    try:
        assert process.kill_orphaned_children(mine) >= 2
        assert process.kill_orphaned_children(mine) == 0
    finally:
        # The other owner's are still there: a name that begins alike is another name.
        assert process.kill_orphaned_children(other) >= 2


def test_a_halt_asked_for_before_the_first_wait_wakes_it() -> None:
    halt = process._HaltSignal()
    halt.request()
    assert select.select([halt.descriptor()], [], [], 0)[0]
    halt.close()


def test_importing_opens_no_descriptor_that_forked_processes_would_share() -> None:
    code = (
        "import os; before = os.listdir('/proc/self/fd'); import hostler.checkouts.process; "
        "assert os.listdir('/proc/self/fd') == before"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

"""Leaving: every child is ended, whoever waits for one hears of it, and none is started."""

from __future__ import annotations

import os
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
    process.unhalt()


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
    process.halt()
    worker.join(60)
    assert heard == ["halted"]
    while os.read(reading, 10):
        pass
    os.close(reading)


def test_nothing_is_started_after_leaving_until_it_is_taken_back(tmp_path: Path) -> None:
    process.halt()
    process.halt()
    with pytest.raises(process.Halted):
        run_command("touch made", tmp_path, ENV, seconds=60)
    assert not (tmp_path / "made").exists()
    process.unhalt()
    process.unhalt()
    assert run_command("touch made", tmp_path, ENV, seconds=60).passed

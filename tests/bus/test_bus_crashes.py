"""Writers that are really killed: at random, and at every dangerous moment."""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path

import pytest
from bus_fixture import AGENT, INFO, Child, every_line_is_json, files_of, plain_messages
from bus_processes import campaign, check

from hostler.bus.bus import Bus
from hostler.bus.message import BEGINNING
from hostler.bus.writer import BusOptions


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def half_a_line(_bus: Bus) -> None:
    real = os.write

    def write(descriptor, data):
        real(descriptor, data[: len(data) // 2])
        die()

    os.write = write


def a_line_without_its_end(_bus: Bus) -> None:
    real = os.write

    def write(descriptor, data):
        real(descriptor, data[:-1])
        die()

    os.write = write


def after_the_line(_bus: Bus) -> None:
    real = os.write

    def write(descriptor, data):
        real(descriptor, data)
        die()

    os.write = write


def before_the_line(_bus: Bus) -> None:
    os.write = lambda *_: die()


def between_two_files(_bus: Bus) -> None:
    real = Path.rename

    def rename(path, target):
        real(path, target)
        die()

    Path.rename = rename


def while_mending(bus: Bus) -> None:
    with bus.path.open("ab") as file:
        file.write(b'{"id":"torn before')
    real = os.pwrite

    def pwrite(descriptor, data, place):
        real(descriptor, data[:5], place)
        die()

    os.pwrite = pwrite


# How the writer dies, and whether its message is there nevertheless.
MOMENTS = {
    half_a_line: False,
    a_line_without_its_end: True,
    after_the_line: True,
    before_the_line: False,
    between_two_files: False,
    while_mending: False,
}


def post_and_die(pipe, path, moment, max_bytes):
    bus = Bus(path, options=BusOptions(max_bytes=max_bytes))
    moment(bus)
    bus.post(INFO, "last words", AGENT)
    pipe.send("survived")


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.__name__)
def test_a_writer_killed_at_a_dangerous_moment_harms_nobody(path, moment):
    max_bytes = 800 if moment is between_two_files else 10**6
    bus = Bus(path, options=BusOptions(max_bytes=max_bytes))
    said = [bus.post(INFO, "x" * 200, AGENT) for _ in range(2)]
    follower = bus.follower(BEGINNING)
    assert list(follower.new()) == said
    child = Child(post_and_die, path, moment, max_bytes)
    assert child.everything_heard() == []
    assert child.join() == -signal.SIGKILL
    shown = plain_messages(path)
    assert list(bus.since()) == shown, "what is torn is not shown"
    said.append(bus.post(INFO, "next", AGENT))
    found = list(bus.since())
    if MOMENTS[moment]:
        assert found.pop(2).body == "last words"
    assert found == said
    assert every_line_is_json(path)
    assert [message.id for message in follower.new()] == [
        message.id for message in bus.since(said[1].id)
    ]


def follow_everything(path, found, enough):
    """A reader at work while all this happens."""
    bus = Bus(path)
    watch = bus.watch()

    def work():
        for message in bus.follow(after=BEGINNING, using=watch):
            found.append(message)
            if message.body == "the last one mends":
                break
        enough.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread, watch


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_fifty_writers_killed_at_random_lose_nothing_and_tear_nothing(path, seed):
    found, enough = [], threading.Event()
    thread, watch = follow_everything(path, found, enough)
    told = campaign(path, random.Random(seed), writers=50, heard_each=6)
    messages = check(path, told)
    assert len(told) >= 50
    assert enough.wait(60), "the follower did not come to the end"
    thread.join()
    watch.close()
    assert found == messages, "whoever followed saw exactly that"
    assert len(files_of(path)) > 1, "the bus was rotated meanwhile"

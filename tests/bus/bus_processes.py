"""Many writers, killed at random; what they were told must be in the file, and nothing else."""

from __future__ import annotations

import random
from itertools import pairwise
from multiprocessing.connection import wait
from pathlib import Path

from bus_fixture import INFO, PATIENCE, Child, every_line_is_json, files_of

from hostler.bus.bus import Bus
from hostler.bus.message import Message, MessageSender, parse_line
from hostler.bus.writer import BusOptions

# Large enough that a kill can fall into the middle of a write.
LONGEST_TEXT = 40_000
TERMS = BusOptions(max_bytes=1_000_000)
# So many messages a writer posts before it must have been heard: else they would fill the disk.
AHEAD = 4


def body(name: str, number: int) -> str:
    """What a writer says: its length and all of it follow from its name."""
    size = random.Random(f"{name}/{number}").choice([10, 100, 5_000, LONGEST_TEXT])
    text = f"{name}/{number}/"
    return text + "ä" * (size // 2 - len(text))


def write_until_killed(pipe, path: Path, name: str) -> None:
    bus, sender, number = Bus(path, options=TERMS), MessageSender.agent(f"r{name}"), 0
    while True:
        message = bus.post(INFO, body(name, number), sender)
        pipe.send((number, message.id))
        number += 1
        if number >= AHEAD:
            pipe.recv()


def campaign(path: Path, chance: random.Random, writers: int, heard_each: int) -> dict[str, str]:
    """Let them write, kill each at some moment; what they had been told, by text."""
    told: dict[str, str] = {}
    names = [f"{chance.randrange(10**9)}x{number}" for number in range(writers)]
    alive = {name: Child(write_until_killed, path, name) for name in names}
    doom = {name: chance.randint(1, heard_each) for name in names}
    while alive:
        ready = wait([child.pipe for child in alive.values()], PATIENCE)
        assert ready, "nobody says anything"
        for name, child in list(alive.items()):
            if child.pipe in ready:
                number, message_id = child.hear()
                told[body(name, number)] = message_id
                doom[name] -= 1
                child.tell()
            if doom[name] <= 0:
                child.process.kill()
                for number, message_id in child.everything_heard():
                    told[body(name, number)] = message_id
                child.join()
                del alive[name]
    return told


def check(path: Path, told: dict[str, str]) -> list[Message]:
    """From outside: all that was told is there once, whole, in order, and nothing is torn."""
    Bus(path).post(INFO, "the last one mends", MessageSender.service())
    assert every_line_is_json(path)
    lines = [line for file in files_of(path) for line in file.read_bytes().splitlines()]
    found = [message for line in lines if (message := parse_line(line)) is not None]
    assert all(line.strip() == b"{}" for line in lines if parse_line(line) is None)
    assert all(before.id < after.id for before, after in pairwise(found))
    by_text = {message.body: message for message in found}
    assert len(by_text) == len(found), "nothing is there twice"
    assert {text: by_text[text].id for text in told} == told, "nothing is lost"
    for message in found[:-1]:
        name, number, _ = message.body.split("/")
        assert message.body == body(name, int(number)), "nothing is torn"
        assert message.sender.run == f"r{name}"
    # A writer that was killed may have posted one that it could not tell of.
    assert len(found) - 1 - len(told) <= len({text.split("/")[0] for text in told})
    return found

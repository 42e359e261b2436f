"""What a run's agent was shown of people's words, noted by the program that shows it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.bus import MessageType, Sender, task_bus
from hostler.bus.hearing import FILE_NAME, heard, note_heard

PERSON = Sender.person("github:ada")


@pytest.fixture
def bus(tmp_path):
    return task_bus(tmp_path, "stable", "t1").create()


def test_words_of_people_are_noted_and_nothing_else(bus, tmp_path):
    said = bus.post(MessageType.USER, "Blue.", PERSON)
    fact = bus.post(MessageType.FACT, "So.", Sender.agent("r", "t1", "stable"))
    unread = bus.post(MessageType.USER, "Red.", PERSON)
    for message in (said, fact, said):
        note_heard(tmp_path, message)
    assert [one.body for one in heard(tmp_path, bus)] == ["Blue."]
    assert unread.id not in (tmp_path / FILE_NAME).read_text()


def test_a_note_that_cannot_be_made_is_no_failure(bus, tmp_path):
    said = bus.post(MessageType.USER, "Blue.", PERSON)
    note_heard(tmp_path / "nowhere", said)
    assert heard(tmp_path / "nowhere", bus) == []
    for make in (os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")):
        folder = tmp_path / make.__name__
        folder.mkdir()
        make(folder / FILE_NAME)
        note_heard(folder, said)
        assert heard(folder, bus) == []


@given(st.binary(max_size=400))
def test_whatever_is_in_the_file_means_messages_or_nothing(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("run")
    bus = task_bus(folder, "stable", "t1").create()
    said = bus.post(MessageType.USER, "Blue.", PERSON)
    (folder / FILE_NAME).write_bytes(content + b"\n" + said.id.encode() + b"\n")
    assert [one.id for one in heard(folder, bus)] == [said.id]

"""What a run's agent was shown of people's words, noted by the program that shows it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.bus.bus import SHOWN_FILE_NAME, open_task_bus, read_shown_messages, record_shown
from hostler.bus.message import MessageSender, MessageType

PERSON = MessageSender.person("github:ada")


@pytest.fixture
def bus(tmp_path):
    return open_task_bus(tmp_path, "stable", "t1").create()


def test_words_of_people_are_noted_and_nothing_else(bus, tmp_path):
    said = bus.post(MessageType.USER, "Blue.", PERSON)
    fact = bus.post(MessageType.FACT, "So.", MessageSender.agent("r", "t1", "stable"))
    unread = bus.post(MessageType.USER, "Red.", PERSON)
    for message in (said, fact, said):
        record_shown(tmp_path, message)
    assert [one.body for one in read_shown_messages(tmp_path, bus)] == ["Blue."]
    assert unread.id not in (tmp_path / SHOWN_FILE_NAME).read_text()


def test_a_note_that_cannot_be_made_is_no_failure(bus, tmp_path):
    said = bus.post(MessageType.USER, "Blue.", PERSON)
    record_shown(tmp_path / "nowhere", said)
    assert read_shown_messages(tmp_path / "nowhere", bus) == []
    for make in (os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")):
        folder = tmp_path / make.__name__
        folder.mkdir()
        make(folder / SHOWN_FILE_NAME)
        record_shown(folder, said)
        assert read_shown_messages(folder, bus) == []


@given(st.binary(max_size=400))
def test_whatever_is_in_the_file_means_messages_or_nothing(tmp_path_factory, content):
    folder = tmp_path_factory.mktemp("run")
    bus = open_task_bus(folder, "stable", "t1").create()
    said = bus.post(MessageType.USER, "Blue.", PERSON)
    (folder / SHOWN_FILE_NAME).write_bytes(content + b"\n" + said.id.encode() + b"\n")
    assert [one.id for one in read_shown_messages(folder, bus)] == [said.id]

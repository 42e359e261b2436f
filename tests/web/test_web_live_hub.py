"""Task events: reconnecting clients get each change once."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from intake_yard import database
from web_fixture import temporary_home
from why_stage import Stage

from example_counts import examples
from hostler.bus.bus import Bus
from hostler.bus.message import MessageSender, MessageType
from hostler.clock import FakeClock
from hostler.service.scheduling.admission import ADMISSION_SCOPES
from hostler.service.tasks.details import brief_json
from hostler.store.tasks import (
    Marks,
    TaskState,
    change_task,
    marks_of,
    note_gate,
    require_task,
    task_page,
)
from hostler.web.live.hub import EventPosition, TaskEventLog, find_changed_tasks
from hostler.web.live.streams import format_event, read_messages_after, read_next_output

STATES = [TaskState.QUEUED, TaskState.RUNNING, TaskState.DONE, TaskState.FAILED, TaskState.BLOCKED]


class Reader:
    """A client that reads the list, then follows events, with interruptions."""

    def __init__(self, stage, journal) -> None:
        self.stage, self.journal = stage, journal
        self.known: dict[str, object] = {}
        self.numbers: list[int] = []
        self.resets = 0
        self.place = journal.last_position()
        self.read_list()

    def read_list(self) -> None:
        with self.stage.store.read() as tx:
            self.known = {task.id: brief_json(task) for task in task_page(tx, 1000)}

    def read(self, most: int) -> None:
        """Read events after the last one received."""
        place = EventPosition.parse(str(self.place))
        found = self.journal.read_after(place, most)
        if found is None:
            self.resets += 1
            self.place = self.journal.last_position()
            self.read_list()
            return
        for one in found:
            self.numbers.append(one.number)
            self.place = EventPosition(place.epoch, one.number)
            self.known[one.data["id"]] = one.data


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(STATES)),
        st.tuples(st.just("change"), st.integers(0, 9), st.sampled_from(STATES)),
        st.tuples(st.just("gate"), st.integers(0, 9), st.sampled_from(["cap", "turn"])),
        st.tuples(st.just("look")),
        st.tuples(st.just("read"), st.integers(0, 1), st.integers(1, 4)),
    ),
    max_size=25,
)


def step(stage, journal, readers, made, how):
    stage.clock.advance(1)
    if how[0] == "put":
        made.append(stage.put(state=how[1]).id)
    elif how[0] == "look":
        journal.update()
    elif how[0] == "read":
        readers[how[1]].read(how[2])
    elif made:
        name = made[how[1] % len(made)]
        with stage.store.write(*ADMISSION_SCOPES) as tx:
            task = require_task(tx, name)
            if how[0] == "gate":
                note_gate(tx, name, how[2])
            elif task.over:
                # A finished task is restarted only by a command, which is a change of its own.
                change_task(tx, task, replace(task, state=TaskState.QUEUED))
            else:
                change_task(tx, task, replace(task, state=how[2]))


@settings(max_examples=examples(15, 100), deadline=None, suppress_health_check=list(HealthCheck))
@given(STEPS, st.sampled_from([3, 1000]))
@example(
    [
        ("change", 0, TaskState.DONE),
        ("look",),
        ("change", 0, TaskState.QUEUED),
        ("change", 0, TaskState.DONE),
    ],
    3,
)
def test_followers_know_the_current_state_of_every_task(steps, kept):
    clock = FakeClock()
    with database(clock) as store:
        stage = Stage(store, clock)
        made = [stage.put().id]
        journal = TaskEventLog(store, kept)
        journal.start()
        readers = [Reader(stage, journal), Reader(stage, journal)]
        for how in steps:
            step(stage, journal, readers, made, how)
        journal.update()
        with store.read() as tx:
            present = {task.id: brief_json(task) for task in task_page(tx, 1000)}
        for reader in readers:
            while reader.place != journal.last_position():
                reader.read(2)
            assert reader.known == present
            assert kept == 3 or not reader.resets
            assert reader.numbers == sorted(set(reader.numbers))
            if not reader.resets:
                assert reader.numbers == list(range(1, journal.last_position().number + 1))


def test_an_unchanged_finished_task_is_reported_once(tmp_path):
    clock = FakeClock()
    with database(clock) as store:
        stage = Stage(store, clock)
        task = stage.put()
        journal = TaskEventLog(store)
        journal.start()
        with store.write(*ADMISSION_SCOPES) as tx:
            change_task(tx, task, replace(task, state=TaskState.DONE))
        for _ in range(4):
            journal.update()
            clock.advance(40)
        assert journal.last_position().number == 1


def test_changes_after_the_clock_was_set_back_are_reported(tmp_path):
    clock = FakeClock()
    with database(clock) as store:
        stage = Stage(store, clock)
        task = stage.put(state=TaskState.DONE)
        clock.advance(7200)
        journal = TaskEventLog(store)
        journal.start()
        clock.jump(-5 * 3600)
        with store.write(*ADMISSION_SCOPES) as tx:
            change_task(tx, task, replace(task, state=TaskState.QUEUED))
            change_task(tx, require_task(tx, task.id), replace(task, reason="again"))
        journal.update()
        assert journal.last_position().number == 1


def test_a_deleted_task_is_reported(tmp_path):
    clock = FakeClock()
    with database(clock) as store:
        stage = Stage(store, clock)
        task = stage.put()
        journal = TaskEventLog(store)
        journal.start()
        with store.write(*ADMISSION_SCOPES) as tx:
            tx.constant("DELETE FROM tasks")
        journal.update()
        start = EventPosition(journal.last_position().epoch, 0)
        (told,) = journal.read_after(start, 9)
        assert told.data == {"id": task.id, "deleted": True}


def test_positions_of_an_earlier_epoch_are_invalid():
    clock = FakeClock()
    with database(clock) as store:
        journal = TaskEventLog(store)
        journal.start()
        place = journal.last_position()
        assert journal.read_after(place, 9) == []
        journal.stop()
        assert journal.read_after(place, 9) is None
        journal.start()
        assert journal.read_after(place, 9) is None
        assert journal.read_after(EventPosition(journal.last_position().epoch, 7), 9) is None


def test_readers_do_not_wait_for_a_slow_update(monkeypatch):
    clock, held, begun = FakeClock(), threading.Event(), threading.Event()
    with database(clock) as store:
        journal = TaskEventLog(store)
        journal.start()

        def slow(tx, *given):
            begun.set()
            assert held.wait(30)
            return marks_of(tx, *given)

        monkeypatch.setattr("hostler.web.live.hub.marks_of", slow)
        looking = threading.Thread(target=journal.update)
        looking.start()
        assert begun.wait(30)
        told = []
        reading = threading.Thread(target=lambda: told.append(journal.last_position()))
        reading.start()
        reading.join(30)
        assert told and journal.read_after(told[0], 9) == []
        held.set()
        looking.join()


NOW = datetime(2026, 1, 1, tzinfo=UTC)
MARKS = st.dictionaries(
    st.sampled_from("abcde"), st.tuples(st.sampled_from(["queued", "running", "done"]))
)


@given(MARKS, MARKS)
def test_changed_tasks_are_those_that_differ(before, after):
    names = find_changed_tasks(Marks(before, 0, NOW), Marks(after, 0, NOW))
    unchanged = {name for name, mark in before.items() if mark == ("done",)} - after.keys()
    differing = {
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    }
    assert set(names) == differing - unchanged


@given(st.text(max_size=30))
def test_any_text_parses_to_a_position_or_none(text):
    place = EventPosition.parse(text)
    assert place is None or EventPosition.parse(str(place)) == place


@given(st.text(max_size=40))
def test_any_event_is_one_line_of_data(text):
    lines = format_event("task", {"text": text}, "x-1").decode("ascii").split("\n")
    assert lines[:2] == ["id: x-1", "event: task"] and lines[3:] == ["", ""]
    assert json.loads(lines[2].removeprefix("data: "))["text"] == text


@settings(max_examples=examples(15, 100), deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=12), max_size=8), st.data())
def test_reconnecting_clients_get_the_whole_output_once(parts, data):
    clock = FakeClock()
    with temporary_home() as home, database(clock) as store:
        home.mkdir()
        stage = Stage(store, clock)
        run, path = stage.start(stage.put()), home / "stdout"
        told, offset = b"", 0
        with path.open("wb", buffering=0) as file:
            for part in parts:
                file.write(part)
                for _ in range(data.draw(st.integers(0, 2))):
                    over, text = read_next_output(store, run, path, offset)
                    assert not over
                    told, offset = told + text, offset + len(text)
        with store.write(*ADMISSION_SCOPES) as tx:
            tx.constant("UPDATE runs SET state = 'exited'")
        while (found := read_next_output(store, run, path, offset))[1]:
            told, offset = told + found[1], offset + len(found[1])
        assert found == (True, b"") and told == b"".join(parts)


@settings(max_examples=examples(12, 100), deadline=None)
@given(st.lists(st.integers(1, 4), max_size=6), st.data())
def test_reconnecting_clients_get_each_bus_message_once(bursts, data):
    clock = FakeClock()
    with temporary_home() as home:
        bus = Bus(home / "bus.jsonl", clock).create()
        said, heard, after = [], [], ""
        for burst in bursts:
            for _ in range(burst):
                clock.advance(1)
                said.append(bus.post(MessageType.USER, "x", MessageSender.person("ann")).id)
            found = read_messages_after(bus.path, after)
            kept = found[: data.draw(st.integers(0, len(found)))]
            heard += [one.id for one in kept]
            after = heard[-1] if heard else ""
        heard += [one.id for one in read_messages_after(bus.path, after)]
        assert heard == said

"""Writers, rotation, torn ends, garbage, jumping clocks and readers, against a plain list."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from bus_fixture import ADA, AGENT, FACT, INFO, SERVICE, every_line_is_json, line
from bus_strategies import texts
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from example_counts import examples
from hostler.bus.bus import Bus
from hostler.bus.message import BEGINNING, next_id, previous_id, replace_lone_surrogates
from hostler.bus.writer import BusOptions
from hostler.clock import FakeClock

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
writers = st.integers(0, 2)
senders = st.sampled_from([AGENT, ADA, SERVICE])
# No message, and none that could become one; nothing that ends a line.
torn_ends = st.sampled_from([b"{", b'{"id":"2026', b"\x00\x00", b"{}", b"x" * 5000, b"\xff"])
# Lines that are skipped; mended and empty ones are no damage.
garbage = st.sampled_from(
    [b"nonsense\n", b'{"id":1}\n', b"\xff\xfe\n", b"[]\n", b"y" * 9000 + b"\n"]
)


class BusMachine(RuleBasedStateMachine):
    """The model is the list of messages; everything that is asked must agree with it."""

    @initialize(max_bytes=st.sampled_from([1, 400, 1500, 10**6]))
    def begin(self, max_bytes):
        self.folder = Path(tempfile.mkdtemp(dir=MEMORY))
        self.path = self.folder / "bus.jsonl"
        self.clock = FakeClock()
        self.terms = BusOptions(max_bytes=max_bytes)
        self.buses = [self.new_bus() for _ in range(3)]
        self.said, self.followers, self.skipped, self.torn = [], [], 0, False

    def teardown(self):
        for follower, _ in getattr(self, "followers", []):
            follower.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_bus(self):
        return Bus(self.path, self.clock, self.terms)

    def last(self):
        return self.said[-1].id if self.said else BEGINNING

    def next(self):
        """The id that a writer would take now: also the names of old files count."""
        names = [file.name.split(".")[1] for file in self.folder.glob("bus.*.jsonl")]
        return next_id(max([self.last(), *names]), self.clock.now())

    @rule(who=writers, text=texts, sender=senders, data=st.data())
    def post(self, who, text, sender, data):
        answers = data.draw(st.none() | st.sampled_from(self.said)) if self.said else None
        thread = answers.id if answers else BEGINNING
        message = self.buses[who].post(FACT, text, sender, thread=thread)
        assert message.id > self.last()
        assert (message.body, message.sender) == (replace_lone_surrogates(text), sender)
        assert message.thread == (answers.thread_id if answers else "")
        self.said.append(message)
        self.torn = False

    @rule(who=writers)
    def a_writer_is_replaced(self, who):
        self.buses[who] = self.new_bus()

    @rule(end=torn_ends)
    def a_writer_is_killed_in_its_line(self, end):
        self.append(end)
        self.torn = True

    @precondition(lambda self: not self.torn)
    @rule()
    def a_writer_is_killed_before_its_newline(self):
        """Nobody was told that it was posted; the next writer finds it whole and keeps it."""
        message_id = self.next()
        self.append(line(message_id, "almost")[:-1])
        assert self.buses[0].last_id() == self.last(), "not shown before its line is ended"
        said = self.buses[0].post(INFO, "next", AGENT)
        self.said += [self.buses[0].get(message_id), said]
        assert self.said[-2].body == "almost"

    @precondition(lambda self: not self.torn)
    @rule(data=garbage)
    def somebody_writes_garbage(self, data):
        self.append(data)
        self.skipped += 1

    @precondition(lambda self: self.path.exists() and not self.torn)
    @rule()
    def a_writer_is_killed_between_two_files(self):
        message_id = self.next()
        self.path.rename(self.path.with_name(f"bus.{message_id}.jsonl"))

    def append(self, data):
        with self.path.open("ab") as file:
            file.write(data)

    @rule(seconds=st.floats(-1e7, 1e7))
    def the_clock_jumps(self, seconds):
        self.clock.jump(seconds)

    @rule(seconds=st.floats(0, 10))
    def time_passes(self, seconds):
        self.clock.advance(seconds)

    @rule(who=writers, count=st.integers(0, 6))
    def look_at_the_last(self, who, count):
        expected = self.said[len(self.said) - min(count, len(self.said)) :]
        assert list(self.buses[who].tail(count)) == expected

    @rule(who=writers, data=st.data(), before=st.booleans())
    def look_from_an_id_on(self, who, data, before):
        after = data.draw(st.sampled_from([BEGINNING, *(message.id for message in self.said)]))
        after = previous_id(after) if before and after else after
        expected = [message for message in self.said if message.id > after]
        assert list(self.buses[who].since(after)) == expected

    @precondition(lambda self: self.said)
    @rule(who=writers, data=st.data())
    def look_for_one(self, who, data):
        message = data.draw(st.sampled_from(self.said))
        assert self.buses[who].get(message.id) == message
        nobody = previous_id(message.id)
        known = {message.id for message in self.said}
        assert (self.buses[who].get(nobody) is None) == (nobody not in known)

    @precondition(lambda self: len(self.followers) < 4)
    @rule(data=st.data())
    def somebody_follows(self, data):
        start = data.draw(st.none() | st.integers(0, len(self.said)))
        if start is None:
            self.followers.append([self.buses[0].follower(), len(self.said)])
        else:
            after = self.said[start - 1].id if start else BEGINNING
            self.followers.append([self.buses[0].follower(after), start])

    @precondition(lambda self: self.followers)
    @rule(data=st.data())
    def a_follower_reads_on(self, data):
        number = data.draw(st.integers(0, len(self.followers) - 1))
        follower, seen = self.followers[number]
        assert list(follower.new()) == self.said[seen:]
        self.followers[number][1] = len(self.said)

    @precondition(lambda self: self.followers)
    @rule(data=st.data(), count=st.integers(0, 3))
    def a_follower_stops_in_between_and_goes_on_elsewhere(self, data, count):
        number = data.draw(st.integers(0, len(self.followers) - 1))
        follower, seen = self.followers[number]
        found = [message for message, _ in zip(follower.new(), range(count), strict=False)]
        assert found == self.said[seen : seen + count]
        follower.close()
        other = self.buses[1].follower(follower.after)
        assert list(other.new()) == [m for m in self.said if m.id > follower.after]
        self.followers[number] = [other, len(self.said)]

    @invariant()
    def everything_is_there(self):
        if not hasattr(self, "said"):
            return
        page = self.buses[0].since()
        assert list(page) == self.said
        assert page.skipped == self.skipped
        stats = self.buses[0].stats()
        assert (stats.messages, stats.skipped, stats.out_of_order) == (
            len(self.said),
            self.skipped,
            0,
        )
        assert (stats.unfinished_bytes > 0) == self.torn
        if not self.torn and not self.skipped:
            assert every_line_is_json(self.path)


# Nothing is remembered between runs: a run that a busy machine cut off would be replayed for ever.
SETTINGS = settings(
    max_examples=examples(20, 100), stateful_step_count=30, deadline=None, database=None
)


def test_the_bus_agrees_with_a_plain_list():
    run_state_machine_as_test(BusMachine, settings=SETTINGS)

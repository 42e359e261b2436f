"""Files: whatever is in them, readers find the messages and the next writer goes on."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from bus_fixture import (
    AGENT,
    INFO,
    bodies,
    every_line_is_json,
    files_of,
    ids,
    line,
    plain_messages,
    post_many,
)
from bus_strategies import texts
from hypothesis import given
from hypothesis import strategies as st

from hostler.bus import reader
from hostler.bus.bus import Bus
from hostler.bus.errors import IdsExhausted
from hostler.bus.files import end_of_last_line, read_last_line, read_lines, read_lines_backward
from hostler.bus.message import (
    BEGINNING,
    MAX_LINE_SIZE,
    id_from_time,
    parse_line,
    previous_id,
    time_from_id,
)
from hostler.bus.reader import find_offset_after
from hostler.bus.writer import BusOptions
from hostler.clock import FakeClock, SystemClock
from hostler.model import EPOCH

blocks = st.integers(1, 40)
pieces = st.lists(
    st.sampled_from([b"\n", b"\n\n", b"{}", b"abc", b"\x00" * 7, b"\xff", b"\r\n", line("2026")])
    | st.binary(max_size=6)
).map(b"".join)


@contextmanager
def file_of(data: bytes):
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.fileno()


@contextmanager
def bus_of(data: bytes, **terms):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bus.jsonl"
        path.write_bytes(data)
        yield Bus(path, options=BusOptions(**terms))


def lines_with_ids(numbers) -> list[bytes]:
    return [
        line(id_from_time(EPOCH + timedelta(seconds=number)), f"m{number}") for number in numbers
    ]


@given(pieces, blocks, st.integers(min_value=0))
def test_lines_forwards_are_those_of_a_plain_split(data, block, where):
    start = where % (len(data) + 1)
    with file_of(data) as file:
        found = list(read_lines(file, start, len(data), block))
    *expected, _ = data[start:].split(b"\n")
    assert [text for _, text in found] == expected
    places = [start, *(place for place, _ in found)]
    assert [data[a:b] for a, b in pairwise(places)] == [text + b"\n" for text in expected]


@given(pieces, blocks)
def test_lines_backwards_are_those_of_a_plain_split_turned_round(data, block):
    end = data.rfind(b"\n") + 1
    with file_of(data) as file:
        assert end_of_last_line(file, len(data), block) == end
        assert list(read_lines_backward(file, end, block)) == data[:end].split(b"\n")[:-1][::-1]
        last = read_last_line(file, len(data), block)
    assert last is None or data.split(b"\n")[-2:] == [last, b""]


def test_lines_longer_than_any_message_are_passed_over_in_both_directions():
    long = b"x" * (MAX_LINE_SIZE + 1)
    data = b"\n".join([b"a", long, b"b", long * 2, b"c", b""])
    with file_of(data) as file:
        assert [text for _, text in read_lines(file, 0, len(data))] == [
            b"a",
            None,
            b"b",
            None,
            b"c",
        ]
        assert list(read_lines_backward(file, len(data))) == [b"c", None, b"b", None, b"a"]
        assert [place for place, _ in read_lines(file, 0, len(data))][-1] == len(data)


@given(
    st.sets(st.integers(0, 60)),
    st.integers(-1, 61),
    st.integers(1, 600),
    st.lists(st.integers(0, 60)),
)
def test_the_place_found_for_an_id_misses_nothing_and_is_near(numbers, after, block, garbage):
    found = lines_with_ids(sorted(numbers))
    for where in garbage:
        found.insert(where % (len(found) + 1), b"what is this\n")
    data = b"".join(found)
    after_id = id_from_time(EPOCH + timedelta(seconds=after)) if after >= 0 else BEGINNING
    with file_of(data) as file:
        place = find_offset_after(file, len(data), after_id, block)
    assert place == 0 or data[place - 1 : place] == b"\n"
    before = [parse_line(part) for part in data[:place].split(b"\n")]
    assert all(message.id <= after_id for message in before if message)
    # Near: whatever comes before the id from here on fits into a block and the line across its end.
    wasted = [m.id for m in map(parse_line, data[place:].split(b"\n")) if m and m.id <= after_id]
    assert len(wasted) <= block // min(map(len, found), default=1) + 2


@given(pieces, st.integers(0, 5), texts, st.integers(1, 400))
def test_no_garbage_breaks_a_reader_or_stops_a_writer(data, count, text, max_bytes):
    with bus_of(data, max_bytes=max_bytes) as bus:
        before = plain_messages(bus.path)
        assert list(bus.since()) == list(bus.tail(10**6)) == before
        assert list(bus.tail(count)) == before[len(before) - min(count, len(before)) :]
        follower = bus.follower("")
        assert list(follower.new()) == before
        bus.stats()
        said = bus.post(INFO, text, AGENT)
        assert bus.get(said.id) == said
        after = plain_messages(bus.path)
        assert after[-1] == said
        assert after[: len(before)] == before
        assert len(after) - len(before) in {1, 2}, "a whole message may have lacked its newline"
        assert list(follower.new()) == after[len(before) :]
        assert list(bus.tail(10**6)) == after
        follower.close()


@given(texts, st.integers(0, 3), st.data())
def test_any_cut_of_the_last_line_is_never_shown_and_repaired(text, count, data):
    whole = [line(id_from_time(EPOCH + timedelta(seconds=n)), text) for n in range(count + 1)]
    kept, last = b"".join(whole[:-1]), whole[-1]
    cut = data.draw(st.integers(0, len(last) - 1))
    with bus_of(kept + last[:cut]) as bus:
        seen = list(bus.since())
        assert len(seen) == count
        said = bus.post(INFO, "next", AGENT)
        found = plain_messages(bus.path)
        if cut == len(last) - 1:  # nothing but its newline was missing
            assert found[count].body == parse_line(last).body
            del found[count]
        assert found == [*seen, said]
        assert every_line_is_json(bus.path)
        assert bus.path.read_bytes().startswith(kept), "what was whole is left alone"


def test_a_torn_end_longer_than_any_message_is_ended_and_skipped(bus, path):
    first = bus.post(INFO, "first", AGENT)
    with path.open("ab") as file:
        file.write(b"x" * (2 * MAX_LINE_SIZE))
    second = bus.post(INFO, "second", AGENT)
    page = bus.since()
    assert (list(page), page.skipped) == ([first, second], 1)


def test_a_mended_line_is_not_counted_as_damage_but_told(bus, path):
    bus.post(INFO, "first", AGENT)
    with path.open("ab") as file:
        file.write(b'{"id":"20')
    assert bus.stats().unfinished_bytes == 9
    bus.post(INFO, "second", AGENT)
    stats = bus.stats()
    assert (stats.messages, stats.repaired, stats.skipped, stats.unfinished_bytes) == (2, 1, 0, 0)
    assert bus.since().skipped == 0


def test_skipped_lines_are_counted_in_every_kind_of_reading(bus, path):
    post_many(bus, 2)
    with path.open("ab") as file:
        file.write(b'garbage\n\n{"id": 5}\n')
    post_many(bus, 1)
    assert bus.since().skipped == bus.tail(9).skipped == bus.stats().skipped == 2
    assert bus.tail(1).skipped == 0, "only what was read is counted"
    follower = bus.follower("")
    assert len(list(follower.new())) == 3
    assert follower.skipped == 2


def test_lines_that_go_back_are_left_out_and_told(bus, path):
    first, second = post_many(bus, 2)
    with path.open("ab") as file:
        file.write(line(previous_id(second.id), "forged") + line("20000101-000000-000000", "old"))
    third = bus.post(INFO, "third", AGENT)
    assert ids(bus.since()) == ids([first, second, third])
    assert ids(bus.tail(9)) == ids([first, second, third])
    assert bus.stats().out_of_order == 2


def test_a_bus_goes_on_in_a_new_file_when_one_is_full(path):
    bus = Bus(path, options=BusOptions(max_bytes=1000))
    said = post_many(bus, 30)
    assert len(files_of(path)) == 5
    assert all(file.stat().st_size <= 1000 for file in files_of(path))
    assert list(bus.since()) == list(bus.tail(99)) == plain_messages(path) == said
    assert list(bus.tail(7)) == said[-7:]
    for message in said:
        assert bus.get(message.id) == message
        assert list(bus.since(message.id)) == said[said.index(message) + 1 :]
    for older, newer in pairwise(files_of(path)[:-1]):
        name = newer.name.split(".")[1]
        assert older.name.split(".")[1] < plain_ids(newer)[0] <= plain_ids(newer)[-1] < name


def plain_ids(file: Path) -> list[str]:
    return [message.id for part in file.read_bytes().splitlines() if (message := parse_line(part))]


def test_a_message_larger_than_a_file_may_be_has_one_of_its_own(path):
    bus = Bus(path, options=BusOptions(max_bytes=100))
    said = post_many(bus, 4)
    assert len(files_of(path)) == 4
    assert list(bus.since()) == said


def test_a_name_that_somebody_took_is_not_overwritten(path, clock):
    bus = Bus(path, clock, BusOptions(max_bytes=500))
    first = bus.post(INFO, "a", AGENT)
    blocker = path.with_name(
        f"bus.{id_from_time(time_from_id(first.id) + timedelta(microseconds=1))}.jsonl"
    )
    blocker.write_text("precious")
    said = [first, *(bus.post(INFO, "x" * 200, AGENT) for _ in range(3))]
    assert blocker.read_text() == "precious"
    assert list(bus.since()) == said


def test_a_writer_that_dies_between_both_files_leaves_the_order_of_ids(path, clock):
    bus = Bus(path, clock)
    said = post_many(bus, 3)
    path.rename(path.with_name(f"bus.{id_from_time(clock.now() + timedelta(hours=1))}.jsonl"))
    assert list(bus.since()) == list(bus.tail(9)) == said
    clock.jump(-(10**6))
    for writer in (bus, Bus(path, clock)):
        said.append(writer.post(INFO, "next", AGENT))
        assert list(bus.since()) == said
    assert ids(said) == sorted(ids(said))


def test_the_clock_may_jump_back_and_forth(path, clock):
    said = []
    for jump in (0, -86_400, 3600, -(10**8), 0):
        clock.jump(jump)
        for writer in (Bus(path, clock), Bus(path, clock)):
            said += post_many(writer, 3)
    assert ids(said) == sorted(set(ids(said)))
    assert list(Bus(path).since()) == said
    assert said[-1].at < said[0].at, "the time is told as the clock said it"


def test_messages_of_one_moment_have_ids_of_their_own(path):
    still = FakeClock()
    said = post_many(Bus(path, still), 50)
    assert len(set(ids(said))) == 50
    assert {message.at for message in said} == {said[0].at}


def test_an_id_that_uses_up_all_others_is_told(bus, path):
    path.write_bytes(line("99991231-235959-999999"))
    with pytest.raises(IdsExhausted, match="99991231"):
        bus.post(INFO, "x", AGENT)
    path.rename(path.with_name("elsewhere"))
    assert bus.post(INFO, "x", AGENT).body == "x"


def test_old_files_are_forgotten_but_never_the_newest(path, clock):
    bus = Bus(path, clock, BusOptions(max_bytes=500))
    for _ in range(6):
        bus.post(INFO, "x" * 300, AGENT)
        clock.advance(3600)
    assert len(files_of(path)) == 6
    assert bus.forget(clock.now() - timedelta(hours=3)) == 2
    assert bus.forget(clock.now() - timedelta(hours=3)) == 0
    assert len(bus.since()) == 4
    assert bus.forget(clock.now()) == 2
    assert len(files_of(path)) == 2
    assert len(bus.since(BEGINNING)) == len(bus.tail(9)) == 2


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=20), st.integers(1, 6))
def test_what_is_wanted_is_looked_for_further_back(letters, count):
    with bus_of(b"", max_bytes=700) as bus:
        for letter in letters:
            bus.post(INFO, letter, AGENT)
        found = bodies(bus.tail(count, lambda message: message.body == "a"))
        assert found == ["a"] * min(count, letters.count("a"))
        assert bodies(bus.since("", lambda m: m.body != "a")) == [x for x in letters if x != "a"]


def test_threads_have_one_beginning(bus):
    question = bus.post(INFO, "question", AGENT)
    answer = bus.post(INFO, "answer", AGENT, thread=question.id)
    thanks = bus.post(INFO, "thanks", AGENT, thread=answer.id)
    assert (question.thread, answer.thread, thanks.thread) == ("", question.id, question.id)
    assert {m.thread_id for m in (question, answer, thanks)} == {question.id}
    assert bus.get(thanks.id) == thanks


def test_the_number_of_files_that_a_reader_opens_does_not_grow(path, monkeypatch):
    bus = Bus(path, options=BusOptions(max_bytes=500))
    post_many(bus, 40)
    opened = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda *a, **k: (opened.append(a[0]), real(*a, **k))[1])
    bus.tail(2)
    bus.since(bus.last_id())
    assert len(opened) <= 6


def test_a_file_that_somebody_made_huge_is_set_aside_unread(path, monkeypatch):
    bus = Bus(path)
    said = post_many(bus, 3)
    os.truncate(path, 1 << 40)
    read = 0
    real = os.pread

    def pread(descriptor, size, place):
        nonlocal read
        data = real(descriptor, size, place)
        read += len(data)
        return data

    monkeypatch.setattr(os, "pread", pread)
    for writer in (bus, Bus(path)):
        said.append(writer.post(INFO, "next", AGENT))
    assert read < 1_000_000
    assert len(files_of(path)) == 2
    assert list(bus.tail(2)) == said[-2:]


def rotated_in_between(bus, monkeypatch):
    """Have the present file set aside while a reader opens its files."""
    real = reader.list_rotated_files

    def set_aside(path):
        monkeypatch.undo()
        bus.path.rename(bus.path.with_name(f"bus.{id_from_time(SystemClock().now())}.jsonl"))
        bus.post(INFO, "after", AGENT)
        return real(path)

    monkeypatch.setattr(reader, "list_rotated_files", set_aside)


def test_a_file_set_aside_while_a_reader_opens_it_is_neither_missed_nor_seen_twice(
    bus, monkeypatch
):
    said = post_many(bus, 3)
    for read in (lambda: bus.since(), lambda: bus.tail(99)):
        rotated_in_between(bus, monkeypatch)
        found = list(read())
        said = list(bus.since())
        assert found == said[:-1], "what came after the opening may be missed, and nothing else"


def test_a_follower_misses_nothing_that_was_set_aside_while_it_opened(bus, monkeypatch):
    said = post_many(bus, 3)
    rotated_in_between(bus, monkeypatch)
    follower = bus.follower(BEGINNING)
    assert bodies(follower.new()) == [*bodies(said), "after"]


def test_a_follower_misses_nothing_that_comes_between_its_reading_and_its_looking(bus):
    """Messages and a rotation right after it read the last line."""
    follower = bus.follower(BEGINNING)
    said = post_many(bus, 3)
    found = []
    for message in follower.new():
        found.append(message.body)
        if message == said[-1]:
            bus.post(INFO, "old file", AGENT)
            bus.path.rename(bus.path.with_name(f"bus.{id_from_time(SystemClock().now())}.jsonl"))
            bus.post(INFO, "new file", AGENT)
    found += bodies(follower.new())
    assert found == [*bodies(said), "old file", "new file"]


def test_a_follower_of_no_file_hears_of_one_that_came_and_was_set_aside(bus):
    follower = bus.follower(BEGINNING)
    assert list(follower.new()) == []
    said = post_many(bus, 2)
    bus.path.rename(bus.path.with_name(f"bus.{id_from_time(SystemClock().now())}.jsonl"))
    assert list(follower.new()) == said
    assert list(follower.new()) == []

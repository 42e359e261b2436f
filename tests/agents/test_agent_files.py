"""From bytes to lines, however they arrive."""

from __future__ import annotations

import os
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.agents.agent_files import (
    MAX_LINE_BYTES,
    LineSplitter,
    OutputLine,
    OutputStream,
    OutputTail,
)

OUT = OutputStream.STDOUT
streams = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"\xc3", b"\xa4", "ä€😀".encode(), b"\xff", b"{}", b"a" * 40])
).map(b"".join)


def lines_of(data: bytes, longest: int = MAX_LINE_BYTES) -> list[OutputLine]:
    splitter = LineSplitter(OUT, max_length=longest)
    return [*splitter.feed(data), *splitter.finish()]


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    marks = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(marks)]


@given(streams, st.lists(st.integers(min_value=0)), st.integers(1, 60))
def test_where_bytes_are_cut_makes_no_difference(data, cuts, longest):
    splitter = LineSplitter(OUT, max_length=longest)
    found = [line for piece in pieces(data, cuts) for line in splitter.feed(piece)]
    found += splitter.finish()
    assert found == lines_of(data, longest)
    assert splitter.offset == len(data)


@given(streams, st.integers(min_value=0))
def test_a_stored_offset_is_all_that_a_new_reader_needs(data, cut):
    first, _ = pieces(data, [cut])
    reader = LineSplitter(OUT)
    before = list(reader.feed(first))
    follower = LineSplitter(OUT, reader.offset)
    after = [*follower.feed(data[reader.offset :]), *follower.finish()]
    assert before + after == lines_of(data)
    assert reader.offset == 0 or data[reader.offset - 1 : reader.offset] == b"\n"


@given(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"])))
def test_text_comes_through_as_it_was(text):
    assert [line.text for line in lines_of(f"{text}\n".encode())] == [text]


def test_a_line_of_a_megabyte_is_one_line_even_byte_by_byte_at_its_end():
    data = b"x" * 1_000_000 + "ä\n".encode()
    splitter = LineSplitter(OUT)
    found = list(splitter.feed(data[:-3]))
    for byte in data[-3:]:
        found += splitter.feed(bytes([byte]))
    assert [(len(line.text), line.cut) for line in found] == [(1_000_001, False)]


def test_a_line_that_never_ends_is_cut_and_holds_no_memory():
    splitter = LineSplitter(OUT, max_length=1000)
    for _ in range(1000):
        assert list(splitter.feed(b"y" * 10_000)) == []
    assert splitter.offset == 0
    cut, after = splitter.feed(b"\nnext\n")
    assert (cut.text, cut.cut) == ("y" * 1000, True)
    assert (after.text, after.cut) == ("next", False)
    assert splitter.offset == 10_000_006


def test_a_tail_follows_a_file_that_grows(tmp_path):
    path = tmp_path / "stdout"
    tail = OutputTail(path, OUT)
    assert list(tail.lines()) == []
    with path.open("ab") as file:
        file.write(b"one\ntw")
        file.flush()
        assert [line.text for line in tail.lines()] == ["one"]
        assert tail.offset == 4
        file.write("ö\n".encode()[:1])
        file.flush()
        assert list(tail.lines()) == []
        file.write("ö\n".encode()[1:] + b"end")
    assert [line.text for line in tail.lines()] == ["twö"]
    assert [line.text for line in tail.rest()] == ["end"]
    assert tail.offset == path.stat().st_size


def test_a_tail_goes_on_from_its_offset(tmp_path):
    path = tmp_path / "stdout"
    path.write_bytes(b"one\ntwo\nthree\n")
    assert [line.text for line in OutputTail(path, OUT, offset=4).lines()] == ["two", "three"]


def test_a_file_that_was_cut_short_gives_nothing_and_no_error(tmp_path):
    path = tmp_path / "stdout"
    path.write_bytes(b"one\n")
    assert list(OutputTail(path, OUT, offset=4_000).rest()) == []


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/etc/hosts")])
def test_something_else_in_the_place_of_the_output_is_not_read(tmp_path, make):
    path = tmp_path / "stdout"
    make(path)
    assert list(OutputTail(path, OUT).rest()) == []

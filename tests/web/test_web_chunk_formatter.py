"""Readable output does not depend on chunk boundaries or reconnects."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from hostler.agents.agent_files import OutputStream
from hostler.web.live.streams import ChunkFormatter

KIND = "scripted"
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)
EVENTS = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text, "delta": False}, TEXT),
    st.just({"type": "tool", "name": "Bash", "detail": "make test"}),
    st.just({"type": "started", "program": "scripted", "version": "1", "model": ""}),
)
LINES = st.lists(EVENTS.map(json.dumps) | st.text('{}"ab ', max_size=10), max_size=12)


def told(data: bytes, cuts: list[int], back: set[int]) -> str:
    """Return the text of data that comes in chunks, with reconnects after some of them."""
    formatter, position, said = ChunkFormatter(KIND, OutputStream.STDOUT, 0), 0, ""
    for number, cut in enumerate(sorted({min(one, len(data)) for one in cuts} | {len(data)})):
        said += formatter.feed(data[position:cut])
        position = cut
        if number in back:
            formatter, position = (
                ChunkFormatter(KIND, OutputStream.STDOUT, formatter.offset),
                formatter.offset,
            )
    said += formatter.feed(data[position:])
    return said + formatter.finish()


@given(LINES, st.booleans(), st.lists(st.integers(0, 400)), st.sets(st.integers(0, 5)))
def test_chunks_and_reconnects_do_not_change_the_text(lines, ended, cuts, back):
    data = ("\n".join(lines) + ("\n" if ended and lines else "")).encode()
    assert told(data, cuts, back) == told(data, [], set())


def test_events_are_formatted_as_text():
    lines = [{"type": "text", "text": "Looking", "delta": False}]
    lines += [{"type": "tool", "name": "Bash", "detail": "make test"}]
    data = "".join(json.dumps(one) + "\n" for one in lines).encode()
    assert told(data, [], set()) == "Looking\n-> Bash: make test\n"


def test_a_line_longer_than_a_chunk_is_formatted_when_complete():
    line = json.dumps({"type": "text", "text": "x" * 200_000, "delta": False}).encode() + b"\n"
    formatter = ChunkFormatter(KIND, OutputStream.STDOUT, 0)
    assert formatter.feed(line[:65_536]) == "" and formatter.offset == 0
    assert formatter.feed(line[65_536:]) == "x" * 200_000 + "\n"
    assert formatter.offset == len(line)

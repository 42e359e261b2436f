"""Ranges of an output, and whole characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.web.errors import InvalidRange
from hostler.web.run_output import (
    MAX_OUTPUT_BYTES,
    get_size,
    parse_range,
    read_range,
    trim_partial_character,
)

SIZES = st.integers(0, 3 * MAX_OUTPUT_BYTES)


@given(SIZES, st.integers(0, 4 * MAX_OUTPUT_BYTES), st.integers(1, MAX_OUTPUT_BYTES))
def test_a_range_is_inside_the_file_and_within_the_limit(size, offset, limit):
    span = parse_range(size, "", offset, limit)
    assert 0 <= span.start <= span.end <= size and span.end - span.start <= limit
    assert span.start == min(offset, size)


@given(SIZES, st.integers(0, 4 * MAX_OUTPUT_BYTES), st.integers(0, 4 * MAX_OUTPUT_BYTES))
def test_range_headers_follow_http(size, first, last):
    if first > last or first >= size:
        with pytest.raises(InvalidRange):
            parse_range(size, f"bytes={first}-{last}", 0, 1)
        return
    span = parse_range(size, f"bytes={first}-{last}", 0, 1)
    assert span.start == first
    assert span.end == min(last + 1, size, first + MAX_OUTPUT_BYTES)


@given(st.integers(1, 3 * MAX_OUTPUT_BYTES), st.integers(1, 4 * MAX_OUTPUT_BYTES))
def test_the_end_of_a_file_by_range(size, count):
    span = parse_range(size, f"bytes=-{count}", 0, 1)
    assert span.start == max(size - count, 0) and span.end == min(
        size, span.start + MAX_OUTPUT_BYTES
    )


@given(st.text(max_size=20))
def test_any_range_header_is_parsed_or_refused(text):
    try:
        span = parse_range(100, text or "-", 0, 1)
    except InvalidRange as refused:
        assert refused.what
    else:
        assert 0 <= span.start < span.end <= 100


@given(st.text(), st.data())
def test_chunked_text_keeps_its_characters(text, data):
    raw, told, offset = text.encode("utf-8"), "", 0
    while offset < len(raw):
        end = data.draw(st.integers(offset + 1, len(raw)))
        part = trim_partial_character(raw[offset:end], complete=end == len(raw))
        told += part.decode("utf-8")
        offset += len(part)
        if not part:
            end = min(end + 4, len(raw))
            part = trim_partial_character(raw[offset:end], complete=end == len(raw))
            told += part.decode("utf-8")
            offset += len(part)
    assert told == text


@given(st.binary(max_size=50), st.booleans())
def test_at_most_one_partial_character_is_held_back(data, over):
    part = trim_partial_character(data, complete=over)
    assert data.startswith(part) and len(data) - len(part) <= 3
    assert not over or part == data


def test_a_path_that_is_not_a_file_has_no_output(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/etc/hostname")
    for name in ("folder", "link", "missing"):
        assert get_size(tmp_path / name) == 0
        assert read_range(tmp_path / name, parse_range(10, "", 0, 10)) == b""

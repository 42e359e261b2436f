"""Read byte ranges of a run's output with secrets masked."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from hostler.agents.agent_files import NotRegularFile, open_regular_file
from hostler.telemetry.redaction import (
    context_size,
    encode_forms,
    mask_bytes,
    partial_secret_length,
    registered_forms,
)
from hostler.web.errors import BadRange

MAX_OUTPUT_BYTES = 1024 * 1024
_RANGE = re.compile(r"bytes=(\d{0,16})-(\d{0,16})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes of a file, from the first to before the last."""

    start: int
    end: int


def parse_range(size: int, asked: str, offset: int, limit: int) -> ByteRange:
    """The bytes that are meant: by a `Range`, or by an offset. Pure."""
    if not asked:
        start = min(offset, size)
        return ByteRange(start, min(start + limit, size))
    found = _RANGE.fullmatch(asked.strip().replace(" ", ""))
    first, last = found.groups() if found else ("", "")
    if not first and not last:
        raise BadRange("That is no range of bytes.", "Write it as `Range: bytes=0-999`.")
    start = int(first) if first else max(size - int(last), 0)
    end = min(int(last) + 1, size) if first and last else size
    if start >= end:
        raise BadRange(f"The output has {size:,} bytes; there is nothing at {start:,}.")
    return ByteRange(start, min(end, start + MAX_OUTPUT_BYTES))


def get_size(path: Path) -> int:
    """How many bytes there are; none where there is no such file."""
    try:
        descriptor = open_regular_file(path)
    except NotRegularFile:
        return 0
    try:
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def read_range(path: Path, span: ByteRange) -> bytes:
    """These bytes, as far as they are there."""
    if span.start >= span.end:
        return b""
    try:
        descriptor = open_regular_file(path)
    except NotRegularFile:
        return b""
    try:
        return os.pread(descriptor, span.end - span.start, span.start)
    finally:
        os.close(descriptor)


def read_masked(path: Path, span: ByteRange, *, over: bool) -> bytes:
    """These bytes with secrets covered, as far as they are there and no secret has just begun.

    `over`: no more will come. Every byte stays in its place, wherever a part begins and ends.
    """
    forms = encode_forms(registered_forms())
    before = min(context_size(forms), span.start)
    # One byte more than is needed tells whether there is anything behind it.
    wide = ByteRange(span.start - before, span.end + context_size(forms) + 1)
    data = read_range(path, wide)
    shown = mask_bytes(data, forms)
    if not over and len(data) < wide.end - wide.start:
        shown = shown[: len(data) - partial_secret_length(data, forms)]
    return shown[before : before + span.end - span.start]


def trim_partial_character(data: bytes, *, over: bool) -> bytes:
    """The beginning of some bytes that breaks no character; all of it where no more will come."""
    if over:
        return data
    # A character has at most four bytes: one that has begun and not ended is among the last three.
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0b1100_0000 == 0b1000_0000:
            continue
        needed = 2 if byte >> 5 == 0b110 else 3 if byte >> 4 == 0b1110 else 4
        begun = byte >> 6 == 0b11 and needed > back
        return data[:-back] if begun else data
    return data

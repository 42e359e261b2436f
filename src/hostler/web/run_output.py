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
from hostler.web.errors import InvalidRange

MAX_OUTPUT_BYTES = 1024 * 1024
_RANGE = re.compile(r"bytes=(\d{0,16})-(\d{0,16})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """A range of bytes; `end` is exclusive."""

    start: int
    end: int


def parse_range(size: int, header: str, offset: int, limit: int) -> ByteRange:
    """Return the requested bytes, from a `Range` header or an offset."""
    if not header:
        start = min(offset, size)
        return ByteRange(start, min(start + limit, size))
    found = _RANGE.fullmatch(header.strip().replace(" ", ""))
    first, last = found.groups() if found else ("", "")
    if not first and not last:
        raise InvalidRange("Invalid `Range` header.", "Use the form `Range: bytes=0-999`.")
    start = int(first) if first else max(size - int(last), 0)
    end = min(int(last) + 1, size) if first and last else size
    if start >= end:
        raise InvalidRange(f"The output has only {size:,} bytes, none from {start:,} on.")
    return ByteRange(start, min(end, start + MAX_OUTPUT_BYTES))


def get_size(path: Path) -> int:
    """Return the size of the file, or 0 if it is missing."""
    try:
        descriptor = open_regular_file(path)
    except NotRegularFile:
        return 0
    try:
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def read_range(path: Path, span: ByteRange) -> bytes:
    """Return the bytes of the range that exist."""
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


def read_masked(path: Path, span: ByteRange, *, complete: bool) -> bytes:
    """Return the bytes of the range that exist, with secrets masked.

    Until the output is `complete`, stop before a secret that may continue. Masking keeps offsets.
    """
    forms = encode_forms(registered_forms())
    before = min(context_size(forms), span.start)
    # Read one byte more, to see whether data follows.
    wide = ByteRange(span.start - before, span.end + context_size(forms) + 1)
    data = read_range(path, wide)
    shown = mask_bytes(data, forms)
    if not complete and len(data) < wide.end - wide.start:
        shown = shown[: len(data) - partial_secret_length(data, forms)]
    return shown[before : before + span.end - span.start]


def trim_partial_character(data: bytes, *, complete: bool) -> bytes:
    """Drop an incomplete UTF-8 character at the end, unless the output is `complete`."""
    if complete:
        return data
    # A character has at most four bytes, so an incomplete one starts in the last three.
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0b1100_0000 == 0b1000_0000:
            continue
        needed = 2 if byte >> 5 == 0b110 else 3 if byte >> 4 == 0b1110 else 4
        is_partial = byte >> 6 == 0b11 and needed > back
        return data[:-back] if is_partial else data
    return data

"""Rules: hide secrets in parts of a stream of bytes, without moving any byte from its place.

Whoever reads a stream in parts may cut a secret anywhere. So a part is looked at with what stands
around it, and the end of a stream that grows is kept back while it may be the beginning of one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from hostler.telemetry.redact import SHAPES

# What is looked at on both sides of a part: longer than any secret, but for the known ones.
AROUND = 8192
COVER = ord("*")
_BREAKS = b"\r\n"
_SHAPES = tuple(re.compile(shape.encode(), re.DOTALL) for shape in SHAPES)
# What has begun at the very end and may become one of these shapes.
_BEGUN = re.compile(
    rb"(?:gh[pousr]_[A-Za-z0-9]*"
    rb"|github_pat_[A-Za-z0-9_]*"
    rb"|sk-[A-Za-z0-9_-]*"
    rb"|xox[abprs]-[A-Za-z0-9-]*"
    rb"|AIza[A-Za-z0-9_-]*"
    rb"|://[^/\s@\"<>\\]*"
    rb"|-----BEGIN [A-Z ]*"
    rb"(?:-{0,4}|PRIVATE KEY-----[^-]*(?:-(?!----)[^-]*)*"
    rb"(?:-----(?:E|EN|END|END [A-Z ]*-{0,4})?)?))\Z",
    re.DOTALL,
)


@lru_cache(maxsize=4)
def as_bytes(forms: frozenset[str]) -> tuple[bytes, ...]:
    """Forms of secrets as they stand in files."""
    return tuple(form.encode("utf-8", "surrogateescape") for form in sorted(forms))


def reach(forms: Collection[bytes]) -> int:
    """How many bytes around a part must be seen, so that no secret is cut."""
    return max([AROUND, *(len(form) for form in forms)])


def masked(data: bytes, forms: Collection[bytes]) -> bytes:
    """The same bytes with every secret covered; lines stay lines."""
    covered = bytearray(data)
    for start, end in _secrets(data, forms):
        for at in range(start, end):
            if data[at] not in _BREAKS:
                covered[at] = COVER
    return bytes(covered)


def begun(data: bytes, forms: Collection[bytes]) -> int:
    """How many of the last bytes may be the beginning of a secret that has not come to its end."""
    shape = _BEGUN.search(data, max(len(data) - AROUND, 0))
    most = len(data) - shape.start() if shape else 0
    return max([most, *(_begun_of(data, form) for form in forms)])


def _begun_of(data: bytes, form: bytes) -> int:
    """With how many bytes the data ends that one form begins with, and goes on after."""
    at = max(len(data) - len(form) + 1, 0)
    while (at := data.find(form[:1], at)) >= 0:
        if form.startswith(data[at:]):
            return len(data) - at
        at += 1
    return 0


def _secrets(data: bytes, forms: Collection[bytes]) -> Iterator[tuple[int, int]]:
    for form in forms:
        at = data.find(form)
        while at >= 0:
            yield at, at + len(form)
            at = data.find(form, at + 1)
    for shape in _SHAPES:
        for found in shape.finditer(data):
            yield found.span()

"""A TOML text as statements: which lines each takes, and which key or table it is about.

`tomllib` itself says where a statement ends: a text that was cut inside of one does not parse.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BLANKS = " \t\r\n"
# What takes several lines ends on one that holds one of these.
_CLOSING = ("]", "}", '"""', "'''")


class Kind(Enum):
    """What a statement is."""

    BLANK = auto()
    COMMENT = auto()
    HEADER = auto()
    VALUE = auto()


@dataclass(frozen=True, slots=True)
class Statement:
    """Some whole lines. `path` is that of a table or key, from the root; else it is empty."""

    kind: Kind
    text: str
    path: tuple[str, ...] = ()

    @property
    def says_something(self) -> bool:
        """Whether it is more than a blank line or a comment."""
        return self.kind in (Kind.HEADER, Kind.VALUE)


def statements(text: str) -> Iterator[Statement]:
    """The statements of a valid text, in order; their texts together are the text."""
    lines = _LINE.findall(text)
    table: tuple[str, ...] = ()
    start = 0
    while start < len(lines):
        bare = lines[start].strip(_BLANKS)
        if not bare or bare.startswith("#"):
            yield Statement(Kind.COMMENT if bare else Kind.BLANK, lines[start])
            start += 1
            continue
        end, document = _whole(lines, start)
        whole, path = "".join(lines[start:end]), _path(document)
        if bare.startswith("["):
            table = path
            yield Statement(Kind.HEADER, whole, path)
        else:
            yield Statement(Kind.VALUE, whole, table + path)
        start = end


def _whole(lines: Sequence[str], start: int) -> tuple[int, dict[str, Any]]:
    """Where the statement that starts here ends, and what it says by itself."""
    for end in range(start + 1, len(lines) + 1):
        if end == start + 1 or any(mark in lines[end - 1] for mark in _CLOSING):
            try:
                return end, tomllib.loads("".join(lines[start:end]))
            except tomllib.TOMLDecodeError:
                continue
    raise ValueError(f"line {start + 1} begins something that never ends")


def _path(document: Any) -> tuple[str, ...]:
    """The way down to the first thing that is not alone in its table."""
    path: list[str] = []
    while isinstance(document, dict) and len(document) == 1:
        ((name, document),) = document.items()
        path.append(name)
    return tuple(path)

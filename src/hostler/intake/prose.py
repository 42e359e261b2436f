"""What an issue's text says in plain words: without code, quotes, comments and struck-out parts.

Not a whole reader of Markdown: it goes over the lines once, and no text can make it fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# More than GitHub takes.
LONGEST = 70_000
_FENCE = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})(?P<rest>.*)")
_QUOTE = re.compile(r"[ \t]*>")
# Points of a list are indented too.
_INDENTED = re.compile(r"(?: {4}|\t)(?!\s*(?:[-*+]|\d+[.)])\s)")
_TICKS = re.compile(r"`+")
_MARK = re.compile(r"`+|<!--")
_STRUCK = re.compile(r"~~[^~]*~~")
# In the place of what is left out: no words go on across it.
_GAP = "`"


def prose(text: str) -> list[str]:
    """The lines of a text; empty where they hold no plain words."""
    return [_STRUCK.sub(_GAP, line) for line in _plain(text[:LONGEST].splitlines())]


def _plain(lines: list[str]) -> Iterator[str]:
    fence, commented, after_gap = "", False, True
    for line in lines:
        if fence:
            fence = "" if _closes(fence, line) else fence
            yield ""
            continue
        fence = "" if commented else _opened(line)
        if fence:
            after_gap = True
            yield ""
            continue
        bare, commented = _bare(line, commented)
        # Code by its indent follows an empty line, or another line of code.
        code = after_gap and bool(bare.strip()) and bool(_INDENTED.match(line))
        after_gap = code or not bare.strip()
        yield "" if code or _QUOTE.match(line) else bare


def _opened(line: str) -> str:
    """The mark that begins a block of code here, if one does."""
    found = _FENCE.match(line)
    if found is None or ("`" in found["mark"] and "`" in found["rest"]):
        return ""
    return found["mark"]


def _closes(fence: str, line: str) -> bool:
    mark = line.strip()
    return len(mark) >= len(fence) and not mark.strip(fence[0])


def _bare(line: str, commented: bool) -> tuple[str, bool]:
    """A line without code and comments, and whether a comment goes on behind it."""
    kept: list[str] = []
    at, ends = 0, _ends_of_code(line)
    while True:
        if commented:
            end = line.find("-->", at)
            if end < 0:
                return "".join(kept), True
            at, commented = end + 3, False
        found = _MARK.search(line, at)
        if found is None:
            return "".join([*kept, line[at:]]), False
        kept.append(line[at : found.start()])
        commented = found[0] == "<!--"
        at = found.end()
        if not commented:
            kept.append(_GAP)
            at = ends.get(found.start()) or at


def _ends_of_code(line: str) -> dict[int, int]:
    """Where the code ends that begins at each place: at the next marks of the same length."""
    ends: dict[int, int] = {}
    following: dict[int, int] = {}
    for found in reversed(list(_TICKS.finditer(line))):
        length = len(found[0])
        if length in following:
            ends[found.start()] = following[length]
        following[length] = found.end()
    return ends

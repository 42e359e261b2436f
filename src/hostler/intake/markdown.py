"""Extract plain text and dependencies from Markdown. Pure functions that never fail."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hostler.model import RepoName
from hostler.store.tasks import IssueRef

# Longer than GitHub allows.
MAX_TEXT_LENGTH = 70_000
_FENCE = re.compile(r"[ \t]*(?P<mark>`{3,}|~{3,})(?P<rest>.*)")
_QUOTE = re.compile(r"[ \t]*>")
# List items are indented too, but are not code.
_INDENTED = re.compile(r"(?: {4}|\t)(?!\s*(?:[-*+]|\d+[.)])\s)")
_TICKS = re.compile(r"`+")
_CODE_OR_COMMENT = re.compile(r"`+|<!--")
_STRIKETHROUGH = re.compile(r"~~[^~]*~~")
# Replaces removed text, so that no phrase continues across it.
_GAP = "`"


def plain_lines(text: str) -> list[str]:
    """Return the lines of a text; empty where they have no plain text."""
    return [
        _STRIKETHROUGH.sub(_GAP, line)
        for line in _strip_blocks(text[:MAX_TEXT_LENGTH].splitlines())
    ]


def _strip_blocks(lines: list[str]) -> Iterator[str]:
    fence, commented, after_gap = "", False, True
    for line in lines:
        if fence:
            fence = "" if _closes_fence(fence, line) else fence
            yield ""
            continue
        fence = "" if commented else _opening_fence(line)
        if fence:
            after_gap = True
            yield ""
            continue
        bare, commented = _strip_inline(line, commented)
        # Code by its indent follows an empty line, or another line of code.
        code = after_gap and bool(bare.strip()) and bool(_INDENTED.match(line))
        after_gap = code or not bare.strip()
        yield "" if code or _QUOTE.match(line) else bare


def _opening_fence(line: str) -> str:
    """Return the fence that opens a code block in this line, if any."""
    found = _FENCE.match(line)
    if found is None or ("`" in found["mark"] and "`" in found["rest"]):
        return ""
    return found["mark"]


def _closes_fence(fence: str, line: str) -> bool:
    mark = line.strip()
    return len(mark) >= len(fence) and not mark.strip(fence[0])


def _strip_inline(line: str, commented: bool) -> tuple[str, bool]:
    """Return a line without code and comments, and whether a comment continues after it."""
    kept: list[str] = []
    at, ends = 0, _code_span_ends(line)
    while True:
        if commented:
            end = line.find("-->", at)
            if end < 0:
                return "".join(kept), True
            at, commented = end + 3, False
        found = _CODE_OR_COMMENT.search(line, at)
        if found is None:
            return "".join([*kept, line[at:]]), False
        kept.append(line[at : found.start()])
        commented = found[0] == "<!--"
        at = found.end()
        if not commented:
            kept.append(_GAP)
            at = ends.get(found.start()) or at


def _code_span_ends(line: str) -> dict[int, int]:
    """Return where each code span ends: at the next run of as many backticks."""
    ends: dict[int, int] = {}
    following: dict[int, int] = {}
    for found in reversed(list(_TICKS.finditer(line))):
        length = len(found[0])
        if length in following:
            ends[found.start()] = following[length]
        following[length] = found.end()
    return ends


MAX_DEPENDENCIES = 50
SELF_DEPENDENCY = "It cannot depend on itself; that is ignored."
TOO_MANY_DEPENDENCIES = (
    f"It depends on more than {MAX_DEPENDENCIES} others; the first {MAX_DEPENDENCIES} count."
)
# The phrase, optionally emphasised or followed by a colon.
_DEPENDENCY_PHRASE = re.compile(
    r"(?<![^\W_])(?:depends\s+on|blocked\s+by)(?![^\W_])[*_]{0,3}\s*:?[*_]{0,3}\s*", re.I
)
_NEGATION = re.compile(r"\b(?:not|no\s+longer|never)\s+(?:\w+\s+)?$", re.I)
_REFERENCE = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)?#(?P<number>[1-9][0-9]{0,9})(?!\w)")
_SEPARATOR = re.compile(r"\s*(?:,\s*(?:and\s+)?|;\s*|&\s*|and\s+)", re.I)
_LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?")


@dataclass(frozen=True, slots=True)
class TextDependencies:
    """What a text depends on, as stored, and a sentence for each thing that was ignored."""

    names: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def parse_text_dependencies(text: str, own: IssueRef) -> TextDependencies:
    """Return the issues that an issue's text depends on, each once, in their order."""
    found = dict.fromkeys(_find_references(plain_lines(text), own.repo))
    others = tuple(str(ref) for ref in found if ref != own)
    left_out = ((SELF_DEPENDENCY,) if own in found else ()) + (
        (TOO_MANY_DEPENDENCIES,) if len(others) > MAX_DEPENDENCIES else ()
    )
    return TextDependencies(others[:MAX_DEPENDENCIES], left_out)


def _find_references(lines: list[str], repo: RepoName) -> Iterator[IssueRef]:
    listing = False
    for line in lines:
        if listing:
            point = _LIST_ITEM.match(line)
            if point:
                yield from _parse_references(line, point.end(), repo)[0]
                continue
            listing = not line.strip()
        for phrase in _DEPENDENCY_PHRASE.finditer(line):
            if _NEGATION.search(line[max(phrase.start() - 40, 0) : phrase.start()]):
                continue
            refs, end = _parse_references(line, phrase.end(), repo)
            yield from refs
            listing = not refs and not line[end:].strip()


def _parse_references(line: str, at: int, repo: RepoName) -> tuple[list[IssueRef], int]:
    """Return the references that follow each other from a position on, and where they end."""
    refs: list[IssueRef] = []
    while found := _REFERENCE.match(line, at):
        ref = IssueRef.parse(f"{found['repo'] or repo}#{found['number']}")
        if ref is not None:
            refs.append(ref)
        at = found.end()
        more = _SEPARATOR.match(line, at)
        if more is None or not _REFERENCE.match(line, more.end()):
            break
        at = more.end()
    return refs, at

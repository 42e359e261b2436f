"""What an issue's text says that it depends on. Pure, and never fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hostler.intake.prose import prose
from hostler.model import RepoName
from hostler.store.tasks import IssueRef

MOST = 50
ITSELF = "It cannot depend on itself; that is left out."
TOO_MANY = f"It depends on more than {MOST} others; the first {MOST} count."
# The words, perhaps emphasised, perhaps with a colon.
_WORDS = re.compile(
    r"(?<![^\W_])(?:depends\s+on|blocked\s+by)(?![^\W_])[*_]{0,3}\s*:?[*_]{0,3}\s*", re.I
)
_NOT = re.compile(r"\b(?:not|no\s+longer|never)\s+(?:\w+\s+)?$", re.I)
_REFERENCE = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)?#(?P<number>[1-9][0-9]{0,9})(?!\w)")
_MORE = re.compile(r"\s*(?:,\s*(?:and\s+)?|;\s*|&\s*|and\s+)", re.I)
_POINT = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s+)?")


@dataclass(frozen=True, slots=True)
class Named:
    """What a text depends on, as stored, and a sentence for each thing that was left out."""

    names: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def references(text: str, own: IssueRef) -> Named:
    """The issues that an issue's text depends on, each once, in their order."""
    found = dict.fromkeys(_found(prose(text), own.repo))
    others = tuple(str(ref) for ref in found if ref != own)
    left_out = ((ITSELF,) if own in found else ()) + ((TOO_MANY,) if len(others) > MOST else ())
    return Named(others[:MOST], left_out)


def _found(lines: list[str], repo: RepoName) -> Iterator[IssueRef]:
    listing = False
    for line in lines:
        if listing:
            point = _POINT.match(line)
            if point:
                yield from _refs(line, point.end(), repo)[0]
                continue
            listing = not line.strip()
        for words in _WORDS.finditer(line):
            if _NOT.search(line[max(words.start() - 40, 0) : words.start()]):
                continue
            refs, end = _refs(line, words.end(), repo)
            yield from refs
            listing = not refs and not line[end:].strip()


def _refs(line: str, at: int, repo: RepoName) -> tuple[list[IssueRef], int]:
    """References one after another from a place on, and where they end."""
    refs: list[IssueRef] = []
    while found := _REFERENCE.match(line, at):
        ref = IssueRef.parse(f"{found['repo'] or repo}#{found['number']}")
        if ref is not None:
            refs.append(ref)
        at = found.end()
        more = _MORE.match(line, at)
        if more is None or not _REFERENCE.match(line, more.end()):
            break
        at = more.end()
    return refs, at

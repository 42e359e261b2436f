"""Where review comments stand: finding a line in a diff, and following it through pushes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hostler.sandbox.git import compare, diffs, hunks
from hostler.sandbox.git.diffs import FileChange
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.pull_entities import Pull, ReviewComment, Spot
from hostler.sandbox.world import World


@dataclass(frozen=True, slots=True)
class Found:
    """A place in a diff with the lines that lead to it."""

    spot: Spot
    hunk: str


def find(patch: str, line: int, side: str, start: int | None, start_side: str) -> Found | None:
    """The place of a line (or stretch of lines) in a patch; None where the patch shows it not."""
    last = hunks.find(patch, line, side)
    if last is None:
        return None
    if start is not None:
        first = hunks.find(patch, start, start_side)
        if first is None or first.hunk != last.hunk or first.position > last.position:
            return None
    return Found(Spot(line, start, last.position), hunks.excerpt(patch, last))


def find_position(patch: str, position: int) -> tuple[Found, str] | None:
    """The place at a distance from the first hunk header, with its side."""
    shown = hunks.at_position(patch, position)
    if shown is None:
        return None
    side = "LEFT" if shown.new is None else "RIGHT"
    return Found(Spot(shown.number(side), None, position), hunks.excerpt(patch, shown)), side


async def follow(world: World, git: Repository, before: Pull, after: Pull) -> None:
    """Move a pull request's comments along with a push; what is gone becomes outdated."""
    found = list(world.truth.group(ReviewComment, "any", after.id).select())
    living = [item for item in found if item.subject == "line" and item.spot.line is not None]
    if not living:
        return
    changed = await diffs.between(git, before.head_sha, after.head_sha)
    shown = await compare.new_files(git, after.base_sha, after.head_sha)
    now = {file.path: file for file in shown}
    step = {file.previous or file.path: file for file in changed}
    for item in living:
        world.put(moved(item, step, now, after.head_sha))


def moved(
    item: ReviewComment, step: Mapping[str, FileChange], now: Mapping[str, FileChange], sha: str
) -> ReviewComment:
    """The comment after a push: shifted, or outdated where its line is no longer shown."""
    outdated = replace(item, spot=Spot())
    file = now.get(item.path)
    line = item.spot.line
    if file is None or file.patch is None or line is None:
        return outdated
    change = step.get(item.path)
    if item.side == "RIGHT" and change is not None:
        line = shifted(change.patch, line)
    shown = hunks.find(file.patch, line, item.side) if line is not None else None
    if shown is None or line is None or shown.text[1:] != _last_line(item.diff_hunk)[1:]:
        return outdated
    start = item.spot.start_line
    start = None if start is None or item.spot.line is None else start + line - item.spot.line
    return replace(item, spot=Spot(line, start, shown.position), commit_id=sha)


def shifted(patch: str | None, line: int) -> int | None:
    """Where a line went when a file was changed; None where it was touched."""
    if patch is None:
        return None
    gap = 0
    for shown in hunks.lines(patch):
        if shown.old == line:
            return shown.new
        if shown.old is not None and shown.old > line:
            break
        # Lines added before ours push it down, lines removed pull it up.
        gap += (shown.old is None) - (shown.new is None)
    return line + gap


def _last_line(hunk: str) -> str:
    return hunk.rpartition("\n")[2]

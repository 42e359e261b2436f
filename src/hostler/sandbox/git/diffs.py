"""Files that differ between two commits, and the lines that their patches show."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from hostler.sandbox.git.repository import Repository

_HEADER = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True, slots=True)
class PatchLine:
    """One line of a patch; `position` counts from the first hunk header, as GitHub does."""

    position: int
    hunk: int
    old: int | None
    new: int | None
    text: str

    def number(self, side: str) -> int | None:
        """Return the line number on the LEFT (old) or RIGHT (new) side."""
        return self.old if side == "LEFT" else self.new


def patch_lines(patch: str) -> list[PatchLine]:
    """Return every shown line with its numbers on both sides."""
    shown: list[PatchLine] = []
    old = new = header = 0
    for position, text in enumerate(patch.split("\n")):
        found = _HEADER.match(text)
        if found:
            old, new, header = int(found[1]), int(found[2]), position
        elif text[:1] in {" ", "+", "-"}:
            left, right = text[0] != "+", text[0] != "-"
            shown.append(
                PatchLine(position, header, old if left else None, new if right else None, text)
            )
            old, new = old + left, new + right
    return shown


def find_line(patch: str, line: int, side: str) -> PatchLine | None:
    """Return the shown line with this number on this side."""
    return next((shown for shown in patch_lines(patch) if shown.number(side) == line), None)


def line_at_position(patch: str, position: int) -> PatchLine | None:
    """Return the shown line at this distance from the first hunk header."""
    return next((shown for shown in patch_lines(patch) if shown.position == position), None)


def hunk_excerpt(patch: str, until: PatchLine) -> str:
    """Return the hunk from its header down to a line: what a review comment carries."""
    return "\n".join(patch.split("\n")[until.hunk : until.position + 1])


# The tree of a commit that has no files; a first commit is compared with it.
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
MAX_PATCH_LENGTH = 400_000

_DIFF = ("diff-tree", "-r", "-M", "--no-ext-diff", "--no-textconv", "--full-index")
_STATUS = {"A": "added", "D": "removed", "M": "modified", "R": "renamed", "C": "copied"}


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file of a diff. `patch` is None where the file is binary, unchanged or too large."""

    path: str
    status: str
    blob: str
    additions: int = 0
    deletions: int = 0
    previous: str | None = None
    patch: str | None = None


async def changed_files(repo: Repository, old: str, new: str) -> list[FileChange]:
    """Return the files that differ from `old` to `new`, by path, without patches."""
    asked = (*_DIFF, "-z", "--raw", "--numstat", old, new)
    return _parse_changes((await repo.read(*asked, about=(old, new))).text)


async def changed_files_with_patches(repo: Repository, old: str, new: str) -> list[FileChange]:
    """Return the same with patches."""
    changes = await changed_files(repo, old, new)
    if not changes:
        return []
    shown = await repo.read(*_DIFF, "--no-color", "-p", old, new, about=(old, new))
    return _with_patches(changes, _split_patches(shown.text))


def _with_patches(changes: list[FileChange], patches: list[str | None]) -> list[FileChange]:
    """Patches come in the order of the files; a file that became a link has two of them."""
    rest = iter(patches)
    found = []
    for change in changes:
        patch = next(rest, None)
        if change.status == "changed":
            next(rest, None)
        found.append(replace(change, patch=patch))
    return found


def _parse_changes(text: str) -> list[FileChange]:
    """File facts from `--raw --numstat -z`: first all raw records, then all counts."""
    fields = text.split("\0")
    changes: list[FileChange] = []
    at = 0
    while at < len(fields) and fields[at].startswith(":"):
        _, _, gone, blob, letter = fields[at].split(" ")
        renamed = letter[0] in "RC"
        paths = fields[at + 1 : at + (3 if renamed else 2)]
        at += 1 + len(paths)
        changes.append(
            FileChange(
                path=paths[-1],
                status=_STATUS.get(letter[0], "changed"),
                blob=gone if letter[0] == "D" else blob,
                previous=paths[0] if renamed else None,
            )
        )
    counts = _counts(fields[at:])
    return [_with_counts(change, *count) for change, count in zip(changes, counts, strict=True)]


def _counts(fields: list[str]) -> list[tuple[str, str]]:
    """`added TAB deleted TAB path`; a rename leaves the path empty and adds two fields."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(fields) and fields[at]:
        added, deleted, path = fields[at].split("\t", 2)
        found.append((added, deleted))
        at += 1 if path else 3
    return found


def _with_counts(change: FileChange, added: str, deleted: str) -> FileChange:
    if added == "-":
        return change
    return replace(change, additions=int(added), deletions=int(deleted))


def _split_patches(text: str) -> list[str | None]:
    """Return one patch per file, each from its first hunk header on."""
    blocks = ("\n" + text).split("\ndiff --git ")[1:]
    return [_patch_body(block) for block in blocks]


def _patch_body(block: str) -> str | None:
    at = block.find("\n@@ ")
    if at < 0 or len(block) > MAX_PATCH_LENGTH:
        return None
    return block[at + 1 :].removesuffix("\n")

"""Files that differ between two commits, with their patches."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hostler.sandbox.git.repository import Repository

# The tree of a commit that has no files; a first commit is compared with it.
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
LARGEST_PATCH = 400_000

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


async def facts(repo: Repository, old: str, new: str) -> list[FileChange]:
    """The files that differ from `old` to `new`, in the order of their paths, without patches."""
    asked = (*_DIFF, "-z", "--raw", "--numstat", old, new)
    return parse((await repo.read(*asked, about=(old, new))).text)


async def between(repo: Repository, old: str, new: str) -> list[FileChange]:
    """The same with patches."""
    changes = await facts(repo, old, new)
    if not changes:
        return []
    shown = await repo.read(*_DIFF, "--no-color", "-p", old, new, about=(old, new))
    return _with_patches(changes, split(shown.text))


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


def parse(text: str) -> list[FileChange]:
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
    return [_counted(change, *count) for change, count in zip(changes, counts, strict=True)]


def _counts(fields: list[str]) -> list[tuple[str, str]]:
    """`added TAB deleted TAB path`; a rename leaves the path empty and adds two fields."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(fields) and fields[at]:
        added, deleted, path = fields[at].split("\t", 2)
        found.append((added, deleted))
        at += 1 if path else 3
    return found


def _counted(change: FileChange, added: str, deleted: str) -> FileChange:
    if added == "-":
        return change
    return replace(change, additions=int(added), deletions=int(deleted))


def split(text: str) -> list[str | None]:
    """One patch per file, each from its first hunk header on."""
    blocks = ("\n" + text).split("\ndiff --git ")[1:]
    return [_body(block) for block in blocks]


def _body(block: str) -> str | None:
    at = block.find("\n@@ ")
    if at < 0 or len(block) > LARGEST_PATCH:
        return None
    return block[at + 1 :].removesuffix("\n")

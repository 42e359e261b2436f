"""Read a path of a commit; write or delete one file as a new commit."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from hostler.sandbox.git.errors import NoSuchObject
from hostler.sandbox.git.process import Signature
from hostler.sandbox.git.repository import Repository


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One entry of a tree."""

    path: str
    mode: str
    kind: str
    sha: str
    size: int | None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class FileEdit:
    """A file to write (or, with `data` None, to delete) on top of a commit."""

    parent: str | None
    path: str
    data: bytes | None
    message: str
    author: Signature
    committer: Signature


async def find_entry(repo: Repository, commit: str, path: str) -> FileEntry | None:
    """Return the file or folder at `path`; None where there is none."""
    if not path:
        found = await repo.read("rev-parse", f"{commit}^{{tree}}", about=(commit,))
        tree = found.text.strip()
        return FileEntry("", "040000", "tree", tree, None)
    asked = ("ls-tree", "-z", "-l", "--full-tree", commit, "--", path)
    listed = await repo.read(*asked, about=(commit,))
    entries = _parse_tree(listed.text)
    return entries[0] if entries else None


async def is_path_blocked(repo: Repository, commit: str, path: str) -> bool:
    """Return whether a file cannot be at `path`: it is a folder, or a folder above it is a file."""
    parts = path.split("/")
    above = ["/".join(parts[:count]) for count in range(1, len(parts))]
    asked = ("ls-tree", "-z", "-l", "--full-tree", commit, "--", *above, path)
    listed = await repo.read(*asked, about=(commit,))
    # Git also lists what else is in a folder that it was asked about twice.
    found = {item.path: item.kind == "tree" for item in _parse_tree(listed.text)}
    return found.get(path, False) or any(not found.get(folder, True) for folder in above)


async def list_tree(repo: Repository, tree: str, *, recursive: bool = False) -> list[FileEntry]:
    """Return the entries of a tree, with paths relative to it."""
    flags = ["-r", "-t"] if recursive else []
    listed = await repo.read("ls-tree", "-z", "-l", *flags, tree, about=(tree,), accept=(0, 128))
    if listed.code:
        raise NoSuchObject(tree)
    return _parse_tree(listed.text)


def _parse_tree(text: str) -> list[FileEntry]:
    """Entries from `ls-tree -z -l`."""
    found = []
    for row in text.split("\0"):
        if row:
            facts, path = row.split("\t", 1)
            mode, kind, sha, size = facts.split()
            found.append(FileEntry(path, mode, kind, sha, int(size) if size.isdigit() else None))
    return found


async def read_blob(repo: Repository, sha: str) -> bytes:
    """Return a file's content."""
    return (await repo.read("cat-file", "blob", sha, about=(sha,))).out


async def write_file(repo: Repository, edit: FileEdit) -> str:
    """Make the commit that carries out an edit; its sha."""
    with tempfile.TemporaryDirectory(prefix="edit-", dir=repo.runner.home) as scratch:
        env = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
        if edit.parent:
            await repo.git("read-tree", edit.parent, env=env)
        await _stage_edit(repo, edit, env)
        tree = (await repo.git("write-tree", env=env)).text.strip()
    parents = (edit.parent,) if edit.parent else ()
    return await repo.write_commit(tree, parents, edit.message, edit.author, edit.committer)


async def _stage_edit(repo: Repository, edit: FileEdit, env: dict[str, str]) -> None:
    if edit.data is None:
        row = f"0 {'0' * 40}\t{edit.path}\0"
    else:
        kept = await find_entry(repo, edit.parent, edit.path) if edit.parent else None
        mode = kept.mode if kept and kept.kind == "blob" else "100644"
        row = f"{mode} {await repo.write_blob(edit.data)}\t{edit.path}\0"
    await repo.git("update-index", "-z", "--index-info", stdin=row.encode(), env=env)

"""Read and move refs."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from hostler.sandbox.git import names
from hostler.sandbox.git.errors import GitCommandFailed, NoSuchObject, NotFastForward, RefMoved
from hostler.sandbox.git.names import ZERO
from hostler.sandbox.git.repository import Repository


@dataclass(frozen=True, slots=True)
class RefMove:
    """One ref that went from `old` to `new`; a row of zeros stands for "not there"."""

    ref: str
    old: str
    new: str

    @property
    def created(self) -> bool:
        return self.old == ZERO

    @property
    def deleted(self) -> bool:
        return self.new == ZERO


@dataclass(frozen=True, slots=True)
class GitRef:
    """A ref and what it names."""

    name: str
    sha: str
    kind: str


async def snapshot(repo: Repository, prefix: str = "refs/") -> dict[str, str]:
    """Return every ref under `prefix` with its sha."""
    return {ref.name: ref.sha for ref in await matching(repo, prefix)}


async def matching(repo: Repository, prefix: str) -> list[GitRef]:
    """Refs whose full name starts with `prefix`, in the order of their names."""
    listed = await repo.git("for-each-ref", "--format=%(objectname) %(objecttype) %(refname)")
    rows = (line.split(" ", 2) for line in listed.lines)
    return [GitRef(name, sha, kind) for sha, kind, name in rows if name.startswith(prefix)]


def moves(before: dict[str, str], after: dict[str, str]) -> list[RefMove]:
    """Return what changed between two snapshots."""
    changed = [
        RefMove(ref, before.get(ref, ZERO), after.get(ref, ZERO))
        for ref in before.keys() | after.keys()
    ]
    return sorted((m for m in changed if m.old != m.new), key=lambda m: m.ref)


async def find(repo: Repository, ref: str) -> str | None:
    """Return the sha that a full ref names."""
    with contextlib.suppress(_AskGit):
        return _loose(repo, ref)
    shown = await repo.git(
        "rev-parse", "--verify", "--quiet", "--end-of-options", ref, accept=(0, 1)
    )
    return shown.text.strip() or None


class _AskGit(Exception):
    """The file of a ref alone does not say what the ref names."""


def _loose(repo: Repository, ref: str) -> str | None:
    """Return what the file of a ref says; None if there is no such ref."""
    if not ref.startswith("refs/") or not names.is_branch_name(ref):
        raise _AskGit
    try:
        text = (repo.path / ref).read_text("ascii").strip()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        if (repo.path / "packed-refs").exists() or not (repo.path / "HEAD").exists():
            raise _AskGit from None
        return None
    except (OSError, ValueError):
        raise _AskGit from None
    if not names.is_sha(text):
        raise _AskGit
    return text


async def branch(repo: Repository, name: str) -> str | None:
    """Return the sha of a branch's head."""
    return await find(repo, names.branch_ref(name))


async def resolve(repo: Repository, text: str) -> str:
    """Return the commit behind a branch, tag, full ref or (short) sha."""
    for candidate in _candidates(text):
        named = await find(repo, candidate) if candidate.startswith("refs/") else candidate
        if named is None:
            continue
        if candidate.startswith("refs/heads/"):
            return named  # git puts nothing but commits there
        shown = await repo.read(
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            f"{named}^{{commit}}",
            about=(named,),
            accept=(0, 1, 128),
        )
        if shown.code == 0:
            return shown.text.strip()
    raise NoSuchObject(text)


def _candidates(text: str) -> list[str]:
    if text == "HEAD":
        return ["HEAD"]
    found = [f"refs/{kind}/{text}" for kind in ("heads", "tags") if names.is_branch_name(text)]
    if text.startswith(("refs/", "heads/", "tags/")) and names.is_branch_name(text):
        found.append(f"refs/{text.removeprefix('refs/')}")
    if 7 <= len(text) <= 40 and all(letter in "0123456789abcdef" for letter in text):
        found.append(text)
    return found


async def move(repo: Repository, ref: str, new: str, *, expected: str | None = None) -> RefMove:
    """Create, move or (with zeros) delete one ref; `expected` is where it must be now."""
    old = await find(repo, ref) or ZERO
    if expected is not None and old != expected:
        raise RefMoved(ref)
    args = ("-d", ref, old) if new == ZERO else (ref, new, old)
    try:
        await repo.git("update-ref", *args)
    except GitCommandFailed as error:
        raise RefMoved(ref) from error
    return RefMove(ref, old, new)


async def forward(repo: Repository, ref: str, new: str, *, force: bool) -> RefMove:
    """Move an existing ref; without force only to a commit that contains the old one."""
    old = await find(repo, ref)
    if old is None:
        raise NoSuchObject(ref)
    if not force and not await contains(repo, new, old):
        raise NotFastForward(ref)
    return await move(repo, ref, new, expected=old)


async def contains(repo: Repository, descendant: str, ancestor: str) -> bool:
    """Return whether `ancestor` is part of `descendant`'s history."""
    asked = await repo.read(
        "merge-base",
        "--is-ancestor",
        ancestor,
        descendant,
        about=(ancestor, descendant),
        accept=(0, 1, 128),
        final=(0, 1),
    )
    return asked.code == 0


async def object_kind(repo: Repository, sha: str) -> str | None:
    """Return commit, tag, tree or blob; None if there is no such object."""
    shown = await repo.read("cat-file", "-t", names.sha(sha), about=(sha,), accept=(0, 1, 128))
    return shown.text.strip() if shown.code == 0 else None

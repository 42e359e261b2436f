"""Read, compare and merge commits.

Merge, squash and rebase make commits and return the last one; they move no ref. Each of them rests
on a three-way merge in a throw-away work tree with its own index, because that works with every
git, also with those older than `merge-tree --write-tree`.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hostler.sandbox.git import diffs
from hostler.sandbox.git.diffs import FileChange
from hostler.sandbox.git.errors import MergeConflict, NoSuchObject
from hostler.sandbox.git.process import Signature
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.state.clock import clamp_to_calendar

_FIELDS = ("%H", "%T", "%P", "%an", "%ae", "%at", "%cn", "%ce", "%ct", "%B")
# NUL is the one character that no name and no message can hold.
_FORMAT = ("-z", "--format=" + "%x00".join(_FIELDS))


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit as git stores it."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: Signature
    committer: Signature
    message: str

    @property
    def title(self) -> str:
        return self.message.split("\n", 1)[0]


@dataclass(frozen=True, slots=True)
class CommitQuery:
    """Which commits to list, newest first."""

    start: str
    exclude: tuple[str, ...] = ()
    path: str = ""
    author: str = ""
    since: datetime | None = None
    until: datetime | None = None
    skip: int = 0
    count: int = 0


async def log(repo: Repository, wanted: CommitQuery) -> list[Commit]:
    """Return the commits of a history, newest first."""
    about = (wanted.start, *wanted.exclude)
    shown = await repo.read("log", *_FORMAT, *_arguments(wanted), about=about, accept=(0, 128))
    if shown.code:
        raise NoSuchObject(wanted.start)
    return _parse_commits(shown.text)


def _arguments(wanted: CommitQuery) -> list[str]:
    args = [f"--skip={wanted.skip}"] if wanted.skip else []
    args += [f"--max-count={wanted.count}"] if wanted.count else []
    args += [f"--author={wanted.author}", "--fixed-strings"] if wanted.author else []
    args += [f"--since={_git_date(wanted.since)}"] if wanted.since else []
    args += [f"--until={_git_date(wanted.until)}"] if wanted.until else []
    args += ["--end-of-options", wanted.start, *(f"^{sha}" for sha in wanted.exclude)]
    return [*args, "--", wanted.path] if wanted.path else [*args, "--"]


def _git_date(moment: datetime) -> str:
    """Return a time in the one form that git does not guess at."""
    return f"@{int(moment.timestamp())} +0000"


async def count_commits(repo: Repository, wanted: CommitQuery) -> int:
    """Return how many commits a history has."""
    args = _arguments(wanted)
    about = (wanted.start, *wanted.exclude)
    return int((await repo.read("rev-list", "--count", *args, about=about)).text)


async def get_commit(repo: Repository, sha: str) -> Commit:
    """Return one commit by its sha."""
    found = await log(repo, CommitQuery(sha, count=1))
    if not found:
        raise NoSuchObject(sha)
    return found[0]


def _parse_commits(text: str) -> list[Commit]:
    """Commits from our log format."""
    fields, size = text.split("\0"), len(_FIELDS)
    return [_parse_commit(fields[at : at + size]) for at in range(0, len(fields) - 1, size)]


def _parse_commit(fields: list[str]) -> Commit:
    sha, tree, parents, name, email, when, by_name, by_email, by_when, message = fields
    author = Signature(name, email, _commit_time(when))
    committer = Signature(by_name, by_email, _commit_time(by_when))
    return Commit(sha, tree, tuple(parents.split()), author, committer, message.rstrip("\n"))


def _commit_time(seconds: str) -> datetime:
    """Return a commit's time, clamped to the calendar because git keeps any number."""
    return datetime.fromtimestamp(clamp_to_calendar(int(seconds or 0)), UTC)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `head` has beyond `base`. `merge_base` is None without common history."""

    base: str
    head: str
    merge_base: str | None
    ahead: int
    behind: int

    @property
    def status(self) -> str:
        if self.ahead and self.behind:
            return "diverged"
        if self.ahead:
            return "ahead"
        return "behind" if self.behind else "identical"


async def merge_bases(repo: Repository, base: str, head: str) -> list[str]:
    """Return all best common ancestors."""
    both = (base, head)
    asked = ("merge-base", "--all", *both)
    return (await repo.read(*asked, about=both, accept=(0, 1), final=(0, 1))).lines


async def compare(repo: Repository, base: str, head: str) -> Comparison:
    """Count what each side has beyond the other."""
    bases = await merge_bases(repo, base, head)
    asked = ("rev-list", "--left-right", "--count", f"{base}...{head}")
    counted = await repo.read(*asked, about=(base, head))
    behind, ahead = counted.text.split()
    return Comparison(base, head, bases[0] if bases else None, int(ahead), int(behind))


async def new_commits(repo: Repository, base: str, head: str) -> list[Commit]:
    """Return the commits of `head` that `base` lacks, oldest first."""
    return (await log(repo, CommitQuery(head, exclude=(base,))))[::-1]


async def new_files(repo: Repository, base: str, head: str) -> list[FileChange]:
    """Return what a pull request shows: the difference from the common ancestor to `head`."""
    bases = await merge_bases(repo, base, head)
    return await diffs.changed_files_with_patches(
        repo, bases[0] if bases else diffs.EMPTY_TREE, head
    )


@dataclass(frozen=True, slots=True)
class Merge:
    """What to merge, the author and committer, and the message."""

    base: str
    head: str
    message: str
    author: Signature
    committer: Signature


async def _merged_tree(repo: Repository, base: str, head: str) -> str:
    """Return the tree of both sides together, or MergeConflict."""
    bases = await merge_bases(repo, base, head)
    if not bases:
        raise MergeConflict
    return await _three_way(repo, bases, base, head)


async def _three_way(repo: Repository, bases: Sequence[str], ours: str, theirs: str) -> str:
    """Apply what changed from `bases` to `theirs` on top of `ours`; the resulting tree."""
    scratch = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="merge-", dir=repo.runner.home))
    work = scratch / "work"
    work.mkdir()
    env = {"GIT_WORK_TREE": str(work), "GIT_INDEX_FILE": str(scratch / "index")}
    try:
        await repo.git("read-tree", "-m", "-u", ours, env=env)
        merged = await repo.git(
            "merge-recursive", *bases, "--", ours, theirs, env=env, accept=(0, 1)
        )
        if merged.code:
            raise MergeConflict(await _unmerged(repo, env))
        return (await repo.git("write-tree", env=env)).text.strip()
    finally:
        await asyncio.to_thread(shutil.rmtree, scratch, True)


async def _unmerged(repo: Repository, env: dict[str, str]) -> list[str]:
    listed = await repo.git("ls-files", "-u", "-z", env=env)
    return sorted({row.split("\t", 1)[1] for row in listed.text.split("\0") if row})


async def merge(repo: Repository, wanted: Merge) -> str:
    """Make one commit with both sides as parents."""
    tree = await _merged_tree(repo, wanted.base, wanted.head)
    parents = (wanted.base, wanted.head)
    return await repo.write_commit(tree, parents, wanted.message, wanted.author, wanted.committer)


async def squash(repo: Repository, wanted: Merge) -> str:
    """Make one commit on the base with all changes of the head."""
    tree = await _merged_tree(repo, wanted.base, wanted.head)
    return await repo.write_commit(
        tree, (wanted.base,), wanted.message, wanted.author, wanted.committer
    )


async def rebase(repo: Repository, wanted: Merge) -> str:
    """Repeat each of the head's commits on top of the base."""
    tip = wanted.base
    for commit in await new_commits(repo, wanted.base, wanted.head):
        if len(commit.parents) == 1:
            tip = await _replay_commit(repo, commit, tip, wanted.committer)
    return tip


async def _replay_commit(repo: Repository, commit: Commit, tip: str, committer: Signature) -> str:
    tree = await _three_way(repo, commit.parents, tip, commit.sha)
    return await repo.write_commit(tree, (tip,), commit.message, commit.author, committer)

"""Merge, squash and rebase: each makes commits and returns the last one; no ref is touched.

Every way rests on one step, a three-way merge in a throw-away work tree with an index of its
own, because that works with every git since long before `merge-tree --write-tree`.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hostler.sandbox.git import compare
from hostler.sandbox.git.commits import Commit
from hostler.sandbox.git.errors import MergeConflict
from hostler.sandbox.git.process import Person
from hostler.sandbox.git.repository import Repository


@dataclass(frozen=True, slots=True)
class Merge:
    """What to bring together, in whose name and with which words."""

    base: str
    head: str
    message: str
    author: Person
    committer: Person


async def merged_tree(repo: Repository, base: str, head: str) -> str:
    """The tree of both sides together, or MergeConflict."""
    bases = await compare.merge_bases(repo, base, head)
    if not bases:
        raise MergeConflict
    return await three_way(repo, bases, base, head)


async def three_way(repo: Repository, bases: Sequence[str], ours: str, theirs: str) -> str:
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
    """One commit with both sides as parents."""
    tree = await merged_tree(repo, wanted.base, wanted.head)
    parents = (wanted.base, wanted.head)
    return await repo.write_commit(tree, parents, wanted.message, wanted.author, wanted.committer)


async def squash(repo: Repository, wanted: Merge) -> str:
    """One commit on the base with everything the head brings."""
    tree = await merged_tree(repo, wanted.base, wanted.head)
    return await repo.write_commit(
        tree, (wanted.base,), wanted.message, wanted.author, wanted.committer
    )


async def rebase(repo: Repository, wanted: Merge) -> str:
    """Each of the head's commits again, on top of the base."""
    tip = wanted.base
    for commit in await compare.new_commits(repo, wanted.base, wanted.head):
        if len(commit.parents) == 1:
            tip = await _replay(repo, commit, tip, wanted.committer)
    return tip


async def _replay(repo: Repository, commit: Commit, tip: str, committer: Person) -> str:
    tree = await three_way(repo, commit.parents, tip, commit.sha)
    return await repo.write_commit(tree, (tip,), commit.message, commit.author, committer)

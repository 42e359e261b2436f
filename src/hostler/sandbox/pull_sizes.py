"""How much a pull request changes, asked of git."""

from __future__ import annotations

from hostler.sandbox.git import compare, diffs
from hostler.sandbox.git.repository import Repository
from hostler.sandbox.pull_entities import Size


async def measure(git: Repository, base: str, head: str) -> Size:
    """Count commits, files and lines between the common ancestor and the head."""
    found = await compare.compare(git, base, head)
    files = await diffs.facts(git, found.merge_base or diffs.EMPTY_TREE, head)
    return Size(
        commits=found.ahead,
        additions=sum(file.additions for file in files),
        deletions=sum(file.deletions for file in files),
        files=len(files),
    )

"""How two commits stand to each other."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.sandbox.git import commits, diffs
from hostler.sandbox.git.commits import Commit, History
from hostler.sandbox.git.diffs import FileChange
from hostler.sandbox.git.repository import Repository


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
    """All best common ancestors."""
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
    """The commits of `head` that `base` lacks, oldest first."""
    return (await commits.log(repo, History(head, exclude=(base,))))[::-1]


async def new_files(repo: Repository, base: str, head: str) -> list[FileChange]:
    """What a pull request shows: the difference from the common ancestor to `head`."""
    bases = await merge_bases(repo, base, head)
    return await diffs.between(repo, bases[0] if bases else diffs.EMPTY_TREE, head)

"""Names of what a task can depend on, as stored: a task's id, or an issue as `owner/repo#12`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hostler.model import RepoName

_ISSUE = re.compile(r"([^/#\s]+/[^/#\s]+)#([1-9][0-9]{0,9})")


@dataclass(frozen=True, slots=True, order=True)
class IssueRef:
    """An issue. Repositories are in small letters: GitHub reads their names so."""

    repo: RepoName
    number: int

    @classmethod
    def of(cls, repo: RepoName, number: int) -> IssueRef:
        """An issue of a repository, however that is spelled."""
        return cls(RepoName(repo.owner.lower(), repo.name.lower()), number)

    @classmethod
    def parse(cls, text: str) -> IssueRef | None:
        """Read `owner/repo#12`; None for anything else, as a task's id."""
        found = _ISSUE.fullmatch(text)
        if found is None:
            return None
        try:
            return cls.of(RepoName.parse(found[1]), int(found[2]))
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"{self.repo}#{self.number}"

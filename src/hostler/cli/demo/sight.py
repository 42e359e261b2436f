"""What can be seen at one moment: on GitHub, and in the service's database. Plain data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hostler.cli.demo.cast import BOT

_LINK = re.compile(r"^(Fixes|Refs) #(\d+)$", re.MULTILINE)
_STATUS = "**Hostler**"
_MARK = re.compile(r"\s*<!-- .*? -->\s*$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Said:
    """A comment in a conversation; `versions` counts the wordings that were seen of it."""

    id: int
    author: str
    body: str
    versions: int = 1

    @property
    def text(self) -> str:
        """The words without the mark at their end."""
        return _MARK.sub("", self.body)

    @property
    def is_status(self) -> bool:
        """Whether it only says where a task is."""
        return self.author == BOT and self.body.startswith(_STATUS)


@dataclass(frozen=True, slots=True)
class Remark(Said):
    """A comment on a line, or an answer in its thread."""

    path: str = ""
    line: int | None = None
    in_reply_to: int | None = None


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue."""

    repo: str
    number: int
    title: str
    author: str
    open: bool = True
    labels: tuple[str, ...] = ()
    comments: tuple[Said, ...] = ()

    @property
    def talk(self) -> list[Said]:
        """What people and agents said: everything but statuses."""
        return [said for said in self.comments if not said.is_status]

    @property
    def asks(self) -> bool:
        """Whether a question of ours is the last word."""
        return bool(self.talk) and self.talk[-1].author == BOT


@dataclass(frozen=True, slots=True)
class Pull:
    """A pull request."""

    repo: str
    number: int
    title: str
    body: str
    author: str
    branch: str
    head: str
    open: bool = True
    merged_by: str | None = None
    approved_by: tuple[str, ...] = ()
    commits: int = 1
    remarks: tuple[Remark, ...] = ()
    comments: tuple[Said, ...] = ()

    @property
    def issue(self) -> int | None:
        """The issue that its text names."""
        found = _LINK.search(self.body)
        return int(found[2]) if found else None

    def threads(self) -> Iterator[tuple[Remark, list[Remark]]]:
        """Every comment on a line that somebody else made, with our replies to it."""
        for remark in self.remarks:
            if remark.in_reply_to is None and remark.author != BOT:
                yield (
                    remark,
                    [
                        one
                        for one in self.remarks
                        if one.in_reply_to == remark.id and one.author == BOT
                    ],
                )


@dataclass(frozen=True, slots=True)
class GitHub:
    """What is visible on GitHub."""

    issues: tuple[Issue, ...] = ()
    pulls: tuple[Pull, ...] = ()

    def titled(self, title: str) -> Issue | None:
        """The issue of this title."""
        return next((issue for issue in self.issues if issue.title == title), None)

    def pulls_of(self, issue: Issue) -> list[Pull]:
        """The pull requests that name an issue, oldest first."""
        return [
            pull for pull in self.pulls if pull.repo == issue.repo and pull.issue == issue.number
        ]

    def pull_of(self, issue: Issue, number: int | None) -> Pull | None:
        """The pull request of this number."""
        return next((pull for pull in self.pulls_of(issue) if pull.number == number), None)

    def issue_of(self, pull: Pull) -> Issue | None:
        """The issue that a pull request names."""
        return next((issue for issue in self.issues if pull in self.pulls_of(issue)), None)


@dataclass(frozen=True, slots=True)
class RunSeen:
    """One run of an agent; `words` is what it has said."""

    run: str
    state: str
    attempt: int
    outcome: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskSeen:
    """One task as the service keeps it."""

    id: str
    repo: str
    issue: int
    flow: str
    state: str
    reason: str = ""
    attempt: int = 0
    pull: int | None = None
    runs: tuple[RunSeen, ...] = ()

    @property
    def live(self) -> RunSeen | None:
        """The run that has not ended."""
        return next((run for run in self.runs if run.state != "ended"), None)


@dataclass(frozen=True, slots=True)
class House:
    """What the database says; `unsent` counts the writes that are still to be made."""

    tasks: tuple[TaskSeen, ...] = ()
    unsent: int = 0

    def tasks_of(self, issue: Issue) -> list[TaskSeen]:
        """The tasks of an issue, oldest first."""
        return [
            task for task in self.tasks if task.repo == issue.repo and task.issue == issue.number
        ]


@dataclass(frozen=True, slots=True)
class Sight:
    """Both, at one moment."""

    github: GitHub = GitHub()
    house: House = House()

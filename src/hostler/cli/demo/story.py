"""The people's moves: what each would do now, given what is visible on GitHub. Pure.

A move is due until its effect is visible, so nobody has to remember what was done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hostler.cli.demo.cast import ALLOWED, BOT, MAINTAINER, REVIEWER, Filing, Plot, Review
from hostler.cli.demo.sight import GitHub, House, Pull, Sight


@dataclass(frozen=True, slots=True)
class FileIssue:
    """File an issue, with its label."""

    filing: Filing

    @property
    def who(self) -> str:
        return self.filing.author


@dataclass(frozen=True, slots=True)
class CommentOnLine:
    """Comment on the first line of a file that holds a word."""

    repo: str
    pull: int
    head: str
    path: str
    near: str
    body: str
    who: str = REVIEWER


@dataclass(frozen=True, slots=True)
class EditRemark:
    """Put other words into a comment on a line."""

    repo: str
    remark: int
    body: str
    who: str = REVIEWER


@dataclass(frozen=True, slots=True)
class AnswerQuestion:
    """Answer a question on an issue."""

    repo: str
    issue: int
    body: str
    who: str = MAINTAINER


@dataclass(frozen=True, slots=True)
class Approve:
    """Approve a pull request, without words."""

    repo: str
    pull: int
    head: str
    who: str = REVIEWER


@dataclass(frozen=True, slots=True)
class Merge:
    """Merge what was approved."""

    repo: str
    pull: int
    head: str
    who: str = REVIEWER


Move = FileIssue | CommentOnLine | EditRemark | AnswerQuestion | Approve | Merge


def due(plot: Plot, github: GitHub) -> list[Move]:
    """All moves that are due now."""
    return [*_filings(plot, github), *_answers(plot, github), *_on_pulls(plot, github)]


def settled(plot: Plot, sight: Sight) -> bool:
    """Whether nobody has anything left to do: no person, no agent, no sender."""
    github, house = sight.github, sight.house
    wanted = [issue for issue in github.issues if issue.author in ALLOWED]
    return (
        not due(plot, github)
        and all(not issue.open and house.tasks_of(issue) for issue in wanted)
        and not any(pull.open for pull in github.pulls)
        and _rests(house)
    )


def _rests(house: House) -> bool:
    return not house.unsent and all(
        task.state == "done" and task.live is None for task in house.tasks
    )


def _filings(plot: Plot, github: GitHub) -> Iterator[Move]:
    for filing in plot.filings:
        if github.titled(filing.title) is None:
            yield FileIssue(filing)


def _answers(plot: Plot, github: GitHub) -> Iterator[Move]:
    for answer in plot.answers:
        issue = github.titled(answer.issue)
        if issue is not None and issue.open and issue.asks:
            yield AnswerQuestion(issue.repo, issue.number, answer.text)


def _on_pulls(plot: Plot, github: GitHub) -> Iterator[Move]:
    for pull in github.pulls:
        if pull.open and pull.author == BOT:
            yield from _on_pull(pull, _review_of(plot, github, pull))


def _review_of(plot: Plot, github: GitHub, pull: Pull) -> Review | None:
    issue = github.issue_of(pull)
    return next((one for one in plot.reviews if issue and one.issue == issue.title), None)


def _on_pull(pull: Pull, review: Review | None) -> Iterator[Move]:
    """The next word of the review, or the approval, or the merge; nothing while we wait."""
    if review is not None:
        thread = next((thread for thread in pull.threads() if thread[0].body in review.words), None)
        if thread is None:
            yield CommentOnLine(
                pull.repo, pull.number, pull.head, review.path, review.near, review.words[0]
            )
            return
        remark, replies = thread
        said = review.words.index(remark.body) + 1
        if len(replies) < said:
            return
        if said < len(review.words):
            yield EditRemark(pull.repo, remark.id, review.words[said])
            return
    approved = REVIEWER in pull.approved_by
    yield (Merge if approved else Approve)(pull.repo, pull.number, pull.head)

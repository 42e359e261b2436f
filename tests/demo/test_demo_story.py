"""The people's moves: due when they are, not before, and not again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from demo_scenes import (
    ALMANAC,
    BREST,
    END,
    FIRST,
    LEAP,
    MONTHS,
    PLOT,
    SECOND,
    filed,
    pulled,
    remark,
    status,
    with_issue,
    with_task,
)

from hostler.cli.demo.environment import BOT, MAINTAINER, REVIEWER
from hostler.cli.demo.observe import CommentSnapshot, DatabaseSnapshot, DemoSnapshot, GitHubSnapshot
from hostler.cli.demo.people import (
    AnswerQuestion,
    ApprovePull,
    CommentOnLine,
    EditReviewComment,
    FileIssue,
    MergePull,
    due_actions,
    is_settled,
)

FILED = tuple(filed(one.title, n) for n, one in enumerate(PLOT.filings, start=1))


def moves(github: GitHubSnapshot) -> list:
    """What is due apart from issues that are still to be filed."""
    return [move for move in due_actions(PLOT, github) if not isinstance(move, FileIssue)]


def test_each_issue_is_filed_once_by_its_author():
    assert [(move.who, move.filing.title) for move in due_actions(PLOT, GitHubSnapshot())] == [
        (one.author, one.title) for one in PLOT.filings
    ]
    assert due_actions(PLOT, GitHubSnapshot(FILED)) == []
    assert [move.filing for move in due_actions(PLOT, GitHubSnapshot(FILED[1:]))] == [
        PLOT.filings[0]
    ]


def test_a_question_is_answered_once_and_a_status_is_none():
    def asked(*comments: CommentSnapshot) -> list:
        return moves(GitHubSnapshot((filed(BREST, 1, comments=comments),)))

    question, answer = (
        CommentSnapshot(2, BOT, "Which one?"),
        CommentSnapshot(3, MAINTAINER, "That one."),
    )
    assert asked(status(1)) == []
    assert [type(move) for move in asked(status(1), question)] == [AnswerQuestion]
    assert asked(status(1), question, answer) == []
    assert (
        len(asked(status(1), question, answer, CommentSnapshot(4, BOT, "And which other one?")))
        == 1
    )


def test_nobody_answers_where_there_is_nothing_to_say():
    question = CommentSnapshot(2, BOT, "Which one?")
    assert moves(GitHubSnapshot((filed(MONTHS, 1, comments=(question,)),))) == []


def test_a_pull_request_without_a_review_is_approved_and_then_merged():
    issue, pull = filed(MONTHS, 2), pulled(ALMANAC, 5, 2)
    assert moves(GitHubSnapshot((issue,), (pull,))) == [ApprovePull(ALMANAC, 5, pull.head)]
    approved = replace(pull, approved_by=(REVIEWER,))
    assert moves(GitHubSnapshot((issue,), (approved,))) == [MergePull(ALMANAC, 5, pull.head)]
    assert moves(GitHubSnapshot((issue,), (replace(approved, open=False),))) == []


@pytest.mark.parametrize("pull", [pulled(ALMANAC, 5, 2, author=MAINTAINER)])
def test_a_pull_request_of_somebody_else_is_not_looked_at(pull):
    assert moves(GitHubSnapshot((filed(MONTHS, 2),), (pull,))) == []


REPLY = remark(8, "Done.", BOT, in_reply_to=7)
SECOND_REPLY = remark(9, "Done again.", BOT, in_reply_to=7)
REVIEWS = {
    "nothing was said": ((), CommentOnLine),
    "only others have spoken": ((remark(6, "Nice.", MAINTAINER),), CommentOnLine),
    "it is not answered": ((remark(7, FIRST),), None),
    "somebody else replied": ((remark(7, FIRST), replace(REPLY, author=MAINTAINER)), None),
    "it is answered": ((remark(7, FIRST), REPLY), EditReviewComment),
    "the edit is not answered": ((remark(7, SECOND, versions=2), REPLY), None),
    "the edit is answered": ((remark(7, SECOND, versions=2), REPLY, SECOND_REPLY), ApprovePull),
}


@pytest.mark.parametrize(("remarks", "wanted"), REVIEWS.values(), ids=REVIEWS)
def test_a_review_goes_on_when_its_last_words_are_answered(remarks, wanted):
    github = GitHubSnapshot((filed(LEAP, 1),), (pulled(ALMANAC, 4, 1, remarks=remarks),))
    assert [type(move) for move in moves(github)] == ([wanted] if wanted else [])


def test_the_edit_has_the_next_words_of_the_review():
    github = GitHubSnapshot(
        (filed(LEAP, 1),), (pulled(ALMANAC, 4, 1, remarks=(remark(7, FIRST), REPLY)),)
    )
    assert moves(github) == [EditReviewComment(ALMANAC, 7, SECOND)]


def test_the_end_is_settled_and_nothing_before_it_is():
    assert is_settled(PLOT, END)
    assert not is_settled(PLOT, DemoSnapshot())
    assert not is_settled(PLOT, DemoSnapshot(GitHubSnapshot(FILED), END.database))
    assert not is_settled(PLOT, with_issue(END, LEAP, open=True))
    assert not is_settled(PLOT, with_task(END, ALMANAC, "bugfix", state="awaiting_feedback"))
    assert not is_settled(PLOT, replace(END, database=replace(END.database, unsent=1)))
    assert not is_settled(PLOT, replace(END, database=DatabaseSnapshot()))


def test_the_end_is_not_settled_while_an_agent_lives():
    live = replace(END.database.tasks[0].runs[0], state="running")
    assert not is_settled(PLOT, with_task(END, ALMANAC, "bugfix", runs=(live,)))

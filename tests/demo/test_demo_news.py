"""What is told: everything that is new, once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from demo_scenes import (
    ALMANAC,
    BREST,
    END,
    FIRST,
    LEAP,
    SECOND,
    filed,
    merged,
    pulled,
    remark,
    run,
    status,
    task,
)
from hypothesis import given
from hypothesis import strategies as st

from hostler.cli.demo.display import find_events
from hostler.cli.demo.environment import BOT, MAINTAINER, REVIEWER
from hostler.cli.demo.observe import CommentSnapshot, DatabaseSnapshot, DemoSnapshot, GitHubSnapshot

NEW_ISSUE = GitHubSnapshot((filed(LEAP, 1),))
PULL = pulled(ALMANAC, 4, 1, remarks=(remark(7, FIRST),))
TASK = replace(task(ALMANAC, 1, "bugfix", 4), state="running", runs=())
WITH_PULL = GitHubSnapshot((filed(LEAP, 1),), (PULL,))


def github(pull) -> GitHubSnapshot:
    return GitHubSnapshot((filed(LEAP, 1),), (pull,))


def database(**changes) -> DatabaseSnapshot:
    return DatabaseSnapshot((replace(TASK, **changes),))


ASKED = GitHubSnapshot(
    (filed(BREST, 1, comments=(status(1), CommentSnapshot(2, BOT, "Which one?\n\nAnswer here."))),)
)
ANSWERED = GitHubSnapshot(
    (
        filed(
            BREST, 1, comments=(*ASKED.issues[0].comments, CommentSnapshot(3, MAINTAINER, "That."))
        ),
    )
)
REPLY = remark(8, "Done.\n\n<!-- x -->", BOT, in_reply_to=7)
STEPS = {
    "an issue": (
        GitHubSnapshot(),
        NEW_ISSUE,
        ("ada", "files “1900 counts as a leap year” [agent:bugfix]"),
    ),
    "a question": (
        GitHubSnapshot((filed(BREST, 1),)),
        ASKED,
        ("hostler", "asks: “Which one?”"),
    ),
    "an answer": (
        ASKED,
        GitHubSnapshot(
            (
                replace(
                    ASKED.issues[0],
                    comments=(*ASKED.issues[0].comments, CommentSnapshot(3, MAINTAINER, "That.")),
                ),
            )
        ),
        ("ada", "answers: “That.”"),
    ),
    "a pull request": (
        NEW_ISSUE,
        github(replace(PULL, remarks=())),
        ("hostler", "opens pull request #4: Work"),
    ),
    "a comment": (
        github(replace(PULL, remarks=())),
        WITH_PULL,
        ("grace", f"comments on almanac/years.py:6: “{FIRST}”"),
    ),
    "a commit": (
        WITH_PULL,
        github(replace(PULL, head="decafbad")),
        ("hostler", "pushes a commit to #4: decafba"),
    ),
    "a reply": (
        WITH_PULL,
        github(
            replace(
                PULL, remarks=(*PULL.remarks, remark(8, "Done.\n\n<!-- x -->", BOT, in_reply_to=7))
            )
        ),
        ("hostler", "replies in the thread: “Done.”"),
    ),
    "an edit": (
        WITH_PULL,
        github(replace(PULL, remarks=(remark(7, SECOND, versions=2),))),
        ("grace", f"edits the comment: “{SECOND}”"),
    ),
    "an approval": (
        WITH_PULL,
        github(replace(PULL, approved_by=(REVIEWER,))),
        ("grace", "approves #4"),
    ),
    "a merge": (
        github(replace(PULL, approved_by=(REVIEWER,))),
        github(merged(PULL)),
        ("grace", "merges #4"),
    ),
    "a closed issue": (
        NEW_ISSUE,
        GitHubSnapshot((replace(NEW_ISSUE.issues[0], open=False),)),
        ("github", "the issue is closed"),
    ),
}


@pytest.mark.parametrize(("before", "after", "told"), STEPS.values(), ids=STEPS)
def test_each_thing_on_github_is_told(before, after, told):
    (line,) = find_events(DemoSnapshot(before), DemoSnapshot(after))
    assert (line.who, line.what) == told
    assert line.issue in ("almanac #1", "tide-table #1")


WORK = {
    "picked up": (DatabaseSnapshot(), database(), ("hostler", "picks it up: bugfix")),
    "started": (database(), database(runs=(run("r1", ""),)), ("hostler", "starts an agent")),
    "started again": (
        database(),
        database(runs=(run("r1", "", attempt=2),)),
        ("hostler", "starts an agent (run 2 of this task)"),
    ),
    "spoke": (
        database(runs=(run("r1", "", words=("One.",)),)),
        database(runs=(run("r1", "", words=("One.", "Two.")),)),
        ("agent", "Two."),
    ),
    "failed": (
        database(),
        database(state="retrying", reason="It exited with 1."),
        ("hostler", "retries soon: It exited with 1."),
    ),
    "blocked": (database(), database(state="blocked", reason="Why."), ("hostler", "blocked: Why.")),
    "done": (database(), database(state="done"), ("hostler", "done")),
}


@pytest.mark.parametrize(("before", "after", "told"), WORK.values(), ids=WORK)
def test_each_thing_in_the_house_is_told(before, after, told):
    (line,) = find_events(DemoSnapshot(database=before), DemoSnapshot(database=after))
    assert (line.who, line.what) == told


def test_a_status_comment_is_not_told():
    after = GitHubSnapshot((filed(LEAP, 1, comments=(status(1),)),))
    assert find_events(DemoSnapshot(NEW_ISSUE), DemoSnapshot(after)) == []


SIGHTS = [
    *(DemoSnapshot(one) for before, after, _ in STEPS.values() for one in (before, after)),
    *(DemoSnapshot(database=one) for before, after, _ in WORK.values() for one in (before, after)),
    END,
]


@given(st.sampled_from(SIGHTS))
def test_nothing_is_told_twice(sight):
    assert find_events(sight, sight) == []


@given(st.sampled_from(SIGHTS), st.sampled_from(SIGHTS))
def test_whatever_comes_after_whatever_can_be_told(before, after):
    assert all(line.what for line in find_events(before, after))


def test_people_act_before_the_issue_is_closed():
    after = GitHubSnapshot((filed(LEAP, 1, open=False),), (merged(PULL),))
    told = [line.what for line in find_events(DemoSnapshot(WITH_PULL), DemoSnapshot(after))]
    assert told == ["approves #4", "merges #4", "the issue is closed"]

"""What the demo's rules look at, made by hand: a GitHub and a house as they are in the end."""

from __future__ import annotations

from dataclasses import replace

from hostler.cli.demo.environment import BOT, MAINTAINER, REVIEWER, load_scenario
from hostler.cli.demo.observe import (
    CommentSnapshot,
    DatabaseSnapshot,
    DemoSnapshot,
    GitHubSnapshot,
    IssueSnapshot,
    PullRequestSnapshot,
    ReviewCommentSnapshot,
    RunSnapshot,
    TaskSnapshot,
)

PLOT = load_scenario()
LEAP, MONTHS, STRANGER, BREST, TIDES = (filing.title for filing in PLOT.filings)
ALMANAC, TIDE_TABLE = (project.name for project in PLOT.projects)
FIRST, SECOND = PLOT.reviews[0].words
DONE = "**Hostler** · bugfix · done · #4\n\n*Next:* Nothing.\n\n<!-- hostler:action=s:1 -->"


def status(number: int, body: str = DONE) -> CommentSnapshot:
    return CommentSnapshot(number, BOT, body)


def filed(title: str, number: int, **more) -> IssueSnapshot:
    filing = next(one for one in PLOT.filings if one.title == title)
    return IssueSnapshot(filing.repo, number, title, filing.author, labels=(filing.label,), **more)


def pulled(repo: str, number: int, issue: int, **more) -> PullRequestSnapshot:
    facts = {"title": "Work", "body": f"Said.\n\nFixes #{issue}", "author": BOT, "branch": "b"}
    return PullRequestSnapshot(repo, number, **{**facts, "head": "c0ffee1", **more})


def remark(number: int, body: str, author: str = REVIEWER, **more) -> ReviewCommentSnapshot:
    return ReviewCommentSnapshot(number, author, body, path="almanac/years.py", line=6, **more)


def merged(pull: PullRequestSnapshot) -> PullRequestSnapshot:
    return replace(pull, open=False, merged_by=REVIEWER, approved_by=(REVIEWER,))


def run(name: str, outcome: str = "success", **more) -> RunSnapshot:
    return RunSnapshot(name, more.pop("state", "ended"), more.pop("attempt", 1), outcome, **more)


def task(repo: str, issue: int, flow: str, pull: int, *outcomes: str) -> TaskSnapshot:
    name = f"{repo}-{issue}-{flow}"
    runs = tuple(run(f"{name}-{n}", outcome) for n, outcome in enumerate(outcomes or ("success",)))
    return TaskSnapshot(name, repo, issue, flow, "done", pull=pull, runs=runs)


THREAD = (
    remark(1, SECOND, versions=2),
    remark(2, "A comment says it now.", BOT, in_reply_to=1),
    remark(3, "It stands in the docstring.", BOT, in_reply_to=1),
)
ISSUES = (
    filed(LEAP, 1, open=False, comments=(status(1),)),
    filed(MONTHS, 2, open=False, comments=(status(2),)),
    filed(STRANGER, 3),
    filed(
        BREST,
        1,
        open=False,
        comments=(
            status(3),
            CommentSnapshot(4, BOT, "Which one?"),
            CommentSnapshot(5, MAINTAINER, "The one in France."),
        ),
    ),
    filed(TIDES, 2, open=False, comments=(status(6), status(7))),
)
PULLS = tuple(
    map(
        merged,
        (
            pulled(ALMANAC, 4, 1, commits=3, remarks=THREAD),
            pulled(ALMANAC, 5, 2),
            pulled(TIDE_TABLE, 3, 2, body="A design.\n\nRefs #2\n\nMerging this starts it."),
            pulled(TIDE_TABLE, 4, 1),
            pulled(TIDE_TABLE, 5, 2),
        ),
    )
)
TASKS = (
    task(ALMANAC, 1, "bugfix", 4, "success", "success", "success"),
    task(ALMANAC, 2, "small_job", 5, "crash", "success"),
    task(TIDE_TABLE, 1, "small_job", 4, "needs_input", "success"),
    task(TIDE_TABLE, 2, "design", 3),
    task(TIDE_TABLE, 2, "implementation", 5),
)
END = DemoSnapshot(GitHubSnapshot(ISSUES, PULLS), DatabaseSnapshot(TASKS))


def with_issue(sight: DemoSnapshot, title: str, **changes) -> DemoSnapshot:
    """The same, but one issue is otherwise."""
    issues = tuple(
        replace(one, **changes) if one.title == title else one for one in sight.github.issues
    )
    return replace(sight, github=replace(sight.github, issues=issues))


def with_pull(sight: DemoSnapshot, repo: str, number: int, **changes) -> DemoSnapshot:
    """The same, but one pull request is otherwise."""
    pulls = tuple(
        replace(one, **changes) if (one.repo, one.number) == (repo, number) else one
        for one in sight.github.pulls
    )
    return replace(sight, github=replace(sight.github, pulls=pulls))


def with_task(sight: DemoSnapshot, repo: str, flow: str, **changes) -> DemoSnapshot:
    """The same, but one task is otherwise."""
    tasks = tuple(
        replace(one, **changes) if (one.repo, one.flow) == (repo, flow) else one
        for one in sight.database.tasks
    )
    return replace(sight, database=replace(sight.database, tasks=tasks))

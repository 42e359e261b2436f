"""Each check of the summary holds in the end, and fails when what it asks for is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from demo_scenes import (
    ALMANAC,
    BREST,
    END,
    LEAP,
    STRANGER,
    THREAD,
    TIDE_TABLE,
    TIDES,
    pulled,
    run,
    status,
    with_issue,
    with_pull,
    with_task,
)

from hostler.cli.demo.environment import BOT
from hostler.cli.demo.observe import CommentSnapshot, DatabaseSnapshot, DemoSnapshot, GitHubSnapshot
from hostler.cli.demo.service_process import ServiceExit
from hostler.cli.demo.verify import (
    check_service_exit,
    print_summary,
    run_checks,
    summarise,
    summary_json,
)

SECOND_PULL = replace(
    END, github=replace(END.github, pulls=(*END.github.pulls, pulled(ALMANAC, 9, 2)))
)
NO_DESIGN = replace(
    END,
    database=DatabaseSnapshot(
        tuple(one for one in END.database.tasks if one.flow != "implementation")
    ),
)
SPOILED = {
    "an issue is open": (with_issue(END, LEAP, open=True), "is closed"),
    "an issue has two pull requests": (SECOND_PULL, "one pull request per task"),
    "somebody else merged": (
        with_pull(END, ALMANAC, 5, merged_by="mallory"),
        "one pull request per task",
    ),
    "a reply is missing": (with_pull(END, ALMANAC, 4, remarks=THREAD[:2]), "one threaded reply"),
    "a reply came twice": (
        with_pull(END, ALMANAC, 4, remarks=(*THREAD, replace(THREAD[2], id=9))),
        "one threaded reply",
    ),
    "nobody edited": (
        with_pull(END, ALMANAC, 4, remarks=(replace(THREAD[0], versions=1), THREAD[1]), commits=2),
        "one threaded reply",
    ),
    "a commit is missing": (with_pull(END, ALMANAC, 4, commits=2), "one commit per version"),
    "no implementation followed": (NO_DESIGN, "a merged design started"),
    "no agent failed": (
        with_task(END, ALMANAC, "small_job", runs=(run("r", "success"),)),
        "a failed agent",
    ),
    "a question is open": (
        with_issue(END, BREST, comments=(status(1), CommentSnapshot(2, BOT, "Which?"))),
        "a question was asked and answered",
    ),
    "nobody asked": (with_issue(END, BREST, comments=(status(1),)), "a question was asked"),
    "the stranger got a word": (
        with_issue(END, STRANGER, comments=(CommentSnapshot(9, BOT, "On it."),)),
        "not allowed was ignored",
    ),
    "the status is old": (
        with_issue(END, LEAP, comments=(status(1, "**Hostler** · bugfix · running"),)),
        "one status comment",
    ),
    "a status is missing": (with_issue(END, TIDES, comments=(status(1),)), "one status comment"),
    "a task is not done": (
        with_task(END, TIDE_TABLE, "design", state="blocked"),
        "nothing is running",
    ),
    "an agent lives": (
        with_task(END, TIDE_TABLE, "design", runs=(run("r", state="running"),)),
        "nothing is running",
    ),
    "a write waits": (replace(END, database=replace(END.database, unsent=1)), "nothing is running"),
}


def test_every_check_holds_in_the_end():
    assert [check.wrong for check in run_checks(END) if not check.holds] == []


@pytest.mark.parametrize(("sight", "promise"), SPOILED.values(), ids=SPOILED)
def test_a_check_fails_where_its_promise_is_broken(sight, promise):
    assert any(promise in check.promise for check in run_checks(sight) if not check.holds)


def test_every_check_can_fail():
    broken = {
        check.promise for sight, _ in SPOILED.values() for check in run_checks(sight) if check.wrong
    }
    assert broken == {check.promise for check in run_checks(END)}


def test_nothing_at_all_is_no_success():
    assert not summarise(1.0, DemoSnapshot(GitHubSnapshot(), DatabaseSnapshot()), ()).good


SERVICES = {
    "all well": (ServiceExit(0), True),
    "a process was left": (ServiceExit(0, ("12 python3",)), False),
    "it failed": (ServiceExit(1), False),
    "the keeper was killed": (ServiceExit(None), False),
}


@pytest.mark.parametrize(("report", "good"), SERVICES.values(), ids=SERVICES)
def test_the_end_of_the_service_counts(report, good):
    assert summarise(1.0, END, (check_service_exit(report),)).good is good


def test_the_summary_says_what_is_missing_where(capsys):
    print_summary(summarise(31.4, with_issue(END, LEAP, open=True), ()))
    told = capsys.readouterr().out
    assert "almanac #1 is open" in told
    assert "1 of 10 checks failed after 31 s." in told
    assert "\x1b" not in told


def test_the_summary_fits_into_eighty_columns(capsys):
    print_summary(summarise(31.4, END, (check_service_exit(ServiceExit(0)),)))
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= 80
    assert len(told.splitlines()) <= 22
    assert "checks passed" in told


def test_the_summary_as_data_counts_what_is_there():
    data = summary_json(summarise(31.4, END, ()))
    assert data["good"] is True
    first = data["issues"][0]
    assert first["pull_requests"] == [
        {"number": 4, "title": "Work", "merged_by": "grace", "commits": 3, "replies": 2}
    ]
    assert [len(issue["tasks"]) for issue in data["issues"]] == [1, 1, 0, 1, 2]

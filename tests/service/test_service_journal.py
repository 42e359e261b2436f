"""What people at a terminal are told: each trouble once, in our words."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO

import pytest

from hostler.clock import SystemClock
from hostler.errors import GitHubPollingError, RateLimited, StoreFull
from hostler.intake.repo_policy import RepoPolicy
from hostler.model import RepoName
from hostler.service.polling.orchestrator import FinishedPoll
from hostler.service.polling.repo_poller import PollResult
from hostler.service.scheduling.gates import DISK_FULL_REMEDY
from hostler.service.scheduling.workers import WorkerJob
from hostler.service.service_log import ServiceLog
from hostler.telemetry.logs import LogDestinations

FULL = StoreFull("No space is left.", remedy="Free some.")


@pytest.fixture
def told():
    return []


@pytest.fixture
def lines():
    return StringIO()


@pytest.fixture
def service_log(told, lines):
    return ServiceLog(LogDestinations(SystemClock(), None, terminal=lines).log, told.append)


def job(name: str) -> WorkerJob:
    return WorkerJob(name, "stable", lambda: None, lambda: None)


def test_the_same_trouble_of_a_run_is_told_once_until_it_has_ended(service_log, told):
    for _ in range(3):
        service_log.troubled(job("r1"), FULL)
    service_log.troubled(job("r2"), FULL)
    assert told == ["stable: No space is left. Free some."] * 2
    service_log.ended(job("r1"))
    service_log.troubled(job("r1"), FULL)
    assert len(told) == 3


def test_another_trouble_is_told(service_log, told):
    service_log.troubled(job("r1"), FULL)
    service_log.troubled(job("r1"), StoreFull("Nothing is left."))
    assert len(told) == 2


def test_trouble_of_the_service_is_no_defect(service_log, told, lines):
    for _ in range(3):
        service_log.broke(FULL)
    assert told == ["Hostler: No space is left. Free some."]
    assert "service_troubled" in lines.getvalue() and "Traceback" not in lines.getvalue()


def test_a_defect_is_told_each_time_and_logged_with_its_traceback(service_log, told, lines):
    for _ in range(2):
        service_log.broke(ZeroDivisionError("by zero"))
    assert len(told) == 2 and "Defect" in told[0]
    assert "service_defect" in lines.getvalue()


WATCH = RepoPolicy(RepoName("alice", "stable"), "stable", frozenset())


def held(minute: int) -> FinishedPoll:
    until = datetime(2026, 3, 1, 12, minute, tzinfo=UTC)
    cause = RateLimited("GET /x", 0, until, "secondary")
    error = GitHubPollingError("alice/stable", "issues", cause)
    return FinishedPoll("stable", WATCH, PollResult(error=error), error, held=True)


def test_a_look_that_we_held_back_is_told_once_and_is_not_called_reached(service_log, told, lines):
    for minute in range(5):
        service_log.poll_finished(held(minute), {})
    assert len(told) == 1 and "alice/stable: Did not send" in told[0]
    assert lines.getvalue().count("repo_poll_held") == 1
    assert "service_repo_polled" not in lines.getvalue()
    service_log.poll_finished(FinishedPoll("stable", WATCH, PollResult()), {})
    assert told[1:] == ["alice/stable: reached again."]


def test_a_full_disk_is_told_once_and_so_is_that_it_has_room_again(service_log, told, lines):
    for free in (3, 2, 1):
        service_log.full(f"The disk has {free} MB free.")
    for _ in range(2):
        service_log.full("")
    assert told == [
        f"The disk has 3 MB free. {DISK_FULL_REMEDY}",
        "Disk space is free again; work continues.",
    ]
    assert lines.getvalue().count("disk_low") == lines.getvalue().count("disk_free") == 1


def test_a_prompt_that_cannot_be_used_is_told_once(service_log, told, lines):
    for _ in range(3):
        service_log.prompt_refused("o/r", "x.md is empty.")
    service_log.prompt_refused("o/r", "y.md is empty.")
    assert told == [
        "o/r: x.md is empty. Using the built-in prompt.",
        "o/r: y.md is empty. Using the built-in prompt.",
    ]
    assert lines.getvalue().count("prompt_refused") == 2

"""What people at a terminal are told: each trouble once, in our words."""

from __future__ import annotations

from io import StringIO

import pytest

from hostler.clock import SystemClock
from hostler.errors import StoreFull
from hostler.service.crew import Job
from hostler.service.journal import Journal
from hostler.telemetry.logs import Logging

FULL = StoreFull("No space is left.", remedy="Free some.")


@pytest.fixture
def told():
    return []


@pytest.fixture
def lines():
    return StringIO()


@pytest.fixture
def journal(told, lines):
    return Journal(Logging(SystemClock(), None, terminal=lines).log, told.append)


def job(name: str) -> Job:
    return Job(name, "stable", lambda: None, lambda: None)


def test_the_same_trouble_of_a_run_is_told_once_until_it_has_ended(journal, told):
    for _ in range(3):
        journal.troubled(job("r1"), FULL)
    journal.troubled(job("r2"), FULL)
    assert told == ["stable: No space is left. Free some."] * 2
    journal.ended(job("r1"))
    journal.troubled(job("r1"), FULL)
    assert len(told) == 3


def test_another_trouble_is_told(journal, told):
    journal.troubled(job("r1"), FULL)
    journal.troubled(job("r1"), StoreFull("Nothing is left."))
    assert len(told) == 2


def test_trouble_of_the_service_is_no_defect(journal, told, lines):
    for _ in range(3):
        journal.broke(FULL)
    assert told == ["Hostler: No space is left. Free some."]
    assert "service_troubled" in lines.getvalue() and "Traceback" not in lines.getvalue()


def test_a_defect_is_told_each_time_and_logged_with_its_traceback(journal, told, lines):
    for _ in range(2):
        journal.broke(ZeroDivisionError("by zero"))
    assert len(told) == 2 and "defect" in told[0]
    assert "service_defect" in lines.getvalue()

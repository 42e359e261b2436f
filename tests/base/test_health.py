from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from hostler import health
from hostler.clock import FakeClock
from hostler.errors import HostlerError
from hostler.health import Context, Finding, Status, check, examine, verdict


@pytest.fixture
def registry(monkeypatch) -> dict[str, health.Check]:
    empty: dict[str, health.Check] = {}
    monkeypatch.setattr(health, "_registry", empty)
    return empty


def context(folder: Path) -> Context:
    return Context(folder, None, FakeClock())


@pytest.mark.parametrize("statuses", list(itertools.product(Status, repeat=2)))
def test_the_exit_code_follows_the_worst_finding(statuses):
    expected = 2 if Status.FAILED in statuses else 1 if Status.WARNING in statuses else 0
    assert verdict(Finding("x", status, "") for status in statuses) == expected
    assert verdict([]) == 0


def test_a_check_that_breaks_is_a_finding_and_stops_no_other(registry, tmp_path):
    @check("a")
    def broken(_context):
        yield Finding("a", Status.OK, "so far")
        raise RuntimeError("oh no")

    @check("b")
    def refused(_context):
        raise HostlerError("No disk.", remedy="Buy one.")

    @check("c")
    def fine(_context):
        return [Finding("c", Status.OK, "well")]

    findings = examine(context(tmp_path))
    assert [finding.check for finding in findings] == ["a", "b", "c"]
    assert "RuntimeError: oh no" in findings[0].evidence
    assert (findings[1].evidence, findings[1].remedy) == ("No disk.", "Buy one.")
    assert verdict(findings) == 2


def test_quick_leaves_out_what_takes_long(registry, tmp_path):
    check("fast")(lambda _context: [Finding("fast", Status.OK, "")])
    check("slow", quick=False)(lambda _context: [Finding("slow", Status.OK, "")])
    assert [f.check for f in examine(context(tmp_path), quick=True)] == ["fast"]
    assert [f.check for f in examine(context(tmp_path))] == ["fast", "slow"]


def test_a_name_is_registered_once(registry):
    check("twice")(lambda _context: [])
    with pytest.raises(ValueError, match="twice"):
        check("twice")(lambda _context: [])


def test_rooms_register_their_own_checks():
    health.load_room_checks()
    names = {item.name for item in health.registered()}
    assert {"settings", "home", "git", "agents", "credentials"} <= names

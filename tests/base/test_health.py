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


@pytest.fixture
def mending(monkeypatch) -> None:
    monkeypatch.setattr(health, "_mends", {})


def test_only_what_is_wrong_is_mended_and_what_fails_stops_no_other(mending, tmp_path):
    @health.mend("a")
    def fails(_context):
        yield "half of it"
        raise HostlerError("No disk.", remedy="Buy one.")

    @health.mend("b")
    def breaks(_context):
        raise RuntimeError("oh no")

    @health.mend("c")
    def works(_context):
        return ["all of it"]

    @health.mend("d")
    def untouched(_context):
        raise AssertionError("nothing was wrong")

    findings = [
        *(Finding(name, Status.WARNING, "") for name in "abc"),
        Finding("d", Status.OK, ""),
        Finding("e", Status.FAILED, "and nobody mends it"),
    ]
    done = health.mend_all(context(tmp_path), findings)
    assert [(one.check, one.what, one.done) for one in done] == [
        ("a", "half of it", True),
        ("a", "No disk. Buy one.", False),
        ("b", "RuntimeError: oh no", False),
        ("c", "all of it", True),
    ]


def test_there_are_not_two_mends_for_one_check(mending):
    health.mend("a")(lambda _context: [])
    with pytest.raises(ValueError, match="two mends"):
        health.mend("a")(lambda _context: [])

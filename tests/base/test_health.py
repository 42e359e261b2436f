from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from hostler import health
from hostler.clock import FakeClock
from hostler.errors import HostlerError
from hostler.health import CheckContext, CheckStatus, Finding, check, findings_exit_code, run_checks


@pytest.fixture
def registry(monkeypatch) -> dict[str, health.HealthCheck]:
    empty: dict[str, health.HealthCheck] = {}
    monkeypatch.setattr(health, "_registry", empty)
    return empty


def context(folder: Path) -> CheckContext:
    return CheckContext(folder, None, FakeClock())


@pytest.mark.parametrize("statuses", list(itertools.product(CheckStatus, repeat=2)))
def test_the_exit_code_follows_the_worst_finding(statuses):
    expected = 2 if CheckStatus.FAILED in statuses else 1 if CheckStatus.WARNING in statuses else 0
    assert findings_exit_code(Finding("x", status, "") for status in statuses) == expected
    assert findings_exit_code([]) == 0


def test_a_check_that_breaks_is_a_finding_and_stops_no_other(registry, tmp_path):
    @check("a")
    def broken(_context):
        yield Finding("a", CheckStatus.OK, "so far")
        raise RuntimeError("oh no")

    @check("b")
    def refused(_context):
        raise HostlerError("No disk.", remedy="Buy one.")

    @check("c")
    def fine(_context):
        return [Finding("c", CheckStatus.OK, "well")]

    findings = run_checks(context(tmp_path))
    assert [finding.check for finding in findings] == ["a", "b", "c"]
    assert "RuntimeError: oh no" in findings[0].evidence
    assert (findings[1].evidence, findings[1].remedy) == ("No disk.", "Buy one.")
    assert findings_exit_code(findings) == 2


def test_quick_leaves_out_what_takes_long(registry, tmp_path):
    check("fast")(lambda _context: [Finding("fast", CheckStatus.OK, "")])
    check("slow", quick=False)(lambda _context: [Finding("slow", CheckStatus.OK, "")])
    assert [f.check for f in run_checks(context(tmp_path), quick=True)] == ["fast"]
    assert [f.check for f in run_checks(context(tmp_path))] == ["fast", "slow"]


def test_a_name_is_registered_once(registry):
    check("twice")(lambda _context: [])
    with pytest.raises(ValueError, match="twice"):
        check("twice")(lambda _context: [])


def test_rooms_register_their_own_checks():
    health.load_package_checks()
    names = {item.name for item in health.list_checks()}
    assert {"settings", "home", "git", "agents", "credentials"} <= names


@pytest.fixture
def mending(monkeypatch) -> None:
    monkeypatch.setattr(health, "_fixes", {})


def test_only_what_is_wrong_is_mended_and_what_fails_stops_no_other(mending, tmp_path):
    @health.fix("a")
    def fails(_context):
        yield "half of it"
        raise HostlerError("No disk.", remedy="Buy one.")

    @health.fix("b")
    def breaks(_context):
        raise RuntimeError("oh no")

    @health.fix("c")
    def works(_context):
        return ["all of it"]

    @health.fix("d")
    def untouched(_context):
        raise AssertionError("nothing was wrong")

    findings = [
        *(Finding(name, CheckStatus.WARNING, "") for name in "abc"),
        Finding("d", CheckStatus.OK, ""),
        Finding("e", CheckStatus.FAILED, "and nobody mends it"),
    ]
    done = health.apply_fixes(context(tmp_path), findings)
    assert [(one.check, one.what, one.done) for one in done] == [
        ("a", "half of it", True),
        ("a", "No disk. Buy one.", False),
        ("b", "RuntimeError: oh no", False),
        ("c", "all of it", True),
    ]


def test_there_are_not_two_mends_for_one_check(mending):
    health.fix("a")(lambda _context: [])
    with pytest.raises(ValueError, match="two fixes"):
        health.fix("a")(lambda _context: [])

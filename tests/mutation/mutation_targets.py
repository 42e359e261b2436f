"""The modules whose rules are mutated, and the tests that must notice it.

A group is loaded into one process: its modules, and tests that run inside that process. Tests that
start programs are left out, as a mutant never reaches them. To add a module, add it here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A module; `only`: qualified names of the functions that are rules, empty for all."""

    module: str
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Modules that are mutated in one process, and the test files that run there.

    `left_out`: tests of these files that start processes.
    """

    name: str
    targets: tuple[Target, ...]
    tests: tuple[str, ...]
    left_out: tuple[str, ...] = ()


def _all(package: str, names: str) -> tuple[Target, ...]:
    return tuple(Target(f"hostler.{package}.{name}") for name in names.split())


def _tests(folder: str, names: str) -> tuple[str, ...]:
    return tuple(f"tests/{folder}/test_{name}.py" for name in names.split())


GROUPS = (
    Group(
        "governor",
        _all(
            "governor",
            "aimd believed breaker caps gates learned learning leasing measured moments older"
            " parking policy pools pruning served shares spacing switched waiting wishing",
        ),
        _tests(
            "governor",
            "governor_adaptive governor_aimd governor_breaker governor_caps governor_controls"
            " governor_damage governor_gates governor_leases governor_older governor_remembering"
            " governor_served governor_served_rules governor_shares governor_since"
            " governor_spacing governor_waiting",
        ),
        ("tests/governor/test_governor_caps.py::test_two_who_write_at_once_lose_nothing",),
    ),
    Group(
        "planner",
        _all("planner", "chains dependencies queue readiness standing"),
        _tests("planner", "planner_rules planner_standing"),
    ),
    Group(
        "outbox",
        _all("forge.outbox", "rules queue reconciling settling"),
        _tests("forge", "forge_outbox forge_outbox_rules outbox_reconciling outbox_checks"),
    ),
    Group(
        "feeds",
        _all("forge.feeds", "cadence chains cursors keys ours standing"),
        _tests(
            "forge",
            "feeds_rules feeds_chains feeds_operations feeds_threads forge_scan forge_scan_ours"
            " forge_standing",
        ),
    ),
    Group(
        "runs",
        (*_all("runs", "rules recovery evidence heard limits"), Target("hostler.agents.verdict")),
        (
            *_tests("runs", "runs_rules runs_limits runs_ledger"),
            *_tests("agents", "verdict outcomes result"),
        ),
    ),
    Group(
        "service",
        (
            *_all("service", "admission candidates limiter lending ordering orchestrator cadence"),
            *_all("service", "forest needs"),
            Target("hostler.service.demanding", ("wanted_by", "Demander.say")),
            Target("hostler.service.draining", ("step", "verdict")),
            Target("hostler.service.runner", ("ServiceRunner._poll",)),
        ),
        _tests(
            "service",
            "service_admission_rules service_cadence service_draining service_limiter"
            " service_ordering service_dependencies service_runner service_lending"
            " service_polling service_why",
        ),
    ),
)

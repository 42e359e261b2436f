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
        (
            *_all(
                "governor",
                "aimd believed breaker gates learned learning leasing measured moments"
                " parking policy pools pruning served shares spacing switched waiting wishing",
            ),
            Target("hostler.governor.caps", ("changed", "_refuse_nonsense")),
        ),
        _tests(
            "governor",
            "governor_adaptive governor_aimd governor_breaker governor_caps governor_controls"
            " governor_damage governor_gates governor_leases governor_older governor_remembering"
            " governor_served governor_served_rules governor_shares governor_since"
            " governor_spacing governor_waiting aimd_rules served_measures pool_borders",
        ),
        ("tests/governor/test_governor_caps.py::test_two_who_write_at_once_lose_nothing",),
    ),
    Group(
        "planner",
        _all("planner", "chains dependencies queue readiness standing"),
        _tests("planner", "planner_rules planner_standing dependency_examples standing_reads"),
    ),
    Group(
        "outbox",
        _all("forge.outbox", "rules queue reconciling settling"),
        _tests(
            "forge",
            "forge_outbox forge_outbox_rules outbox_reconciling outbox_checks outbox_borders",
        ),
    ),
    Group(
        "feeds",
        _all("forge.feeds", "cadence chains cursors keys ours standing"),
        _tests(
            "forge",
            "feeds_rules feeds_chains feeds_operations feeds_threads forge_scan forge_scan_ours"
            " forge_standing feeds_borders",
        ),
    ),
    Group(
        "runs",
        (
            Target(
                "hostler.runs.states",
                ("after", "run_id", "run_folder_path", "decide", "_of_a_live_row"),
            ),
            Target(
                "hostler.runs.run_folder",
                (
                    "read_evidence",
                    "is_alive",
                    "is_locked",
                    "read_exit_file",
                    "shim_of",
                    "shim_in",
                    "_traced",
                    "_read",
                ),
            ),
            Target(
                "hostler.runs.outcome",
                (
                    "ProviderSignals.__bool__",
                    "is_answer",
                    "_speaks",
                    "limit_in",
                    "with_limit",
                    "live_signals",
                    "death_signals",
                    "_same",
                    "_row",
                ),
            ),
            Target("hostler.agents.verdict"),
        ),
        (
            *_tests("runs", "runs_rules runs_limits runs_ledger run_evidence"),
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
            Target("hostler.service.runner", ("ServiceRunner._poll", "ServiceRunner._draining")),
            Target("hostler.service.hand", ("children_first",)),
            Target("hostler.service.journal", ("Journal.never_seen",)),
        ),
        (
            *_tests(
                "service",
                "service_admission_rules service_cadence service_draining service_fairness"
                " service_limiter service_ordering service_submission service_why"
                " poll_once runner_poll children_first unseen_writes_alarm admission_borders"
                " lending_rules orders",
            ),
            # The others of this file start agents.
            *(
                f"tests/service/test_service_polling.py::test_{name}"
                for name in (
                    "each_failure_doubles_the_pause_up_to_a_longest_one",
                    "a_limit_is_waited_out",
                    "what_our_own_budget_holds_back_is_no_failure",
                    "looks_are_stretched_where_the_budget_says_so_and_never_shortened",
                    "only_a_look_that_fails_as_a_whole_makes_the_next_one_later",
                    "waiting_for_a_thread_is_no_hanging",
                    "a_look_that_itself_takes_long_is_slow_the_next_time",
                    "a_look_that_our_own_budget_cut_short_has_not_seen_everything",
                )
            ),
        ),
    ),
)

"""The modules whose rules are mutated, and the tests that must notice it.

A group is loaded into one process: its modules, and tests that run inside that process. Tests that
start programs are left out, as a mutant never reaches them. To add a module, add it here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """A module and its rules.

    `only`: the functions, classes and constants that are rules, empty for all but those in
    `without`, which do no more than act or measure.
    """

    module: str
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def includes(self, qualname: str) -> bool:
        """Return whether what has this qualified name is mutated. A class stands for its parts."""
        if _is_among(qualname, self.without):
            return False
        return not self.only or _is_among(qualname, self.only)


def _is_among(qualname: str, names: tuple[str, ...]) -> bool:
    return any(qualname == name or qualname.startswith(f"{name}.") for name in names)


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
                "adaptive.aimd adaptive.breaker adaptive.controller adaptive.served"
                " adaptive.spacing gates parking policy",
            ),
            Target(
                "hostler.governor.adaptive.state",
                (
                    "MAX_BREAK_SECONDS",
                    "MAX_GATE",
                    "sanitize",
                    "max_break",
                    "max_gate",
                    "max_spacing",
                    "_complete",
                    "_is_off",
                    "_past_moments",
                    "_is_ahead",
                    "_past",
                    "_deadline",
                ),
            ),
            Target(
                "hostler.governor.holders",
                (
                    "plan_prune",
                    "prune",
                    "apply_prune",
                    "unreported_ends",
                    "make_prune_plan",
                    "_is_lease_alive",
                    "lease_ended",
                    "demand_ended",
                    "is_stale",
                    "_needs_touch",
                    "_ttl",
                ),
            ),
            Target(
                "hostler.governor.leases",
                (
                    "_GATES_OPENED_BY_PRUNING",
                    "RETRY_SECONDS",
                    "publish_demand",
                    "drop_demand",
                    "acquire",
                    "preview",
                    "attach",
                    "release",
                    "release_lease",
                    "restore_lease",
                    "release_temporarily",
                    "force_reacquire",
                    "reacquire",
                    "width_warning",
                    "_note_start",
                    "_report_end",
                    "_with_pool_key",
                    "_evaluate",
                    "closed_since",
                    "_lease",
                    "_shim_process",
                    "LeaseWaiter.wait",
                    "LeaseWaiter.try_acquire",
                    "LeaseWaiter._wait_until_open",
                    "LeaseWaiter._retry_delay",
                ),
            ),
            Target("hostler.governor.caps_file", ("changed_caps", "_require_hard_max")),
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
        _all("planner", "dependencies queue"),
        _tests("planner", "planner_rules planner_standing dependency_examples standing_reads"),
    ),
    Group(
        "outbox",
        _all("forge.outbox", "rules queue reconciler"),
        _tests(
            "forge",
            "outbox_sender outbox_rules outbox_reconciler outbox_checks outbox_edge_cases",
        ),
    ),
    Group(
        "feeds",
        (
            *_all("forge.github.polling", "cursors schedule"),
            Target("hostler.forge.events", ("event_key", "_digested_fields")),
            Target(
                "hostler.forge.github.polling.ingest",
                (
                    "ACTIONS_BY_KIND",
                    "_ALWAYS_NEW_KINDS",
                    "judge_own_write",
                    "_is_result_of",
                    "_is_empty_review",
                ),
            ),
            Target(
                "hostler.forge.github.polling.poller",
                (
                    "_UNFINISHED",
                    "PollState",
                    "read_poll_state",
                    "_read_surface_states",
                    "list_issue_threads",
                ),
            ),
        ),
        _tests(
            "forge",
            "polling_rules polling_chains polling_operations_issue polling_threads polling_ingest"
            " polling_own_writes repository_access polling_edge_cases",
        ),
    ),
    Group(
        "runs",
        (
            Target(
                "hostler.runs.states",
                (
                    "MOVES_REFUSED_AFTER_STOP",
                    "RunEvidence",
                    "RecoveryDecision",
                    "next_run_state",
                    "run_id",
                    "run_folder_path",
                    "decide_recovery",
                    "_of_a_live_row",
                ),
            ),
            Target(
                "hostler.runs.run_folder",
                (
                    "read_evidence",
                    "is_alive",
                    "is_locked",
                    "read_exit_file",
                    "stored_shim",
                    "read_shim_file",
                    "_may_have_agent",
                    "_read",
                ),
            ),
            Target(
                "hostler.runs.outcome",
                (
                    "Limit",
                    "ProviderSignals",
                    "starts_response",
                    "_is_response",
                    "find_limit",
                    "append_limit",
                    "live_signals",
                    "death_signals",
                    "_is_same_limit",
                    "_signal_row",
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
            Target("hostler.service.scheduling.admission"),
            Target(
                "hostler.service.scheduling.gates",
                without=("_DISK_FOLDERS", "_MB", "read_disk_space"),
            ),
            Target(
                "hostler.service.polling.orchestrator",
                without=(
                    "POLL_THREADS, SLOW_POLL_THREADS, _MAINTENANCE_THREADS",
                    "ThreadPools",
                ),
            ),
            Target("hostler.service.scheduling.workers", ("GlobalWorkLimiter",)),
            Target(
                "hostler.service.scheduling.task_waits",
                (
                    "MAX_STANDSTILL_SECONDS",
                    "WaitOver",
                    "ReleasedSlot",
                    "wait_for_tasks",
                    "find_enough_settled",
                    "_require_no_self_wait",
                    "_wait_until",
                ),
            ),
            Target(
                "hostler.service.tasks.submission",
                (
                    "_VARIABLE_NAME",
                    "TaskRequest",
                    "TaskLocation",
                    "build_submission",
                    "_resolve_location",
                    "_repo_location",
                    "_require_project_name",
                    "_require_agent",
                    "_require_env",
                    "_require_visible_to_parent",
                ),
            ),
            Target("hostler.service.tasks.summary", ("order_as_tree", "_walk_tree")),
            Target(
                "hostler.service.scheduling.dispatch", ("count_demand", "DemandReporter.publish")
            ),
            Target("hostler.service.restart", ("next_drain_state", "judge_restart")),
            Target("hostler.service.runner", ("ServiceRunner._poll", "ServiceRunner._draining")),
            Target("hostler.workflows.finish", ("wait_for_children",)),
            Target("hostler.service.service_log", ("ServiceLog.never_seen",)),
        ),
        (
            *_tests(
                "service",
                "service_admission_rules service_cadence service_draining service_fairness"
                " service_limiter service_ordering service_submission service_why"
                " poll_once runner_poll children_first unseen_writes_alarm admission_borders"
                " lending_rules orders space",
            ),
            # The others of these two files start agents.
            "tests/service/test_service_runner.py"
            "::test_the_hook_hears_changes_and_a_service_that_leaves_waits_for_nothing",
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
        ("tests/service/test_space.py::test_status_says_that_a_disk_is_full_and_nothing_is_lost",),
    ),
)

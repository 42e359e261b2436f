"""How near a pull request is to being merged, from what the tables hold."""

from __future__ import annotations

from hostler.sandbox import pull_rules
from hostler.sandbox.ci_entities import FAILURES, CheckRun, CommitStatus
from hostler.sandbox.entities import Issue
from hostler.sandbox.pull_entities import Protection, Pull, Review
from hostler.sandbox.tables import Tables


def mergeable_state(tables: Tables, issue: Issue, pull: Pull) -> str:
    """clean, dirty, draft, blocked, unstable or unknown."""
    return pull_rules.mergeable_state(
        issue, pull, blocked=blocked(tables, pull), failing=_failing(tables, pull)
    )


def blocked(tables: Tables, pull: Pull) -> bool:
    """Whether the base branch asks for approvals or checks that are not there."""
    rule = tables.find(Protection, pull.repo_id, pull.base_ref)
    if rule is None:
        return False
    reviews = tables.group(Review, "pull", pull.id).select("submitted")
    lacking = rule.approvals > pull_rules.approvals(reviews)
    return lacking or not set(rule.contexts) <= _passed(tables, pull)


def _passed(tables: Tables, pull: Pull) -> set[str]:
    statuses, checks = _verdicts(tables, pull)
    good = {name for name, state in statuses.items() if state == "success"}
    return good | {name for name, end in checks.items() if end in ("success", "neutral", "skipped")}


def _failing(tables: Tables, pull: Pull) -> bool:
    statuses, checks = _verdicts(tables, pull)
    bad = set(statuses.values()) & {"failure", "error"}
    return bool(bad or set(checks.values()) & FAILURES)


def _verdicts(tables: Tables, pull: Pull) -> tuple[dict[str, str], dict[str, str | None]]:
    """The last state of every context, and the last conclusion of every check."""
    key = ("commit", pull.repo_id, pull.head_sha)
    statuses = {item.context: item.state for item in tables.group(CommitStatus, *key).select()}
    checks = {item.name: item.conclusion for item in tables.group(CheckRun, *key).select()}
    return statuses, checks

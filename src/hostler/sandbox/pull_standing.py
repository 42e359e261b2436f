"""How near a pull request is to being merged, from what the tables hold."""

from __future__ import annotations

from hostler.sandbox import pull_rules
from hostler.sandbox.apps import App, Installation
from hostler.sandbox.ci_entities import FAILURES, CheckRun, CommitStatus
from hostler.sandbox.entities import Issue, Repo
from hostler.sandbox.identity import Identity
from hostler.sandbox.pull_entities import Protection, Pull, Review
from hostler.sandbox.tables import Tables


def mergeable_state(tables: Tables, issue: Issue, pull: Pull) -> str:
    """clean, dirty, draft, blocked, unstable or unknown."""
    return pull_rules.mergeable_state(
        issue, pull, blocked=bool(lacking(tables, pull)), failing=_failing(tables, pull)
    )


def lacking(tables: Tables, pull: Pull) -> str:
    """What the base branch asks for and is not there, in GitHub's words; empty if nothing."""
    rule = tables.find(Protection, pull.repo_id, pull.base_ref)
    if rule is None:
        return ""
    reviews = tables.group(Review, "pull", pull.id).select("submitted")
    weighty = [review for review in reviews if _may_write(tables, pull.repo_id, review.user)]
    given = pull_rules.approvals(weighty)
    statuses, checks = _verdicts(tables, pull)
    known = statuses.keys() | checks.keys()
    return pull_rules.lacking_approvals(rule.approvals, given) or pull_rules.lacking_checks(
        rule.contexts, _passed(statuses, checks), known
    )


def _may_write(tables: Tables, repo_id: int, login: str) -> bool:
    repo = tables.get(Repo, repo_id)
    if repo is None:
        return False
    app = tables.find(App, login.removesuffix("[bot]")) if login.endswith("[bot]") else None
    if app is not None:
        places = tables.group(Installation, "app", app.id).select()
        return any(place.covers(repo.owner, repo.id) for place in places)
    return Identity(key="", login=login).can(tables, repo, "write")


def _passed(statuses: dict[str, str], checks: dict[str, str | None]) -> set[str]:
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

"""Settings of one repository that intake needs: allowed users, operators and labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from hostler.config.settings import Labels, Repo, Tasks
from hostler.model import RepoName
from hostler.store.tasks import Flow

BOT_SUFFIX = "[bot]"


@dataclass(frozen=True, slots=True)
class RepoPolicy:
    """The settings of one repository that decide what its events cause.

    `ci`: when failing CI becomes feedback; `turns_without_person`: how many turns CI alone may
    cause; `receipt`: whether a receipt is posted on merged pull requests.
    """

    repo: RepoName
    project: str
    allowed: frozenset[str] = frozenset()
    labels: Labels = field(default_factory=Labels)
    base_branch: str = ""
    agent: str = ""
    # Who can give commands, and the issue where they need no task; 0: none.
    operators: frozenset[str] = frozenset()
    operations_issue: int = 0
    ci: Literal["never", "first_fail", "all_complete"] = "never"
    turns_without_person: int = 10
    receipt: bool = False

    def allows(self, login: str) -> bool:
        """Return whether this user's issues and comments count. Logins are case-insensitive."""
        return login.lower() in self.allowed

    def is_operator(self, login: str) -> bool:
        """Return whether this user's commands are carried out."""
        return login.lower() in self.operators

    def flows(self) -> tuple[tuple[str, Flow], ...]:
        """Return the labels that start a flow, the strongest first."""
        return (
            (self.labels.bugfix, Flow.BUGFIX),
            (self.labels.small_job, Flow.SMALL_JOB),
            (self.labels.design, Flow.DESIGN),
        )


def build_repo_policy(project: str, repo: Repo, limits: Tasks | None = None) -> RepoPolicy:
    """Return a repository's settings, as far as intake needs them."""
    return RepoPolicy(
        RepoName(repo.owner, repo.name),
        project,
        lowercase_names(repo.allowed_users),
        repo.labels,
        repo.base_branch,
        repo.agent,
        lowercase_names(repo.operator_logins),
        repo.operations_issue_number,
        repo.pr_actions_feedback_policy,
        (limits or Tasks()).pr_turns_without_person,
        repo.receipt_comment,
    )


def lowercase_names(names: Iterable[str]) -> frozenset[str]:
    """Return names in the form in which they are compared."""
    return frozenset(name.lower() for name in names)


def is_bot(login: str) -> bool:
    """Return whether a login belongs to a GitHub App."""
    return login.lower().endswith(BOT_SUFFIX)


def refusal_reason(login: str) -> str:
    """Return why a user's comments and issues cause nothing."""
    if is_bot(login):
        return f"{login} is a bot, and comments of bots cause no work."
    return f"{login} is not one of the repository's allowed_users."


def _find_labels(names: Iterable[str], wanted: Iterable[str]) -> frozenset[str]:
    """Return the wanted labels that are set, in the wanted spelling."""
    there = lowercase_names(names)
    return frozenset(label for label in wanted if label.lower() in there)


def find_flow(policy: RepoPolicy, names: Iterable[str]) -> tuple[str, Flow] | None:
    """Return the deciding label and its flow: bugfix before small job before design."""
    there = _find_labels(names, [label for label, _ in policy.flows()])
    return next(((label, flow) for label, flow in policy.flows() if label in there), None)


def is_ignored(policy: RepoPolicy, names: Iterable[str]) -> bool:
    """Return whether the ignore label is set. It overrides all others, whoever set it."""
    return bool(_find_labels(names, [policy.labels.ignore]))

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
    """What the operator said about one repository.

    `ci`: when failing CI becomes work; `turns_without_person`: how often by itself;
    `receipt`: whether a merged pull request is told what it took.
    """

    repo: RepoName
    project: str
    allowed: frozenset[str] = frozenset()
    labels: Labels = field(default_factory=Labels)
    base_branch: str = ""
    agent: str = ""
    # Who may give commands, and the issue that takes them without a task; 0: none.
    operators: frozenset[str] = frozenset()
    operations_issue: int = 0
    ci: Literal["never", "first_fail", "all_complete"] = "never"
    turns_without_person: int = 10
    receipt: bool = False

    def allows(self, login: str) -> bool:
        """Whether this person's words cause work. GitHub reads names without regard to case."""
        return login.lower() in self.allowed

    def is_operator(self, login: str) -> bool:
        """Whether this person's commands are carried out."""
        return login.lower() in self.operators

    def flows(self) -> tuple[tuple[str, Flow], ...]:
        """The labels that hand an issue over, the strongest first."""
        return (
            (self.labels.bugfix, Flow.BUGFIX),
            (self.labels.small_job, Flow.SMALL_JOB),
            (self.labels.design, Flow.DESIGN),
        )


def build_repo_policy(project: str, repo: Repo, limits: Tasks | None = None) -> RepoPolicy:
    """A repository's settings, as far as they matter here."""
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
    """Names as they are compared."""
    return frozenset(name.lower() for name in names)


def is_bot(login: str) -> bool:
    """Whether a login is a program's."""
    return login.lower().endswith(BOT_SUFFIX)


def refusal_reason(login: str) -> str:
    """Why somebody's words cause nothing."""
    if is_bot(login):
        return f"{login} is a bot, and bots cause no work."
    return f"{login} is not among the repository's allowed_users."


def find_labels(names: Iterable[str], wanted: Iterable[str]) -> frozenset[str]:
    """Which of the wanted labels are there, in the wanted spelling."""
    there = lowercase_names(names)
    return frozenset(label for label in wanted if label.lower() in there)


def find_flow(policy: RepoPolicy, names: Iterable[str]) -> tuple[str, Flow] | None:
    """The label that decides and its flow: bugfix before small job before design."""
    there = find_labels(names, [label for label, _ in policy.flows()])
    return next(((label, flow) for label, flow in policy.flows() if label in there), None)


def is_ignored(policy: RepoPolicy, names: Iterable[str]) -> bool:
    """The label that keeps us away wins over all others, whoever put it there."""
    return bool(find_labels(names, [policy.labels.ignore]))

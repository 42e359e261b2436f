"""Pull requests that are followed, with the tasks that they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hostler.config.settings import Settings
from hostler.model import RepoName
from hostler.service.pages import page
from hostler.store import Transaction
from hostler.store.pull_requests import PullRow, pulls_in
from hostler.store.tasks import titles_of


@dataclass(frozen=True, slots=True)
class Followed:
    """A pull request of ours that is open, as far as we know."""

    project: str
    pull: PullRow
    title: str

    def as_json(self, web_url: str) -> dict[str, Any]:
        """For programs."""
        pull = self.pull
        repo = pull.repo_full_name
        return {
            "project": self.project,
            "repo": repo,
            "pull": pull.pr_number,
            "pull_url": pull.url or page(web_url, repo, "pull", pull.pr_number),
            "issue": pull.issue_number or None,
            "issue_url": page(web_url, repo, "issues", pull.issue_number) or None,
            "task": pull.task,
            "title": self.title,
            "branch": pull.branch,
            "status": pull.status.value,
            "head_sha": pull.last_seen_head_sha,
            "turns_without_person": pull.turns_without_person,
        }


def followed_pulls(tx: Transaction, settings: Settings) -> tuple[Followed, ...]:
    """Those of every watched repository, by its name and their numbers."""
    found = [
        (project, pull)
        for project, repo in settings.repo.items()
        for pull in pulls_in(tx, RepoName(repo.owner, repo.name))
    ]
    titles = titles_of(tx, [pull.task for _, pull in found])
    return tuple(Followed(project, pull, titles.get(pull.task, "")) for project, pull in found)

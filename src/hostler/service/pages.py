"""Where a person reads on: the pages of issues and pull requests. Pure."""

from __future__ import annotations

from typing import Any

from hostler.store.tasks import Task


def page(web_url: str, repo: str | None, kind: str, number: int | None) -> str:
    """The address of an issue (`issues`) or pull request (`pull`); empty where there is none."""
    return f"{web_url.rstrip('/')}/{repo}/{kind}/{number}" if repo and number else ""


def about(task: Task, web_url: str) -> dict[str, Any]:
    """What a task is, for programs: the same words wherever one is named."""
    return {
        "task": task.id,
        "project": task.project,
        "repo": task.repo_full_name,
        "issue": task.issue_number,
        "issue_url": page(web_url, task.repo_full_name, "issues", task.issue_number) or None,
        "pull": task.pr_number,
        "pull_url": page(web_url, task.repo_full_name, "pull", task.pr_number) or None,
        "title": task.title,
        "flow": task.flow.value,
        "state": task.state.value,
    }

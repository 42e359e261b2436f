"""A task's turn as an assignment: prompt, context, limits, session. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostler.agents.launch import Assignment, Limits
from hostler.config.settings import Repo, Tasks
from hostler.flows.authors import permission
from hostler.flows.ci import Failure
from hostler.flows.material import Material
from hostler.flows.prompting import NO_WORDS, prompt_for
from hostler.flows.templates import RepoWords
from hostler.flows.turns import Turn, design_path, is_feedback, turn_of
from hostler.intake import Remark
from hostler.store.tasks import Flow, Task


@dataclass(frozen=True, slots=True)
class Folders:
    """Where one run happens."""

    home: Path
    task_dir: Path
    run_dir: Path
    checkout: Path


def assignment_for(
    task: Task,
    material: Material,
    run: str,
    folders: Folders,
    repo: Repo | None,
    limits: Tasks,
    grace_seconds: float = 10.0,
    words: RepoWords = NO_WORDS,
) -> Assignment:
    """What an agent is asked to do in this run. A task in a folder has no repository.

    `words`: what its repository or folder says itself about prompts.
    """
    turn = turn_of(task, material)
    return Assignment(
        run=run,
        task=task.id,
        project=task.project,
        attempt=task.attempt,
        home=folders.home,
        task_dir=folders.task_dir,
        run_dir=folders.run_dir,
        checkout=folders.checkout,
        prompt=prompt_for(task, material, repo, words),
        limits=Limits(
            wall_seconds=60.0 * _wall_minutes(task, turn, limits),
            silence_seconds=60.0 * limits.silence_limit_minutes,
            grace_seconds=grace_seconds,
        ),
        session=task.session,
        context=context_for(task, material, repo),
    )


def context_for(task: Task, material: Material, repo: Repo | None = None) -> dict[str, Any]:
    """The same for programs."""
    feedback = is_feedback(task, material)
    issue = material.issue
    return {
        "flow": "feedback" if feedback else task.flow.value,
        "turn": turn_of(task, material).value,
        "task": task.id,
        "repo": task.repo_full_name or "",
        "branch": task.branch,
        "pull": task.pr_number or 0,
        "question": task.question,
        "note": task.note,
        "design_path": design_path(task),
        "issue": {
            "number": task.number,
            "title": issue.title if issue else task.title,
            "body": issue.body if issue else "",
            "author": task.author,
            "permission": permission(task.author, repo, issue.row if issue else None),
        },
        "failures": [_failure(one) for one in material.failures],
        "comments": [_comment(remark, repo) for remark in material.remarks],
        "conversation": [_comment(remark, repo) for remark in material.conversation],
        "history": list(material.history),
        "prompt": task.prompt,
    }


def _comment(said: Remark, repo: Repo | None) -> dict[str, Any]:
    return {
        "id": said.row.object_id,
        "kind": said.row.kind,
        "author": said.row.author,
        "permission": permission(said.row.author, repo, said.row),
        "body": said.body,
        "path": said.path,
        "line": said.line,
    }


def _failure(failure: Failure) -> dict[str, Any]:
    run = failure.seen.run
    return {
        "run": run.id,
        "check": run.check,
        "conclusion": run.conclusion,
        "url": run.url,
        "jobs": [
            {"name": log.job, "conclusion": log.conclusion, "log": log.text} for log in failure.logs
        ],
    }


def _wall_minutes(task: Task, turn: Turn, limits: Tasks) -> int:
    if task.wall_limit_minutes:
        return task.wall_limit_minutes
    if turn in (Turn.FEEDBACK, Turn.CI) or (turn is Turn.REPAIR and task.pr_number is not None):
        return limits.feedback_wall_limit_minutes
    design = task.flow is Flow.DESIGN
    return limits.design_wall_limit_minutes if design else limits.direct_wall_limit_minutes

"""A task's turn as an assignment: prompt, context, limits, session. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostler.agents.launch import Assignment, Limits
from hostler.config.settings import Repo, Tasks
from hostler.flows.ci import Failure
from hostler.flows.material import Material
from hostler.flows.rendering import quoted, render
from hostler.flows.turns import Turn, design_path, is_feedback, turn_of
from hostler.forge.port import ItemKind
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
) -> Assignment:
    """What an agent is asked to do in this run. A task in a folder has no repository."""
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
        prompt=prompt_for(task, material, repo),
        limits=Limits(
            wall_seconds=60.0 * _wall_minutes(task, turn, limits),
            silence_seconds=60.0 * limits.silence_limit_minutes,
            grace_seconds=grace_seconds,
        ),
        session=task.session,
        context=context_for(task, material),
    )


def prompt_for(task: Task, material: Material, repo: Repo | None) -> str:
    """The whole prompt: the work, what was said, what to mend, and the rules."""
    feedback = is_feedback(task, material)
    parts = _feedback(task, material) if feedback else [_work(task, material)]
    if feedback and not task.session:
        parts.append(_earlier(material))
    if task.question and material.remarks and not feedback:
        parts.append(
            render("answer", question=quoted("you", task.question), remarks=_said(material.remarks))
        )
    elif material.remarks and not feedback:
        parts.append(render("remarks", remarks=_said(material.remarks)))
    if task.note and task.question and task.by_hand:
        told = {"question": quoted("you", task.question), "remarks": quoted("answer", task.note)}
        parts.append(render("answer", **told))
    elif task.note:
        parts.append(render("repair", note=quoted("what was found", task.note)))
    elif material.history:
        parts.append(render("again", history=_endings(material.history)))
    parts.append(_contract(task, repo))
    return "\n".join(parts)


def context_for(task: Task, material: Material) -> dict[str, Any]:
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
        },
        "failures": [_failure(one) for one in material.failures],
        "comments": [_comment(remark) for remark in material.remarks],
        "conversation": [_comment(remark) for remark in material.conversation],
        "history": list(material.history),
        "prompt": task.prompt,
    }


def _comment(said: Remark) -> dict[str, Any]:
    return {
        "id": said.row.object_id,
        "kind": said.row.kind,
        "author": said.row.author,
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


def _work(task: Task, material: Material) -> str:
    if task.flow is Flow.TASK:
        return render("task", task=task.prompt.strip())
    return render(
        task.flow.value,
        repo=task.repo_full_name or task.project,
        issue=_issue(task, material),
        conversation=_said(material.conversation),
        design_path=design_path(task),
    )


def _feedback(task: Task, material: Material) -> list[str]:
    """What people said on the pull request, and what CI did; either may be nothing."""
    common = {
        "repo": task.repo_full_name or task.project,
        "pull": task.pr_number,
        "issue": _issue(task, material),
    }
    parts = []
    if material.remarks:
        parts.append(render("feedback", remarks=_said(material.remarks), **common))
    if material.failures:
        parts.append(render("ci", failures=_failed(material.failures), **common))
    return parts


def _earlier(material: Material) -> str:
    """For an agent that has no memory of its work on the pull request."""
    told = quoted("you", material.summary) if material.summary else "(not known)"
    return render("earlier", summary=told, conversation=_said(material.conversation))


def _failed(failures: Iterable[Failure]) -> str:
    return "\n\n".join(_run(one) for one in failures) + "\n"


def _run(failure: Failure) -> str:
    run = failure.seen.run
    logs = [
        quoted(f"end of the log of the job {log.job}, which ended as {log.conclusion}", log.text)
        for log in failure.logs
    ]
    named = quoted(f"workflow run {run.id}, which ended as {run.conclusion}", run.check)
    return "\n".join([named, *logs])


def _endings(history: Iterable[str]) -> str:
    return quoted("how they ended", "\n".join(history))


def _contract(task: Task, repo: Repo | None) -> str:
    if repo is None:
        return render("contract_folder", folder=task.cwd)
    path, tests = repo.coding_guidelines_path, repo.required_tests
    listed = "".join(f"  - `{command}`\n" for command in tests)
    return render(
        "contract",
        repo=task.repo_full_name or task.project,
        branch=task.branch,
        guidelines=f"- Follow `{path}`.\n" if path else "",
        tests=f"- These must pass before your work is taken:\n{listed}" if tests else "",
    )


def _issue(task: Task, material: Material) -> str:
    issue = material.issue
    title, body = (issue.title, issue.body) if issue else (task.title, "")
    return quoted(f"issue #{task.number}, written by {task.author}", f"{title}\n\n{body}".strip())


def _said(remarks: Iterable[Remark]) -> str:
    return "\n\n".join(quoted(_heading(remark), remark.body) for remark in remarks) + "\n"


def _heading(said: Remark) -> str:
    where = f" on {said.path}" + (f", line {said.line}" if said.line else "") if said.path else ""
    kind = "review" if said.row.kind == ItemKind.REVIEW else "comment"
    return f"{kind} {said.row.object_id}, written by {said.row.author}{where}"


def _wall_minutes(task: Task, turn: Turn, limits: Tasks) -> int:
    if task.wall_limit_minutes:
        return task.wall_limit_minutes
    if turn in (Turn.FEEDBACK, Turn.CI) or (turn is Turn.REPAIR and task.pr_number is not None):
        return limits.feedback_wall_limit_minutes
    design = task.flow is Flow.DESIGN
    return limits.design_wall_limit_minutes if design else limits.direct_wall_limit_minutes

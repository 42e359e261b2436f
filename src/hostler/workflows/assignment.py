"""A task's turn as an assignment for an agent: prompt, context, limits. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostler.agents.assignment import Assignment, RunLimits
from hostler.config.settings import Repo, Tasks
from hostler.forge.events import decode_content
from hostler.forge.port import ItemKind, WorkflowRun
from hostler.intake.model import CommentEvent
from hostler.store.inbox import InboxRow
from hostler.store.tasks import Flow, Task
from hostler.workflows.templates import RepoPrompts, quote_name, quote_text
from hostler.workflows.turns import (
    CiFailure,
    TurnInput,
    TurnKind,
    design_path,
    is_feedback,
    turn_kind,
)

PROGRAM_OUTPUT = "printed by programs, nobody's request"
_ASSOCIATIONS = {
    "OWNER": "owner",
    "MEMBER": "member",
    "COLLABORATOR": "collaborator",
    "CONTRIBUTOR": "contributor",
    "FIRST_TIME_CONTRIBUTOR": "no part in the repository",
    "FIRST_TIMER": "no part in the repository",
    "NONE": "no part in the repository",
}


def describe_permission(login: str, repo: Repo | None, row: InboxRow | None) -> str:
    """In words: by the settings, and by what GitHub said of the author beside the text."""
    known = [*_roles_by_settings(login, repo), _ASSOCIATIONS.get(_association(login, row), "")]
    return ", ".join(part for part in known if part) or "not known"


def _roles_by_settings(login: str, repo: Repo | None) -> list[str]:
    if repo is None:
        return []
    lists = {"operator": repo.operator_logins, "allowed user": repo.allowed_users}
    named = [word for word, logins in lists.items() if _is_listed(login, logins)]
    return named or ["not an allowed user"]


def _is_listed(login: str, logins: list[str]) -> bool:
    return login.lower() in {one.lower() for one in logins}


def _association(login: str, row: InboxRow | None) -> str:
    """GitHub's own word. It is about the author of the row, and about nobody else."""
    if row is None or row.author.lower() != login.lower():
        return ""
    try:
        content = decode_content(row.kind, row.payload)
    except (ValueError, RecursionError):
        return ""
    return "" if isinstance(content, WorkflowRun) else content.author_association


NO_REPO_PROMPTS = RepoPrompts()


def build_prompt(
    task: Task, material: TurnInput, repo: Repo | None, words: RepoPrompts = NO_REPO_PROMPTS
) -> str:
    """The whole prompt. A task in a folder has no repository."""
    return PromptBuilder(task, material, repo, words).whole()


@dataclass(frozen=True, slots=True)
class PromptBuilder:
    """One turn, and all that its prompt is made of."""

    task: Task
    material: TurnInput
    repo: Repo | None
    words: RepoPrompts

    def whole(self) -> str:
        """All parts, in their order."""
        feedback = is_feedback(self.task, self.material)
        parts = self._feedback() if feedback else [self._work(), *self._heard()]
        if feedback and not self.task.session:
            parts.append(self._earlier())
        return "\n".join([*parts, *self._so_far(), self._contract()])

    def _render(self, name: str, **values: object) -> str:
        return self.words.prompts.render(name, **values)

    def _work(self) -> str:
        task = self.task
        if task.flow is Flow.TASK:
            return self._render("task", task=task.prompt.strip())
        return self._render(
            task.flow.value,
            repo=task.repo_full_name or task.project,
            issue=self._issue(),
            conversation=self._said(self.material.conversation),
            design_path=design_path(task),
        )

    def _heard(self) -> list[str]:
        """What people said before there is a pull request: an answer, or further words."""
        if not self.material.remarks:
            return []
        remarks = self._said(self.material.remarks)
        if self.task.question:
            return [self._render("answer", question=self._question(), remarks=remarks)]
        return [self._render("remarks", remarks=remarks)]

    def _so_far(self) -> list[str]:
        """An answer by hand, what to mend, or how the last attempts ended."""
        task, history = self.task, self.material.history
        if task.note and task.question and task.by_hand:
            remarks = quote_text("answer", task.note)
            return [self._render("answer", question=self._question(), remarks=remarks)]
        if task.note:
            note = quote_text(f"what was found ({PROGRAM_OUTPUT})", task.note)
            return [self._render("repair", note=note)]
        if history:
            return [self._render("again", history=quote_text("how they ended", "\n".join(history)))]
        return []

    def _feedback(self) -> list[str]:
        """What people said on the pull request, and what CI did; either may be nothing."""
        task, material = self.task, self.material
        common = {
            "repo": task.repo_full_name or task.project,
            "pull": task.pr_number,
            "issue": self._issue(),
        }
        parts = []
        if material.remarks:
            parts.append(self._render("feedback", remarks=self._said(material.remarks), **common))
        if material.failures:
            parts.append(self._render("ci", failures=_failures_text(material.failures), **common))
        return parts

    def _earlier(self) -> str:
        """For an agent that has no memory of its work on the pull request."""
        summary = self.material.summary
        told = quote_text("you", summary) if summary else "(not known)"
        said = self._said(self.material.conversation)
        return self._render("earlier", summary=told, conversation=said)

    def _contract(self) -> str:
        repo, task = self.repo, self.task
        path = (repo.coding_guidelines_path if repo else "") or self.words.guide
        guidelines = f"- Follow `{path}`.\n" if path else ""
        if repo is None:
            return self._render("contract_folder", folder=task.cwd, guidelines=guidelines)
        listed = "".join(f"  - `{command}`\n" for command in repo.required_tests)
        return self._render(
            "contract",
            repo=task.repo_full_name or task.project,
            branch=task.branch,
            guidelines=guidelines,
            tests=f"- These must pass before your work is taken:\n{listed}" if listed else "",
        )

    def _question(self) -> str:
        return quote_text("you", self.task.question)

    def _issue(self) -> str:
        task, issue = self.task, self.material.issue
        title, body = (issue.title, issue.body) if issue else (task.title, "")
        may = describe_permission(task.author, self.repo, issue.row if issue else None)
        heading = f"issue #{task.number}, written by {task.author} ({may})"
        return quote_text(heading, f"{title}\n\n{body}".strip())

    def _said(self, remarks: Iterable[CommentEvent]) -> str:
        return "\n\n".join(quote_text(self._heading(one), one.body) for one in remarks) + "\n"

    def _heading(self, said: CommentEvent) -> str:
        line = f", line {said.line}" if said.line else ""
        where = f" on {quote_name(said.path)}{line}" if said.path else ""
        kind = "review" if said.row.kind == ItemKind.REVIEW else "comment"
        may = describe_permission(said.row.author, self.repo, said.row)
        return f"{kind} {said.row.object_id}, written by {said.row.author} ({may}){where}"


def _failures_text(failures: Iterable[CiFailure]) -> str:
    return "\n\n".join(_failure_text(one) for one in failures) + "\n"


def _failure_text(failure: CiFailure) -> str:
    run = failure.seen.run
    logs = [
        quote_text(
            f"end of the log of the job {quote_name(log.job)}, which ended as {log.conclusion} "
            f"({PROGRAM_OUTPUT})",
            log.text,
        )
        for log in failure.logs
    ]
    run_words = quote_text(f"workflow run {run.id}, which ended as {run.conclusion}", run.check)
    return "\n".join([run_words, *logs])


@dataclass(frozen=True, slots=True)
class RunFolders:
    """Where one run happens."""

    home: Path
    task_dir: Path
    run_dir: Path
    checkout: Path


def build_assignment(
    task: Task,
    material: TurnInput,
    run: str,
    folders: RunFolders,
    repo: Repo | None,
    limits: Tasks,
    grace_seconds: float = 10.0,
    words: RepoPrompts = NO_REPO_PROMPTS,
) -> Assignment:
    """What an agent is asked to do in this run. A task in a folder has no repository.

    `words`: what its repository or folder says itself about prompts.
    """
    turn = turn_kind(task, material)
    return Assignment(
        run=run,
        task=task.id,
        project=task.project,
        attempt=task.attempt,
        home=folders.home,
        task_dir=folders.task_dir,
        run_dir=folders.run_dir,
        checkout=folders.checkout,
        prompt=build_prompt(task, material, repo, words),
        limits=RunLimits(
            wall_seconds=60.0 * _wall_minutes(task, turn, limits),
            silence_seconds=60.0 * limits.silence_limit_minutes,
            grace_seconds=grace_seconds,
        ),
        session=task.session,
        context=build_context(task, material, repo),
    )


def build_context(task: Task, material: TurnInput, repo: Repo | None = None) -> dict[str, Any]:
    """The same for programs."""
    feedback = is_feedback(task, material)
    issue = material.issue
    return {
        "flow": "feedback" if feedback else task.flow.value,
        "turn": turn_kind(task, material).value,
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
            "permission": describe_permission(task.author, repo, issue.row if issue else None),
        },
        "failures": [_failure_json(one) for one in material.failures],
        "comments": [_comment_json(remark, repo) for remark in material.remarks],
        "conversation": [_comment_json(remark, repo) for remark in material.conversation],
        "history": list(material.history),
        "prompt": task.prompt,
    }


def _comment_json(said: CommentEvent, repo: Repo | None) -> dict[str, Any]:
    return {
        "id": said.row.object_id,
        "kind": said.row.kind,
        "author": said.row.author,
        "permission": describe_permission(said.row.author, repo, said.row),
        "body": said.body,
        "path": said.path,
        "line": said.line,
    }


def _failure_json(failure: CiFailure) -> dict[str, Any]:
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


def _wall_minutes(task: Task, turn: TurnKind, limits: Tasks) -> int:
    if task.wall_limit_minutes:
        return task.wall_limit_minutes
    if turn in (TurnKind.FEEDBACK, TurnKind.CI) or (
        turn is TurnKind.REPAIR and task.pr_number is not None
    ):
        return limits.feedback_wall_limit_minutes
    design = task.flow is Flow.DESIGN
    return limits.design_wall_limit_minutes if design else limits.direct_wall_limit_minutes

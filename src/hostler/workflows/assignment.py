"""Build an agent's assignment from a task's turn: prompt, context and limits. Pure functions."""

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

PROGRAM_OUTPUT = "program output, not a request"
_ASSOCIATIONS = {
    "OWNER": "owner",
    "MEMBER": "member",
    "COLLABORATOR": "collaborator",
    "CONTRIBUTOR": "contributor",
    "FIRST_TIME_CONTRIBUTOR": "no role in the repository",
    "FIRST_TIMER": "no role in the repository",
    "NONE": "no role in the repository",
}


def describe_permission(login: str, repo: Repo | None, row: InboxRow | None) -> str:
    """Return an author's role by the settings and by GitHub's `author_association`."""
    known = [*_roles_by_settings(login, repo), _ASSOCIATIONS.get(_association(login, row), "")]
    return ", ".join(part for part in known if part) or "unknown"


def _roles_by_settings(login: str, repo: Repo | None) -> list[str]:
    if repo is None:
        return []
    lists = {"operator": repo.operator_logins, "allowed user": repo.allowed_users}
    named = [word for word, logins in lists.items() if _is_listed(login, logins)]
    return named or ["not an allowed user"]


def _is_listed(login: str, logins: list[str]) -> bool:
    return login.lower() in {one.lower() for one in logins}


def _association(login: str, row: InboxRow | None) -> str:
    """Return GitHub's association of the author, if the row is by this author."""
    if row is None or row.author.lower() != login.lower():
        return ""
    try:
        content = decode_content(row.kind, row.payload)
    except (ValueError, RecursionError):
        return ""
    return "" if isinstance(content, WorkflowRun) else content.author_association


NO_REPO_PROMPTS = RepoPrompts()


def build_prompt(
    task: Task,
    turn_input: TurnInput,
    repo: Repo | None,
    repo_prompts: RepoPrompts = NO_REPO_PROMPTS,
) -> str:
    """Return the whole prompt. `repo` is None for a task in a folder."""
    return PromptBuilder(task, turn_input, repo, repo_prompts).render()


@dataclass(frozen=True, slots=True)
class PromptBuilder:
    """Builds the prompt of one turn."""

    task: Task
    turn_input: TurnInput
    repo: Repo | None
    repo_prompts: RepoPrompts

    def render(self) -> str:
        """Return all parts in their order."""
        feedback = is_feedback(self.task, self.turn_input)
        parts = self._feedback_parts() if feedback else [self._work_part(), *self._comment_parts()]
        if feedback and not self.task.session:
            parts.append(self._earlier_part())
        return "\n".join([*parts, *self._history_parts(), self._contract_part()])

    def _render(self, name: str, **values: object) -> str:
        return self.repo_prompts.prompts.render(name, **values)

    def _work_part(self) -> str:
        task = self.task
        if task.flow is Flow.TASK:
            return self._render("task", task=task.prompt.strip())
        return self._render(
            task.flow.value,
            repo=task.repo_full_name or task.project,
            issue=self._issue(),
            conversation=self._render_comments(self.turn_input.conversation),
            design_path=design_path(task),
        )

    def _comment_parts(self) -> list[str]:
        """Return comments made before there is a pull request, or the answer to a question."""
        if not self.turn_input.comments:
            return []
        comments = self._render_comments(self.turn_input.comments)
        if self.task.question:
            return [self._render("answer", question=self._question(), comments=comments)]
        return [self._render("comments", comments=comments)]

    def _history_parts(self) -> list[str]:
        """Return the answer of a manual task, what to repair, or how the last attempts ended."""
        task, history = self.task, self.turn_input.history
        if task.note and task.question and task.by_hand:
            comments = quote_text("answer", task.note)
            return [self._render("answer", question=self._question(), comments=comments)]
        if task.note:
            note = quote_text(f"what went wrong ({PROGRAM_OUTPUT})", task.note)
            return [self._render("repair", note=note)]
        if history:
            return [self._render("retry", history=quote_text("how they ended", "\n".join(history)))]
        return []

    def _feedback_parts(self) -> list[str]:
        """Return review comments on the pull request and failing CI; either can be missing."""
        task, turn_input = self.task, self.turn_input
        common = {
            "repo": task.repo_full_name or task.project,
            "pull": task.pr_number,
            "issue": self._issue(),
        }
        parts = []
        if turn_input.comments:
            parts.append(
                self._render(
                    "feedback", comments=self._render_comments(turn_input.comments), **common
                )
            )
        if turn_input.failures:
            parts.append(self._render("ci", failures=_failures_text(turn_input.failures), **common))
        return parts

    def _earlier_part(self) -> str:
        """Return the earlier work and discussion, for a session that does not know them."""
        summary = self.turn_input.summary
        summary_text = quote_text("you", summary) if summary else "(unknown)"
        conversation = self._render_comments(self.turn_input.conversation)
        return self._render("earlier", summary=summary_text, conversation=conversation)

    def _contract_part(self) -> str:
        repo, task = self.repo, self.task
        path = (repo.coding_guidelines_path if repo else "") or self.repo_prompts.guide
        guidelines = f"- Follow `{path}`.\n" if path else ""
        if repo is None:
            return self._render("contract_folder", folder=task.cwd, guidelines=guidelines)
        listed = "".join(f"  - `{command}`\n" for command in repo.required_tests)
        return self._render(
            "contract",
            repo=task.repo_full_name or task.project,
            branch=task.branch,
            guidelines=guidelines,
            tests=f"- These must pass before your work is accepted:\n{listed}" if listed else "",
        )

    def _question(self) -> str:
        return quote_text("you", self.task.question)

    def _issue(self) -> str:
        task, issue = self.task, self.turn_input.issue
        title, body = (issue.title, issue.body) if issue else (task.title, "")
        may = describe_permission(task.author, self.repo, issue.row if issue else None)
        heading = f"issue #{task.number}, written by {task.author} ({may})"
        return quote_text(heading, f"{title}\n\n{body}".strip())

    def _render_comments(self, comments: Iterable[CommentEvent]) -> str:
        return "\n\n".join(quote_text(self._heading(one), one.body) for one in comments) + "\n"

    def _heading(self, comment: CommentEvent) -> str:
        line = f", line {comment.line}" if comment.line else ""
        where = f" on {quote_name(comment.path)}{line}" if comment.path else ""
        kind = "review" if comment.row.kind == ItemKind.REVIEW else "comment"
        may = describe_permission(comment.row.author, self.repo, comment.row)
        return f"{kind} {comment.row.object_id}, written by {comment.row.author} ({may}){where}"


def _failures_text(failures: Iterable[CiFailure]) -> str:
    return "\n\n".join(_failure_text(one) for one in failures) + "\n"


def _failure_text(failure: CiFailure) -> str:
    run = failure.event.run
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
    """The folders of one run."""

    home: Path
    task_dir: Path
    run_dir: Path
    checkout: Path


def build_assignment(
    task: Task,
    turn_input: TurnInput,
    run: str,
    folders: RunFolders,
    repo: Repo | None,
    limits: Tasks,
    grace_seconds: float = 10.0,
    repo_prompts: RepoPrompts = NO_REPO_PROMPTS,
) -> Assignment:
    """Return what an agent is asked to do in this run.

    `repo` is None for a task in a folder; `repo_prompts` are the repository's own templates.
    """
    turn = turn_kind(task, turn_input)
    return Assignment(
        run=run,
        task=task.id,
        project=task.project,
        attempt=task.attempt,
        home=folders.home,
        task_dir=folders.task_dir,
        run_dir=folders.run_dir,
        checkout=folders.checkout,
        prompt=build_prompt(task, turn_input, repo, repo_prompts),
        limits=RunLimits(
            wall_seconds=60.0 * _wall_minutes(task, turn, limits),
            silence_seconds=60.0 * limits.silence_limit_minutes,
            grace_seconds=grace_seconds,
        ),
        session=task.session,
        context=build_context(task, turn_input, repo),
    )


def build_context(task: Task, turn_input: TurnInput, repo: Repo | None = None) -> dict[str, Any]:
    """Return the content of context.json: the same facts as the prompt, for programs."""
    feedback = is_feedback(task, turn_input)
    issue = turn_input.issue
    return {
        "flow": "feedback" if feedback else task.flow.value,
        "turn": turn_kind(task, turn_input).value,
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
        "failures": [_failure_json(one) for one in turn_input.failures],
        "comments": [_comment_json(comment, repo) for comment in turn_input.comments],
        "conversation": [_comment_json(comment, repo) for comment in turn_input.conversation],
        "history": list(turn_input.history),
        "prompt": task.prompt,
    }


def _comment_json(comment: CommentEvent, repo: Repo | None) -> dict[str, Any]:
    return {
        "id": comment.row.object_id,
        "kind": comment.row.kind,
        "author": comment.row.author,
        "permission": describe_permission(comment.row.author, repo, comment.row),
        "body": comment.body,
        "path": comment.path,
        "line": comment.line,
    }


def _failure_json(failure: CiFailure) -> dict[str, Any]:
    run = failure.event.run
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

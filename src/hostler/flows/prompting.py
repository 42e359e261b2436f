"""A turn in words: the work, what was said, what to mend, and the rules. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hostler.config.settings import Repo
from hostler.flows.authors import PROGRAMS, permission
from hostler.flows.ci import Failure
from hostler.flows.material import Material
from hostler.flows.rendering import named, quoted
from hostler.flows.templates import RepoWords
from hostler.flows.turns import design_path, is_feedback
from hostler.forge.port import ItemKind
from hostler.intake import Remark
from hostler.store.tasks import Flow, Task

NO_WORDS = RepoWords()


def prompt_for(
    task: Task, material: Material, repo: Repo | None, words: RepoWords = NO_WORDS
) -> str:
    """The whole prompt. A task in a folder has no repository."""
    return Prompter(task, material, repo, words).whole()


@dataclass(frozen=True, slots=True)
class Prompter:
    """One turn, and all that its prompt is made of."""

    task: Task
    material: Material
    repo: Repo | None
    words: RepoWords

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
            remarks = quoted("answer", task.note)
            return [self._render("answer", question=self._question(), remarks=remarks)]
        if task.note:
            note = quoted(f"what was found ({PROGRAMS})", task.note)
            return [self._render("repair", note=note)]
        if history:
            return [self._render("again", history=quoted("how they ended", "\n".join(history)))]
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
            parts.append(self._render("ci", failures=_failed(material.failures), **common))
        return parts

    def _earlier(self) -> str:
        """For an agent that has no memory of its work on the pull request."""
        summary = self.material.summary
        told = quoted("you", summary) if summary else "(not known)"
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
        return quoted("you", self.task.question)

    def _issue(self) -> str:
        task, issue = self.task, self.material.issue
        title, body = (issue.title, issue.body) if issue else (task.title, "")
        may = permission(task.author, self.repo, issue.row if issue else None)
        heading = f"issue #{task.number}, written by {task.author} ({may})"
        return quoted(heading, f"{title}\n\n{body}".strip())

    def _said(self, remarks: Iterable[Remark]) -> str:
        return "\n\n".join(quoted(self._heading(one), one.body) for one in remarks) + "\n"

    def _heading(self, said: Remark) -> str:
        line = f", line {said.line}" if said.line else ""
        where = f" on {named(said.path)}{line}" if said.path else ""
        kind = "review" if said.row.kind == ItemKind.REVIEW else "comment"
        may = permission(said.row.author, self.repo, said.row)
        return f"{kind} {said.row.object_id}, written by {said.row.author} ({may}){where}"


def _failed(failures: Iterable[Failure]) -> str:
    return "\n\n".join(_run(one) for one in failures) + "\n"


def _run(failure: Failure) -> str:
    run = failure.seen.run
    logs = [
        quoted(
            f"end of the log of the job {named(log.job)}, which ended as {log.conclusion} "
            f"({PROGRAMS})",
            log.text,
        )
        for log in failure.logs
    ]
    run_words = quoted(f"workflow run {run.id}, which ended as {run.conclusion}", run.check)
    return "\n".join([run_words, *logs])

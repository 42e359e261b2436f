"""The nouns of continuous integration: statuses, check runs, workflow runs and their jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hostler.sandbox.state.tables import Entity, Key

FAILURES = frozenset({"failure", "timed_out", "cancelled", "action_required", "startup_failure"})


@dataclass(frozen=True, slots=True)
class CommitStatus(Entity):
    """A commit's status under one context."""

    kind: ClassVar[str] = "status"
    repo_id: int
    sha: str
    state: str
    context: str
    creator: str
    created_at: int
    updated_at: int
    description: str | None = None
    target_url: str | None = None

    def groups(self) -> tuple[Key, ...]:
        return (("commit", self.repo_id, self.sha),)


@dataclass(frozen=True, slots=True)
class CheckOutput:
    """What a check run says."""

    title: str | None = None
    summary: str | None = None
    text: str | None = None
    annotations: int = 0


@dataclass(frozen=True, slots=True)
class CheckRun(Entity):
    """One check of a commit."""

    kind: ClassVar[str] = "check_run"
    repo_id: int
    head_sha: str
    name: str
    status: str = "queued"
    conclusion: str | None = None
    started_at: int | None = None
    completed_at: int | None = None
    external_id: str = ""
    details_url: str | None = None
    output: CheckOutput = CheckOutput()
    creator: str = ""
    app_id: int | None = None
    job_id: int | None = None

    def groups(self) -> tuple[Key, ...]:
        return (("commit", self.repo_id, self.head_sha),)


@dataclass(frozen=True, slots=True)
class Workflow(Entity):
    """A named way of running CI."""

    kind: ClassVar[str] = "workflow"
    repo_id: int
    name: str
    path: str
    created_at: int

    def names(self) -> tuple[Key, ...]:
        return ((self.repo_id, self.name), ("path", self.repo_id, self.path))

    def groups(self) -> tuple[Key, ...]:
        return (("repo", self.repo_id),)


@dataclass(frozen=True, slots=True)
class CiRun(Entity):
    """One run of a workflow for a commit."""

    kind: ClassVar[str] = "run"
    repo_id: int
    workflow_id: int
    run_number: int
    head_sha: str
    head_branch: str | None
    event: str
    actor: str
    title: str
    created_at: int
    updated_at: int
    started_at: int
    status: str = "completed"
    conclusion: str | None = "success"
    attempt: int = 1

    def groups(self) -> tuple[Key, ...]:
        return (("repo", self.repo_id), ("workflow", self.workflow_id))

    def moment(self, order: str) -> int:
        return self.updated_at if order == "updated" else self.created_at


@dataclass(frozen=True, slots=True)
class JobStep:
    """One step of a job."""

    name: str
    status: str
    conclusion: str | None


@dataclass(frozen=True, slots=True)
class CiJob(Entity):
    """One job of a run's attempt, with its log."""

    kind: ClassVar[str] = "job"
    repo_id: int
    run_id: int
    attempt: int
    name: str
    created_at: int
    status: str = "completed"
    conclusion: str | None = "success"
    started_at: int | None = None
    completed_at: int | None = None
    steps: tuple[JobStep, ...] = ()
    log: str = ""
    check_run_id: int = 0

    def groups(self) -> tuple[Key, ...]:
        return (("run", self.run_id),)


@dataclass(frozen=True, slots=True)
class CiScript(Entity):
    """What a repository's CI does after each push, kept under the repository's own id."""

    kind: ClassVar[str] = "ci_script"
    workflow: str
    jobs: tuple[tuple[str, str, str], ...]

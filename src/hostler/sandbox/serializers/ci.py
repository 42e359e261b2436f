"""The JSON of statuses, check runs, workflow runs and jobs."""

from __future__ import annotations

from typing import Any

from hostler.sandbox.ci.entities import CheckRun, CiJob, CiRun, CommitStatus, Workflow
from hostler.sandbox.pulls.entities import PullRequest
from hostler.sandbox.serializers.base import RenderContext, serialize, serializer, webhook_payload
from hostler.sandbox.serializers.pulls import minimal_pull
from hostler.sandbox.serializers.repos import node_id, page_url, repo_url, simple_user
from hostler.sandbox.state.clock import iso, iso_or_none
from hostler.sandbox.state.entities import Repo


@serializer(CommitStatus)
def serialize_status(item: CommitStatus, frame: RenderContext) -> dict[str, Any]:
    """Return a commit's status under one context."""
    creator = simple_user(item.creator, frame)
    return {
        "id": item.id,
        "node_id": node_id("StatusContext", item.id),
        "url": f"{repo_url(item.repo_id, frame)}/statuses/{item.sha}",
        "avatar_url": creator["avatar_url"],
        "state": item.state,
        "description": item.description,
        "target_url": item.target_url,
        "context": item.context,
        "created_at": iso(item.created_at),
        "updated_at": iso(item.updated_at),
        "creator": creator,
    }


@serializer(CheckRun, kept=False)
def serialize_check_run(item: CheckRun, frame: RenderContext) -> dict[str, Any]:
    """Return one check of a commit."""
    url = f"{repo_url(item.repo_id, frame)}/check-runs/{item.id}"
    page = f"{page_url(item.repo_id, frame)}/runs/{item.id}"
    return {
        "id": item.id,
        "node_id": node_id("CheckRun", item.id),
        "head_sha": item.head_sha,
        "external_id": item.external_id,
        "url": url,
        "html_url": page,
        "details_url": item.details_url or page,
        "name": item.name,
        "status": item.status,
        "conclusion": item.conclusion,
        "started_at": iso_or_none(item.started_at),
        "completed_at": iso_or_none(item.completed_at),
        "output": {
            "title": item.output.title,
            "summary": item.output.summary,
            "text": item.output.text,
            "annotations_count": item.output.annotations,
            "annotations_url": f"{url}/annotations",
        },
        "check_suite": {"id": int(item.head_sha[:12], 16)},
        "app": None,
        "pull_requests": _pulls_of_commit(item.repo_id, item.head_sha, frame),
    }


def _pulls_of_commit(repo_id: int, sha: str, frame: RenderContext) -> list[dict[str, Any]]:
    """Return the pull requests whose head is this commit."""
    pulls = frame.tables.group(PullRequest, "repo", repo_id).select()
    return [minimal_pull(pull, frame) for pull in pulls if pull.head_sha == sha]


@serializer(Workflow)
def serialize_workflow(item: Workflow, frame: RenderContext) -> dict[str, Any]:
    """Return a named way of running CI."""
    page = page_url(item.repo_id, frame)
    return {
        "id": item.id,
        "node_id": node_id("Workflow", item.id),
        "name": item.name,
        "path": item.path,
        "state": "active",
        "created_at": iso(item.created_at),
        "updated_at": iso(item.created_at),
        "url": f"{repo_url(item.repo_id, frame)}/actions/workflows/{item.id}",
        "html_url": f"{page}/blob/HEAD/{item.path}",
        "badge_url": f"{page}/workflows/{item.name}/badge.svg",
    }


@serializer(CiRun, kept=False)
def serialize_run(item: CiRun, frame: RenderContext) -> dict[str, Any]:
    """Return one run of a workflow."""
    url = f"{repo_url(item.repo_id, frame)}/actions/runs/{item.id}"
    found = frame.tables.get(Workflow, item.workflow_id)
    repo = frame.tables.get(Repo, item.repo_id)
    actor = simple_user(item.actor, frame)
    return {
        "id": item.id,
        "node_id": node_id("WorkflowRun", item.id),
        "name": found.name if found else "CI",
        "path": found.path if found else "",
        "head_branch": item.head_branch,
        "head_sha": item.head_sha,
        "display_title": item.title,
        "run_number": item.run_number,
        "run_attempt": item.attempt,
        "event": item.event,
        "status": item.status,
        "conclusion": item.conclusion,
        "workflow_id": item.workflow_id,
        "check_suite_id": int(item.head_sha[:12], 16),
        "check_suite_node_id": node_id("CheckSuite", int(item.head_sha[:12], 16)),
        "pull_requests": _pulls_of_commit(item.repo_id, item.head_sha, frame),
        "created_at": iso(item.created_at),
        "updated_at": iso(item.updated_at),
        "run_started_at": iso(item.started_at),
        "actor": actor,
        "triggering_actor": actor,
        "head_commit": _head_commit(item),
        "repository": serialize(repo, frame) if repo else None,
        "head_repository": serialize(repo, frame) if repo else None,
        "referenced_workflows": [],
        **_run_urls(item, url, frame),
    }


def _head_commit(item: CiRun) -> dict[str, Any]:
    who = {"name": item.actor, "email": f"{item.actor}@users.noreply.github.com"}
    return {
        "id": item.head_sha,
        "tree_id": item.head_sha,
        "message": item.title,
        "timestamp": iso(item.created_at),
        "author": who,
        "committer": who,
    }


def _run_urls(item: CiRun, url: str, frame: RenderContext) -> dict[str, Any]:
    base = repo_url(item.repo_id, frame)
    before = f"{url}/attempts/{item.attempt - 1}" if item.attempt > 1 else None
    return {
        "url": url,
        "html_url": f"{page_url(item.repo_id, frame)}/actions/runs/{item.id}",
        "jobs_url": f"{url}/jobs",
        "logs_url": f"{url}/logs",
        "check_suite_url": f"{base}/check-suites/{int(item.head_sha[:12], 16)}",
        "artifacts_url": f"{url}/artifacts",
        "cancel_url": f"{url}/cancel",
        "rerun_url": f"{url}/rerun",
        "previous_attempt_url": before,
        "workflow_url": f"{base}/actions/workflows/{item.workflow_id}",
    }


@serializer(CiJob, kept=False)
def serialize_job(item: CiJob, frame: RenderContext) -> dict[str, Any]:
    """Return one job of a run."""
    base = repo_url(item.repo_id, frame)
    owner = frame.tables.get(CiRun, item.run_id)
    found = frame.tables.get(Workflow, owner.workflow_id) if owner else None
    return {
        "id": item.id,
        "run_id": item.run_id,
        "run_url": f"{base}/actions/runs/{item.run_id}",
        "run_attempt": item.attempt,
        "node_id": node_id("CheckRun", item.id),
        "head_sha": owner.head_sha if owner else "",
        "head_branch": owner.head_branch if owner else None,
        "url": f"{base}/actions/jobs/{item.id}",
        "html_url": f"{page_url(item.repo_id, frame)}/actions/runs/{item.run_id}/job/{item.id}",
        "check_run_url": f"{base}/check-runs/{item.check_run_id}",
        "name": item.name,
        "workflow_name": found.name if found else None,
        "status": item.status,
        "conclusion": item.conclusion,
        "created_at": iso(item.created_at),
        "started_at": iso(item.started_at or item.created_at),
        "completed_at": iso_or_none(item.completed_at),
        "labels": ["ubuntu-latest"],
        "runner_id": 1,
        "runner_name": "sandbox",
        "runner_group_id": 1,
        "runner_group_name": "Default",
        "steps": _job_steps(item),
    }


def _job_steps(item: CiJob) -> list[dict[str, Any]]:
    return [
        {
            "number": number,
            "name": step.name,
            "status": step.status,
            "conclusion": step.conclusion,
            "started_at": iso_or_none(item.started_at),
            "completed_at": iso_or_none(item.completed_at),
        }
        for number, step in enumerate(item.steps, 1)
    ]


@webhook_payload("workflow_run")
def _workflow_run(item: CiRun, _action: str, frame: RenderContext) -> dict[str, Any]:
    found = frame.tables.get(Workflow, item.workflow_id)
    return {
        "workflow_run": serialize_run(item, frame),
        "workflow": serialize_workflow(found, frame) if found else None,
    }


@webhook_payload("workflow_job")
def _workflow_job(item: CiJob, _action: str, frame: RenderContext) -> dict[str, Any]:
    return {"workflow_job": serialize_job(item, frame)}


@webhook_payload("check_run")
def _check_run(item: CheckRun, _action: str, frame: RenderContext) -> dict[str, Any]:
    return {"check_run": serialize_check_run(item, frame)}


@webhook_payload("status")
def _status(item: CommitStatus, _action: str, frame: RenderContext) -> dict[str, Any]:
    return {**serialize_status(item, frame), "sha": item.sha, "branches": []}

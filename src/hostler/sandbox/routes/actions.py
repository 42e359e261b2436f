"""Workflow runs and their jobs and logs."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass, replace
from functools import partial

from hostler.sandbox import ci_running
from hostler.sandbox.call import Call
from hostler.sandbox.ci_created import Span, created_span
from hostler.sandbox.ci_entities import Job, Run, Workflow
from hostler.sandbox.errors import ApiError, conflict, forbidden, not_found
from hostler.sandbox.http import Response, json_response, no_content
from hostler.sandbox.router import REPO, Router
from hostler.sandbox.world import World

router = Router()
ALL = REPO + "/actions/runs"
ONE = ALL + "/{run_id}"
JOB = REPO + "/actions/jobs/{job_id}"
_STEM = "/_storage/logs"


def attach(world: World) -> None:
    """Let CI scripts follow every push."""
    world.push_listeners.append(partial(ci_running.after_push, world))


@dataclass(frozen=True)
class Filter:
    """Which runs are asked for."""

    branch: str
    event: str
    status: str
    sha: str
    actor: str
    created: Span

    def __call__(self, run: Run) -> bool:
        wanted = (
            (self.branch, run.head_branch),
            (self.event, run.event),
            (self.sha, run.head_sha),
            (self.actor, run.actor.lower()),
        )
        if any(asked and asked != found for asked, found in wanted):
            return False
        # GitHub takes a status or a conclusion under the same name.
        if self.status and self.status not in (run.status, run.conclusion):
            return False
        return self.created.holds(run.created_at)


def _filter(call: Call) -> Filter:
    query = call.request.query
    return Filter(
        query.get("branch", ""),
        query.get("event", ""),
        query.get("status", ""),
        query.get("head_sha", ""),
        query.get("actor", "").lower(),
        created_span(query.get("created", "")),
    )


@router.route("GET", ALL)
def list_runs(call: Call) -> Response:
    """All runs, newest first."""
    runs = call.tables.group(Run, "repo", call.repo.id)
    found = runs.select("created", descending=True, where=_filter(call))
    return call.wrapped(found, "workflow_runs")


@router.route("GET", REPO + "/actions/workflows")
def list_workflows(call: Call) -> Response:
    """The workflows that have run."""
    return call.wrapped(call.tables.group(Workflow, "repo", call.repo.id).select(), "workflows")


@router.route("GET", REPO + "/actions/workflows/{workflow_id}/runs")
def list_of_workflow(call: Call) -> Response:
    """One workflow's runs, newest first; it is named by id or file."""
    name = call.params["workflow_id"]
    tables, path = call.tables, f".github/workflows/{name}"
    found = tables.find(Workflow, "path", call.repo.id, path)
    if found is None and name.isascii() and name.isdigit() and len(name) < 19:
        found = tables.get(Workflow, int(name))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    runs = tables.group(Run, "workflow", found.id)
    return call.wrapped(
        runs.select("created", descending=True, where=_filter(call)), "workflow_runs"
    )


@router.route("GET", ONE)
def get_run(call: Call) -> Response:
    """One run."""
    return call.one(_run(call))


@router.route("DELETE", ONE, access="write")
def delete_run(call: Call) -> Response:
    """Forget a run."""
    run = _run(call)
    for job in list(call.tables.group(Job, "run", run.id).select()):
        call.world.remove(job)
    call.world.remove(run)
    return no_content()


@router.route("GET", ONE + "/attempts/{attempt}")
def get_attempt(call: Call) -> Response:
    """A run as it was in one attempt."""
    run, attempt = _run(call), _attempt(call)
    if attempt == run.attempt:
        return call.one(run)
    end = ci_running.conclude(job.conclusion for job in _jobs(call, run, attempt))
    return call.one(replace(run, attempt=attempt, status="completed", conclusion=end))


@router.route("GET", ONE + "/jobs")
def list_jobs(call: Call) -> Response:
    """The jobs of the present attempt, or of all."""
    run = _run(call)
    every = call.request.query.get("filter") == "all"
    return call.wrapped(_jobs(call, run, None if every else run.attempt), "jobs")


@router.route("GET", ONE + "/attempts/{attempt}/jobs")
def list_attempt_jobs(call: Call) -> Response:
    """The jobs of one attempt."""
    return call.wrapped(_jobs(call, _run(call), _attempt(call)), "jobs")


@router.route("GET", ONE + "/artifacts")
def list_artifacts(call: Call) -> Response:
    """The sandbox keeps none."""
    _run(call)
    return json_response({"total_count": 0, "artifacts": []})


@router.route("POST", ONE + "/rerun", access="write")
def rerun(call: Call) -> Response:
    """Run everything again."""
    return _again(call, failed_only=False)


@router.route("POST", ONE + "/rerun-failed-jobs", access="write")
def rerun_failed(call: Call) -> Response:
    """Run what failed again."""
    return _again(call, failed_only=True)


def _again(call: Call, *, failed_only: bool) -> Response:
    run = _run(call)
    if run.status != "completed":
        raise forbidden("This workflow is already running")
    if failed_only and run.conclusion == "success":
        raise forbidden("This workflow run has no failed jobs")
    ci_running.rerun(call.world, run, call.actor, failed_only=failed_only)
    return json_response({}, 201)


@router.route("POST", ONE + "/cancel", access="write")
def cancel(call: Call) -> Response:
    """End what is running."""
    run = _run(call)
    if run.status == "completed":
        raise conflict("Cannot cancel a workflow run that is completed.")
    ci_running.finish(call.world, run, (), "cancelled")
    return json_response({}, 202)


@router.route("GET", JOB)
def get_job(call: Call) -> Response:
    """One job."""
    return call.one(_job(call))


@router.route("GET", JOB + "/logs")
def job_logs(call: Call) -> Response:
    """The way to a job's log."""
    job = _job(call)
    if job.status != "completed":
        raise not_found()
    return _elsewhere(call, "job", job.id)


@router.route("GET", ONE + "/logs")
def run_logs(call: Call) -> Response:
    """The way to an archive of all logs."""
    run = _run(call)
    if run.status != "completed":
        raise not_found()
    return _elsewhere(call, "run", run.id)


def _elsewhere(call: Call, kind: str, number: int) -> Response:
    url = f"{call.request.root}{_STEM}/{kind}/{number}/{_key(kind, number)}"
    return Response(302, headers={"Location": url})


def _key(kind: str, number: int) -> str:
    """What makes a log's address hard to guess; it needs no token, as on GitHub."""
    return hashlib.sha256(f"sandbox log {kind} {number}".encode()).hexdigest()[:32]


@router.route("GET", _STEM + "/{kind}/{number}/{key}", free=True)
def stored_log(call: Call) -> Response:
    """A job's log as text, or a run's logs as an archive."""
    kind, number = call.params["kind"], call.number()
    if call.params["key"] != _key(kind, number):
        raise ApiError(403, "Signature not valid")
    job = call.tables.get(Job, number) if kind == "job" else None
    if job is not None:
        return Response(200, job.log.encode(), content_type="text/plain; charset=utf-8")
    run = call.tables.get(Run, number) if kind == "run" else None
    if run is None:
        raise not_found()
    archive = zipped(_jobs(call, run, run.attempt))
    return Response(200, archive, content_type="application/zip")


def zipped(jobs: list[Job]) -> bytes:
    """Jobs' logs as an archive, one file each."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, job in enumerate(jobs):
            name = "".join(c if c.isalnum() or c in " ._-()" else "_" for c in job.name)
            archive.writestr(f"{number}_{name}.txt", job.log)
    return whole.getvalue()


def _run(call: Call) -> Run:
    found = call.tables.get(Run, call.number("run_id"))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    return found


def _job(call: Call) -> Job:
    found = call.tables.get(Job, call.number("job_id"))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    return found


def _attempt(call: Call) -> int:
    attempt = call.number("attempt")
    if not 1 <= attempt <= _run(call).attempt:
        raise not_found()
    return attempt


def _jobs(call: Call, run: Run, attempt: int | None) -> list[Job]:
    found: list[Job] = list(call.tables.group(Job, "run", run.id).select())
    return [job for job in found if attempt in (None, job.attempt)]

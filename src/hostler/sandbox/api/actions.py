"""Workflow runs, their jobs and logs."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from dataclasses import dataclass, replace
from functools import partial

from hostler.sandbox.ci import runs
from hostler.sandbox.ci.entities import CiJob, CiRun, Workflow
from hostler.sandbox.http.call import ApiCall
from hostler.sandbox.http.errors import ApiError, conflict, forbidden, not_found
from hostler.sandbox.http.pagination import parse_timestamp
from hostler.sandbox.http.requests import SandboxResponse, json_response, no_content
from hostler.sandbox.http.router import REPO, ApiRouter
from hostler.sandbox.state.world import World

_DAY = 86_400
_BOUND = re.compile(r"(>=|<=|>|<)?(.+)")
_MAX_TIME = 2**60


@dataclass(frozen=True)
class TimeSpan:
    """Seconds from `low` to `high`, both included."""

    low: int = 0
    high: int = _MAX_TIME

    def holds(self, second: int) -> bool:
        """Return whether a second lies inside."""
        return self.low <= second <= self.high


def parse_created(text: str) -> TimeSpan:
    """Return the span that a text means; 422 where it means none."""
    if not text.strip():
        return TimeSpan()
    first, dots, last = text.partition("..")
    if dots:
        low = 0 if first in ("", "*") else _start_of(first)
        return TimeSpan(low, _MAX_TIME if last in ("", "*") else _end_of(last))
    found = _BOUND.fullmatch(text.strip())
    sign, moment = found.groups() if found else (None, text)
    if sign == ">=":
        return TimeSpan(_start_of(moment))
    if sign == ">":
        return TimeSpan(_end_of(moment) + 1)
    if sign == "<=":
        return TimeSpan(0, _end_of(moment))
    if sign == "<":
        return TimeSpan(0, _start_of(moment) - 1)
    return TimeSpan(_start_of(moment), _end_of(moment))


def _start_of(text: str) -> int:
    return parse_timestamp(text, "created") or 0


def _end_of(text: str) -> int:
    """Return the last second of a time; a day without a time lasts until its last second."""
    return _start_of(text) + (_DAY - 1 if len(text.strip()) == 10 else 0)


router = ApiRouter()
RUNS = REPO + "/actions/runs"
RUN = RUNS + "/{run_id}"
JOB = REPO + "/actions/jobs/{job_id}"
_LOG_STORAGE = "/_storage/logs"


def attach(world: World) -> None:
    """Let CI scripts follow every push."""
    world.push_listeners.append(partial(runs.run_ci_script, world))


@dataclass(frozen=True)
class RunFilter:
    """Which runs are asked for."""

    branch: str
    event: str
    status: str
    sha: str
    actor: str
    created: TimeSpan

    def __call__(self, run: CiRun) -> bool:
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


def _run_filter(call: ApiCall) -> RunFilter:
    query = call.request.query
    return RunFilter(
        query.get("branch", ""),
        query.get("event", ""),
        query.get("status", ""),
        query.get("head_sha", ""),
        query.get("actor", "").lower(),
        parse_created(query.get("created", "")),
    )


@router.route("GET", RUNS)
def list_runs(call: ApiCall) -> SandboxResponse:
    """Return all runs, newest first."""
    runs = call.tables.group(CiRun, "repo", call.repo.id)
    found = runs.select("created", descending=True, where=_run_filter(call))
    return call.wrapped(found, "workflow_runs")


@router.route("GET", REPO + "/actions/workflows")
def list_workflows(call: ApiCall) -> SandboxResponse:
    """Return the workflows that have run."""
    return call.wrapped(call.tables.group(Workflow, "repo", call.repo.id).select(), "workflows")


@router.route("GET", REPO + "/actions/workflows/{workflow_id}/runs")
def list_workflow_runs(call: ApiCall) -> SandboxResponse:
    """Return one workflow's runs, newest first; it is named by id or file."""
    name = call.params["workflow_id"]
    tables, path = call.tables, f".github/workflows/{name}"
    found = tables.find(Workflow, "path", call.repo.id, path)
    if found is None and name.isascii() and name.isdigit() and len(name) < 19:
        found = tables.get(Workflow, int(name))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    runs = tables.group(CiRun, "workflow", found.id)
    return call.wrapped(
        runs.select("created", descending=True, where=_run_filter(call)), "workflow_runs"
    )


@router.route("GET", RUN)
def get_run(call: ApiCall) -> SandboxResponse:
    """Return one run."""
    return call.one(_find_run(call))


@router.route("DELETE", RUN, access="write")
def delete_run(call: ApiCall) -> SandboxResponse:
    """Forget a run."""
    run = _find_run(call)
    for job in list(call.tables.group(CiJob, "run", run.id).select()):
        call.world.remove(job)
    call.world.remove(run)
    return no_content()


@router.route("GET", RUN + "/attempts/{attempt}")
def get_attempt(call: ApiCall) -> SandboxResponse:
    """Return a run as it was in one attempt."""
    run, attempt = _find_run(call), _attempt_number(call)
    if attempt == run.attempt:
        return call.one(run)
    end = runs.conclusion_of(job.conclusion for job in _jobs_of_attempt(call, run, attempt))
    return call.one(replace(run, attempt=attempt, status="completed", conclusion=end))


@router.route("GET", RUN + "/jobs")
def list_jobs(call: ApiCall) -> SandboxResponse:
    """Return the jobs of the present attempt, or of all."""
    run = _find_run(call)
    every = call.request.query.get("filter") == "all"
    return call.wrapped(_jobs_of_attempt(call, run, None if every else run.attempt), "jobs")


@router.route("GET", RUN + "/attempts/{attempt}/jobs")
def list_attempt_jobs(call: ApiCall) -> SandboxResponse:
    """Return the jobs of one attempt."""
    return call.wrapped(_jobs_of_attempt(call, _find_run(call), _attempt_number(call)), "jobs")


@router.route("GET", RUN + "/artifacts")
def list_artifacts(call: ApiCall) -> SandboxResponse:
    """Return an empty list: the sandbox keeps no artifacts."""
    _find_run(call)
    return json_response({"total_count": 0, "artifacts": []})


@router.route("POST", RUN + "/rerun", access="write")
def rerun_run(call: ApiCall) -> SandboxResponse:
    """Run everything again."""
    return _rerun(call, failed_only=False)


@router.route("POST", RUN + "/rerun-failed-jobs", access="write")
def rerun_failed_jobs(call: ApiCall) -> SandboxResponse:
    """Run what failed again."""
    return _rerun(call, failed_only=True)


def _rerun(call: ApiCall, *, failed_only: bool) -> SandboxResponse:
    run = _find_run(call)
    if run.status != "completed":
        raise forbidden("This workflow is already running")
    if failed_only and run.conclusion == "success":
        raise forbidden("This workflow run has no failed jobs")
    runs.rerun(call.world, run, call.actor, failed_only=failed_only)
    return json_response({}, 201)


@router.route("POST", RUN + "/cancel", access="write")
def cancel_run(call: ApiCall) -> SandboxResponse:
    """End what is running."""
    run = _find_run(call)
    if run.status == "completed":
        raise conflict("Cannot cancel a workflow run that is completed.")
    runs.finish_run(call.world, run, (), "cancelled")
    return json_response({}, 202)


@router.route("GET", JOB)
def get_job(call: ApiCall) -> SandboxResponse:
    """Return one job."""
    return call.one(_find_job(call))


@router.route("GET", JOB + "/logs")
def get_job_logs(call: ApiCall) -> SandboxResponse:
    """Redirect to a job's log."""
    job = _find_job(call)
    if job.status != "completed":
        raise not_found()
    return _redirect_to_log(call, "job", job.id)


@router.route("GET", RUN + "/logs")
def get_run_logs(call: ApiCall) -> SandboxResponse:
    """Redirect to an archive of all logs."""
    run = _find_run(call)
    if run.status != "completed":
        raise not_found()
    return _redirect_to_log(call, "run", run.id)


def _redirect_to_log(call: ApiCall, kind: str, number: int) -> SandboxResponse:
    url = f"{call.request.root}{_LOG_STORAGE}/{kind}/{number}/{_log_key(kind, number)}"
    return SandboxResponse(302, headers={"Location": url})


def _log_key(kind: str, number: int) -> str:
    """Return a key that makes a log's URL hard to guess; it needs no token, as on GitHub."""
    return hashlib.sha256(f"sandbox log {kind} {number}".encode()).hexdigest()[:32]


@router.route("GET", _LOG_STORAGE + "/{kind}/{number}/{key}", free=True)
def get_stored_log(call: ApiCall) -> SandboxResponse:
    """Return a job's log as text, or a run's logs as an archive."""
    kind, number = call.params["kind"], call.number()
    if call.params["key"] != _log_key(kind, number):
        raise ApiError(403, "Signature not valid")
    job = call.tables.get(CiJob, number) if kind == "job" else None
    if job is not None:
        return SandboxResponse(200, job.log.encode(), content_type="text/plain; charset=utf-8")
    run = call.tables.get(CiRun, number) if kind == "run" else None
    if run is None:
        raise not_found()
    archive = _zip_logs(_jobs_of_attempt(call, run, run.attempt))
    return SandboxResponse(200, archive, content_type="application/zip")


def _zip_logs(jobs: list[CiJob]) -> bytes:
    """Jobs' logs as an archive, one file each."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, job in enumerate(jobs):
            name = "".join(c if c.isalnum() or c in " ._-()" else "_" for c in job.name)
            archive.writestr(f"{number}_{name}.txt", job.log)
    return whole.getvalue()


def _find_run(call: ApiCall) -> CiRun:
    found = call.tables.get(CiRun, call.number("run_id"))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    return found


def _find_job(call: ApiCall) -> CiJob:
    found = call.tables.get(CiJob, call.number("job_id"))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    return found


def _attempt_number(call: ApiCall) -> int:
    attempt = call.number("attempt")
    if not 1 <= attempt <= _find_run(call).attempt:
        raise not_found()
    return attempt


def _jobs_of_attempt(call: ApiCall, run: CiRun, attempt: int | None) -> list[CiJob]:
    found: list[CiJob] = list(call.tables.group(CiJob, "run", run.id).select())
    return [job for job in found if attempt in (None, job.attempt)]

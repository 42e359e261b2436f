"""Statuses and check runs of commits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hostler.sandbox.api.contents import resolve_commit
from hostler.sandbox.ci.entities import CheckOutput, CheckRun, CommitStatus
from hostler.sandbox.git import names, refs
from hostler.sandbox.http.call import ApiCall, requested_page_of
from hostler.sandbox.http.errors import forbidden, invalid, not_found, unprocessable, wrong_type
from hostler.sandbox.http.pagination import parse_timestamp
from hostler.sandbox.http.requests import JsonFields, SandboxResponse, json_response
from hostler.sandbox.http.router import REPO, ApiRouter
from hostler.sandbox.serializers import ci as _shapes  # noqa: F401 - registers the shapes
from hostler.sandbox.serializers.base import serialize
from hostler.sandbox.serializers.repos import repo_url

router = ApiRouter()
CHECK_RUN = REPO + "/check-runs/{check_id}"
STATUS_STATES = ("error", "failure", "pending", "success")
CHECK_STATUSES = ("queued", "in_progress", "completed", "waiting", "requested", "pending")
CONCLUSIONS = (
    "action_required", "cancelled", "failure", "neutral", "success", "skipped", "stale",
    "timed_out",
)  # fmt: skip


@router.route("POST", REPO + "/statuses/{sha}", access="write", creates=True)
async def create_status(call: ApiCall) -> SandboxResponse:
    """Give a commit a state under a context."""
    fields, sha = call.fields("Status"), call.params["sha"]
    state = fields.choice("state", STATUS_STATES)
    if state is None:
        raise invalid("Status", "state", "missing_field")
    if not names.is_sha(sha) or await refs.object_kind(call.git(), sha) != "commit":
        raise unprocessable(f"No commit found for SHA: {sha[:80]}")
    now = call.world.now()
    made = CommitStatus(
        id=call.world.new_id("status"),
        repo_id=call.repo.id,
        sha=sha,
        state=state,
        context=fields.text("context") or "default",
        creator=call.actor,
        created_at=now,
        updated_at=now,
        description=fields.text("description", limit=140),
        target_url=fields.text("target_url"),
    )
    call.world.put(made)
    call.world.publish("status", made, "", call.actor)
    return call.one(made, 201)


@router.route("GET", REPO + "/commits/{ref}/statuses")
async def list_statuses(call: ApiCall) -> SandboxResponse:
    """Return all statuses of a commit, newest first."""
    sha = await resolve_commit(call.git(), call.params["ref"])
    group = call.tables.group(CommitStatus, "commit", call.repo.id, sha)
    return call.page(group.select(descending=True))


@router.route("GET", REPO + "/commits/{ref}/status")
async def get_combined_status(call: ApiCall) -> SandboxResponse:
    """Return the newest status of every context, and the combined state."""
    sha = await resolve_commit(call.git(), call.params["ref"])
    group = call.tables.group(CommitStatus, "commit", call.repo.id, sha)
    newest = {item.context: item for item in group.select()}
    page = requested_page_of(call)
    shown = list(newest.values())[page.offset : page.offset + page.size]
    base = repo_url(call.repo.id, call.frame)
    return json_response(
        {
            "state": _combine_states([item.state for item in newest.values()]),
            "statuses": [serialize(item, call.frame) for item in shown],
            "sha": sha,
            "total_count": len(newest),
            "repository": serialize(call.repo, call.frame),
            "commit_url": f"{base}/commits/{sha}",
            "url": f"{base}/commits/{sha}/status",
        }
    )


def _combine_states(states: list[str]) -> str:
    """failure if any failed, success if all succeeded, else pending."""
    if {"error", "failure"} & set(states):
        return "failure"
    return "success" if states and set(states) == {"success"} else "pending"


@router.route("POST", REPO + "/check-runs", access="write", creates=True)
async def create_check(call: ApiCall) -> SandboxResponse:
    """Start a check of a commit, or report one at once."""
    _check_app(call)
    fields = call.fields("CheckRun")
    name, sha = fields.text("name", required=True), fields.text("head_sha", required=True) or ""
    if not names.is_sha(sha) or await refs.object_kind(call.git(), sha) != "commit":
        raise unprocessable(f"No commit found for SHA: {sha[:80]}")
    now = call.world.now()
    blank = CheckRun(
        id=call.world.new_id("check_run"),
        repo_id=call.repo.id,
        head_sha=sha,
        name=name or "",
        started_at=now,
        creator=call.actor,
        app_id=call.viewer.app_id,
    )
    made = call.world.put(_with_fields(blank, fields, now))
    call.world.publish("check_run", made, "created", call.actor)
    return call.one(made, 201)


@router.route("PATCH", CHECK_RUN, access="write")
def update_check(call: ApiCall) -> SandboxResponse:
    """Report how a check goes."""
    _check_app(call)
    check, fields = _find_check(call), call.fields("CheckRun")
    if check.app_id != call.viewer.app_id:
        raise forbidden("Check run can only be modified by the GitHub App that created it.")
    after = call.world.put(_with_fields(check, fields, call.world.now()))
    if after.status == "completed":
        call.world.publish("check_run", after, "completed", call.actor)
    return call.one(after)


def _check_app(call: ApiCall) -> None:
    if call.viewer.installation_id is None:
        raise forbidden("You must authenticate via a GitHub App.")


def _with_fields(check: CheckRun, fields: JsonFields, now: int) -> CheckRun:
    conclusion = fields.choice("conclusion", CONCLUSIONS)
    status = "completed" if conclusion else fields.choice("status", CHECK_STATUSES) or check.status
    if status == "completed" and not (conclusion or check.conclusion):
        raise invalid("CheckRun", "conclusion", "missing_field")
    done = status == "completed"
    ended = (
        parse_timestamp(fields.text("completed_at"), "completed_at") or check.completed_at or now
    )
    return replace(
        check,
        name=fields.text("name") or check.name,
        status=status,
        conclusion=(conclusion or check.conclusion) if done else None,
        started_at=parse_timestamp(fields.text("started_at"), "started_at") or check.started_at,
        completed_at=ended if done else None,
        external_id=fields.text("external_id") or check.external_id,
        details_url=fields.text("details_url") or check.details_url,
        output=_read_output(check, fields),
    )


def _read_output(check: CheckRun, fields: JsonFields) -> CheckOutput:
    value = fields.values.get("output")
    if value is None:
        return check.output
    if not isinstance(value, dict):
        raise wrong_type("output", value, "an object")
    inner = JsonFields("CheckRun", value)
    notes = value.get("annotations") or []
    if not isinstance(notes, list) or len(notes) > 50:
        raise invalid("CheckRun", "annotations", "invalid")
    return CheckOutput(
        title=inner.text("title"),
        summary=inner.body("summary"),
        text=inner.body("text"),
        annotations=check.output.annotations + len(notes),
    )


@router.route("GET", CHECK_RUN)
def get_check(call: ApiCall) -> SandboxResponse:
    """Return one check."""
    return call.one(_find_check(call))


@dataclass(frozen=True)
class CheckFilter:
    """Which checks of a commit are asked for."""

    name: str
    status: str

    def __call__(self, check: CheckRun) -> bool:
        named = not self.name or check.name == self.name
        return named and (not self.status or check.status == self.status)


@router.route("GET", REPO + "/commits/{ref}/check-runs")
async def list_checks(call: ApiCall) -> SandboxResponse:
    """Return a commit's checks; of several with one name the newest, unless `filter=all`."""
    sha = await resolve_commit(call.git(), call.params["ref"])
    query = call.request.query
    wanted = CheckFilter(query.get("check_name", ""), query.get("status", ""))
    group = call.tables.group(CheckRun, "commit", call.repo.id, sha)
    found: list[CheckRun] = list(group.select(where=wanted))
    if query.get("filter") != "all":
        found = list({check.name: check for check in found}.values())
    return call.wrapped(found[::-1], "check_runs")


def _find_check(call: ApiCall) -> CheckRun:
    found = call.tables.get(CheckRun, call.number("check_id"))
    if found is None or found.repo_id != call.repo.id:
        raise not_found()
    return found

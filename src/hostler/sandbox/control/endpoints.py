"""The test controls below /_sandbox."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hostler.errors import HostlerError
from hostler.sandbox.api.apps import covered_repos, create_token
from hostler.sandbox.auth import AppRegistration, Installation
from hostler.sandbox.ci import runs
from hostler.sandbox.ci.entities import CiRun, CiScript
from hostler.sandbox.ci.runs import JobPlan, RunCause
from hostler.sandbox.git import commits, refs
from hostler.sandbox.git.errors import NoSuchObject
from hostler.sandbox.http.errors import ApiError
from hostler.sandbox.http.pagination import parse_timestamp
from hostler.sandbox.http.requests import SandboxRequest, SandboxResponse, json_response
from hostler.sandbox.issues import delete_issue, transfer_issue
from hostler.sandbox.state.clock import iso
from hostler.sandbox.state.entities import Issue, Repo
from hostler.sandbox.state.seed import plant_seed
from hostler.sandbox.state.state_file import dump_state, load_state
from hostler.sandbox.state.world import InvalidInput

if TYPE_CHECKING:
    from hostler.sandbox.app import SandboxApp


ControlAction = Callable[[SandboxRequest, str], Any]


class ControlEndpoints:
    """Answers control requests, without authentication."""

    def __init__(self, app: SandboxApp) -> None:
        self._app = app
        self._actions: dict[tuple[str, str], ControlAction] = {
            ("GET", "faults"): self._faults,
            ("POST", "faults"): self._add_fault,
            ("DELETE", "faults"): self._drop_fault,
            ("GET", "clock"): self._clock,
            ("POST", "clock"): self._move_clock,
            ("GET", "ledger"): self._ledger,
            ("DELETE", "ledger"): self._clear_ledger,
            ("GET", "settings"): self._settings,
            ("POST", "settings"): self._change_settings,
            ("PATCH", "settings"): self._change_settings,
            ("POST", "limits/reset"): self._reset_limits,
        }

    def add(self, method: str, area: str, action: ControlAction) -> None:
        """Serve one more control."""
        self._actions[(method, area)] = action

    async def answer(self, request: SandboxRequest) -> SandboxResponse:
        """Return the response; invalid input is answered 400 with the name of the field."""
        path = request.path.removeprefix("/_sandbox").strip("/")
        area, _, rest = path.partition("/")
        exact = self._actions.get((request.method, path))
        action = exact or self._actions.get((request.method, area))
        if action is None:
            return json_response({"message": f"No control {request.method} /{path}"}, 404)
        try:
            result = action(request, "" if exact else rest)
            return json_response(await result if inspect.isawaitable(result) else result)
        except InvalidInput as error:
            return json_response({"message": str(error), "field": error.field}, 400)
        except HostlerError as error:
            return json_response({"message": error.what}, 400)
        except ApiError as error:
            return json_response(error.payload(), 400 if error.status == 422 else error.status)

    def _faults(self, _request: SandboxRequest, _rest: str) -> Any:
        return self._app.pipeline.faults.listed()

    def _add_fault(self, request: SandboxRequest, _rest: str) -> Any:
        return self._app.pipeline.faults.add(request.json()).as_dict()

    def _drop_fault(self, _request: SandboxRequest, rest: str) -> Any:
        if rest and not (rest.isascii() and rest.isdigit() and len(rest) < 19):
            raise InvalidInput("id", "must be the number of a fault")
        if not self._app.pipeline.faults.remove(int(rest) if rest else None):
            raise ApiError(404, f"No fault {rest}")
        return self._app.pipeline.faults.listed()

    def _clock(self, _request: SandboxRequest, _rest: str) -> Any:
        clock = self._app.world.clock
        return {"now": clock.now(), "iso": iso(int(clock.now())), "frozen": clock.frozen}

    def _move_clock(self, request: SandboxRequest, rest: str) -> Any:
        move_clock(self._app, request.json())
        return self._clock(request, rest)

    def _ledger(self, request: SandboxRequest, _rest: str) -> Any:
        return self._app.pipeline.ledger.answer(request.query)

    def _clear_ledger(self, _request: SandboxRequest, _rest: str) -> Any:
        self._app.pipeline.ledger.clear()
        return {}

    def _settings(self, _request: SandboxRequest, _rest: str) -> Any:
        return self._app.world.settings.as_dict()

    def _change_settings(self, request: SandboxRequest, rest: str) -> Any:
        self._app.world.settings.change(request.json())
        return self._settings(request, rest)

    def _reset_limits(self, _request: SandboxRequest, _rest: str) -> Any:
        self._app.pipeline.limits.clear()
        return {}


def move_clock(app: SandboxApp, values: dict[str, Any]) -> None:
    """Apply {"real": true}, {"frozen": …}, {"set": …}, {"advance": …}, in this order."""
    clock = app.world.clock
    for name in values:
        if name not in ("advance", "set", "frozen", "real"):
            raise InvalidInput(name, "unknown; a clock has advance, set, frozen and real")
    for name in ("frozen", "real"):
        if not isinstance(values.get(name, False), bool):
            raise InvalidInput(name, "must be true or false")
    moment, step = _parse_clock_time(values.get("set")), _parse_advance(values.get("advance", 0))
    if values.get("real"):
        clock.real()
    if "frozen" in values:
        (clock.freeze if values["frozen"] else clock.thaw)()
    if moment is not None:
        clock.set(moment)
    clock.advance(step)
    app.world.settle()


def _parse_clock_time(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return parse_timestamp(value, "set")
        except ApiError:
            raise InvalidInput("set", "must be seconds or an ISO 8601 time") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        raise InvalidInput("set", "must be seconds or an ISO 8601 time")
    return float(value)


def _parse_advance(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise InvalidInput("advance", "must be a number of seconds from 0 up")
    return float(value)


class WorldControls:
    """Controls that change the world."""

    def __init__(self, app: SandboxApp) -> None:
        self._app = app
        self._world = app.world
        self._planting = asyncio.Lock()
        app.control.add("GET", "state", self._state)
        app.control.add("PUT", "state", self._load)
        app.control.add("POST", "seed", self._seed)
        app.control.add("POST", "issues/delete", self._delete)
        app.control.add("POST", "issues/transfer", self._transfer)
        app.control.add("POST", "webhooks/wait", self._wait)
        app.control.add("POST", "apps/token", self._token)

    def _state(self, _request: SandboxRequest, _rest: str) -> Any:
        return dump_state(self._world)

    def _load(self, request: SandboxRequest, _rest: str) -> Any:
        load_state(self._world, request.json())
        self._app.pipeline.renderer.forget()
        return {}

    async def _seed(self, request: SandboxRequest, _rest: str) -> Any:
        # One at a time: what was checked must still be so when it grows.
        async with self._planting:
            await plant_seed(self._world, request.json())
        return {}

    def _delete(self, request: SandboxRequest, _rest: str) -> Any:
        delete_issue(self._world, self._issue(request.json()))
        return {}

    def _transfer(self, request: SandboxRequest, _rest: str) -> Any:
        values = request.json()
        made = transfer_issue(self._world, self._issue(values), self._repo(values, "to"))
        return {"number": made.number, "id": made.id}

    async def _wait(self, _request: SandboxRequest, _rest: str) -> Any:
        await self._app.webhook_sender.idle()
        return {}

    def _token(self, request: SandboxRequest, _rest: str) -> Any:
        """{app, account}: what an App gets for its JWT, without one."""
        values = request.json()
        app = self._world.truth.find(AppRegistration, str(values.get("app")))
        if app is None:
            raise InvalidInput("app", "no such App; write its slug")
        account = str(values.get("account", app.owner)).lower()
        for place in self._world.truth.group(Installation, "app", app.id).select():
            if place.account.lower() == account:
                token = create_token(self._world, place, covered_repos(self._world, place))
                return {"token": token.secret, "expires_at": iso(token.expires_at or 0)}
        raise InvalidInput("account", "the App is not installed there")

    def _repo(self, values: dict[str, Any], field: str) -> Repo:
        repo = self._world.repo(str(values.get(field)))
        if repo is None:
            raise InvalidInput(field, "no such repository; write owner/name")
        return repo

    def _issue(self, values: dict[str, Any]) -> Issue:
        number = values.get("number")
        issue = None
        if type(number) is int:
            issue = self._world.truth.find(Issue, self._repo(values, "repo").id, number)
        if issue is None:
            raise InvalidInput("number", "no such issue")
        if issue.pull is not None:
            raise InvalidInput(
                "number", "is a pull request; GitHub deletes and transfers issues only"
            )
        return issue


JOB_CONCLUSIONS = (
    "success",
    "failure",
    "cancelled",
    "timed_out",
    "skipped",
    "neutral",
    "action_required",
)


class CiControls:
    """Controls that play CI."""

    def __init__(self, app: SandboxApp) -> None:
        self._world = app.world
        app.control.add("POST", "actions/runs", self._begin)
        app.control.add("POST", "actions/finish", self._finish)
        app.control.add("PUT", "actions/script", self._set_script)
        app.control.add("DELETE", "actions/script", self._drop_script)

    async def _begin(self, request: SandboxRequest, _rest: str) -> Any:
        """{repo, sha or branch, workflow, event, actor, jobs: [{name, conclusion, log, steps}]}."""
        values = request.json()
        repo = self._repo(values)
        plans = _job_plans(values) or [JobPlan("build")]
        run = runs.start_run(self._world, repo, await self._cause(repo, values), plans)
        jobs = {job.name: job.id for job in runs.jobs_of(self._world, run)}
        return {"id": run.id, "run_number": run.run_number, "jobs": jobs}

    async def _cause(self, repo: Repo, values: dict[str, Any]) -> RunCause:
        branch = _text_value(values, "branch", "") or None
        asked = _text_value(values, "sha", branch or repo.default_branch)
        if self._world.repo_store is None:
            raise InvalidInput("repo", "this sandbox has no git")
        git = self._world.repo_store.get(repo.id)
        try:
            commit = await commits.get_commit(git, await refs.resolve(git, asked))
        except NoSuchObject:
            raise InvalidInput("sha", f"no commit called {asked!r}") from None
        return RunCause(
            sha=commit.sha,
            branch=branch or (repo.default_branch if "sha" not in values else None),
            actor=_text_value(values, "actor", repo.owner),
            title=commit.title,
            event=_text_value(values, "event", "push"),
            workflow=_text_value(values, "workflow", "CI"),
        )

    def _finish(self, request: SandboxRequest, _rest: str) -> Any:
        """{repo, run_id, conclusion, jobs: [{name, conclusion, log}]}."""
        values = request.json()
        repo = self._repo(values)
        number = values.get("run_id")
        run = self._world.truth.get(CiRun, number) if type(number) is int else None
        if run is None or run.repo_id != repo.id:
            raise InvalidInput("run_id", "no such run in this repository")
        if run.status == "completed":
            raise InvalidInput("run_id", "the run is completed; rerun it first")
        default = _conclusion_value(values, "conclusion") or "success"
        after = runs.finish_run(self._world, run, _job_plans(values), default)
        return {"status": after.status, "conclusion": after.conclusion}

    def _set_script(self, request: SandboxRequest, _rest: str) -> Any:
        """{repo, workflow, jobs}: from now on each push to a branch is followed by such a run."""
        values = request.json()
        jobs = tuple((plan.name, plan.conclusion or "", plan.log) for plan in _job_plans(values))
        workflow = _text_value(values, "workflow", "CI")
        self._world.put(
            CiScript(self._repo(values).id, workflow, jobs or (("build", "success", ""),))
        )
        return {}

    def _drop_script(self, request: SandboxRequest, _rest: str) -> Any:
        script = self._world.truth.get(CiScript, self._repo(request.json()).id)
        if script is not None:
            self._world.remove(script)
        return {}

    def _repo(self, values: dict[str, Any]) -> Repo:
        repo = self._world.repo(str(values.get("repo")))
        if repo is None:
            raise InvalidInput("repo", "no such repository; write owner/name")
        return repo


def _text_value(values: dict[str, Any], name: str, default: str) -> str:
    value = values.get(name, default)
    if not isinstance(value, str):
        raise InvalidInput(name, "must be text")
    return value


def _conclusion_value(values: dict[str, Any], name: str) -> str | None:
    value = values.get(name)
    if value is not None and value not in JOB_CONCLUSIONS:
        raise InvalidInput(name, f"must be null or one of {', '.join(JOB_CONCLUSIONS)}")
    return value


def _job_plans(values: dict[str, Any]) -> list[JobPlan]:
    given = values.get("jobs") or []
    if not isinstance(given, list):
        raise InvalidInput("jobs", "must be a list")
    return [_job_plan(item) for item in given]


def _job_plan(item: Any) -> JobPlan:
    if not isinstance(item, dict):
        raise InvalidInput("jobs", "must hold objects")
    name, steps = _text_value(item, "name", ""), item.get("steps") or []
    if not name:
        raise InvalidInput("jobs.name", "is missing")
    if not isinstance(steps, list) or not all(isinstance(step, str) for step in steps):
        raise InvalidInput("jobs.steps", "must be a list of names")
    end = _conclusion_value(item, "conclusion") if "conclusion" in item else "success"
    return JobPlan(name, end, _text_value(item, "log", ""), tuple(steps))

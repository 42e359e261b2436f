"""Test controls that play CI: begin and end workflow runs, set a repository's CI script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hostler.sandbox import ci_running
from hostler.sandbox.ci_entities import CiScript, Run
from hostler.sandbox.ci_running import Cause, Plan
from hostler.sandbox.entities import Repo
from hostler.sandbox.git import commits, refs
from hostler.sandbox.git.errors import NoSuchObject
from hostler.sandbox.http import Request
from hostler.sandbox.settings import BadInput

if TYPE_CHECKING:
    from hostler.sandbox.app import SandboxApp

ENDS = ("success", "failure", "cancelled", "timed_out", "skipped", "neutral", "action_required")


class ActionControls:
    """CI by hand."""

    def __init__(self, app: SandboxApp) -> None:
        self._world = app.world
        app.control.add("POST", "actions/runs", self._begin)
        app.control.add("POST", "actions/finish", self._finish)
        app.control.add("PUT", "actions/script", self._set_script)
        app.control.add("DELETE", "actions/script", self._drop_script)

    async def _begin(self, request: Request, _rest: str) -> Any:
        """{repo, sha or branch, workflow, event, actor, jobs: [{name, conclusion, log, steps}]}."""
        values = request.json()
        repo = self._repo(values)
        plans = _plans(values) or [Plan("build")]
        run = ci_running.begin(self._world, repo, await self._cause(repo, values), plans)
        jobs = {job.name: job.id for job in ci_running.jobs_of(self._world, run)}
        return {"id": run.id, "run_number": run.run_number, "jobs": jobs}

    async def _cause(self, repo: Repo, values: dict[str, Any]) -> Cause:
        branch = _text(values, "branch", "") or None
        asked = _text(values, "sha", branch or repo.default_branch)
        if self._world.vault is None:
            raise BadInput("repo", "this sandbox has no git")
        git = self._world.vault.get(repo.id)
        try:
            commit = await commits.get(git, await refs.resolve(git, asked))
        except NoSuchObject:
            raise BadInput("sha", f"no commit called {asked!r}") from None
        return Cause(
            sha=commit.sha,
            branch=branch or (repo.default_branch if "sha" not in values else None),
            actor=_text(values, "actor", repo.owner),
            title=commit.title,
            event=_text(values, "event", "push"),
            workflow=_text(values, "workflow", "CI"),
        )

    def _finish(self, request: Request, _rest: str) -> Any:
        """{repo, run_id, conclusion, jobs: [{name, conclusion, log}]}."""
        values = request.json()
        repo = self._repo(values)
        number = values.get("run_id")
        run = self._world.truth.get(Run, number) if type(number) is int else None
        if run is None or run.repo_id != repo.id:
            raise BadInput("run_id", "no such run in this repository")
        if run.status == "completed":
            raise BadInput("run_id", "the run is completed; rerun it first")
        default = _end(values, "conclusion") or "success"
        after = ci_running.finish(self._world, run, _plans(values), default)
        return {"status": after.status, "conclusion": after.conclusion}

    def _set_script(self, request: Request, _rest: str) -> Any:
        """{repo, workflow, jobs}: from now on each push to a branch is followed by such a run."""
        values = request.json()
        jobs = tuple((plan.name, plan.conclusion or "", plan.log) for plan in _plans(values))
        workflow = _text(values, "workflow", "CI")
        self._world.put(
            CiScript(self._repo(values).id, workflow, jobs or (("build", "success", ""),))
        )
        return {}

    def _drop_script(self, request: Request, _rest: str) -> Any:
        script = self._world.truth.get(CiScript, self._repo(request.json()).id)
        if script is not None:
            self._world.remove(script)
        return {}

    def _repo(self, values: dict[str, Any]) -> Repo:
        repo = self._world.repo(str(values.get("repo")))
        if repo is None:
            raise BadInput("repo", "no such repository; write owner/name")
        return repo


def _text(values: dict[str, Any], name: str, default: str) -> str:
    value = values.get(name, default)
    if not isinstance(value, str):
        raise BadInput(name, "must be text")
    return value


def _end(values: dict[str, Any], name: str) -> str | None:
    value = values.get(name)
    if value is not None and value not in ENDS:
        raise BadInput(name, f"must be null or one of {', '.join(ENDS)}")
    return value


def _plans(values: dict[str, Any]) -> list[Plan]:
    given = values.get("jobs") or []
    if not isinstance(given, list):
        raise BadInput("jobs", "must be a list")
    return [_plan(item) for item in given]


def _plan(item: Any) -> Plan:
    if not isinstance(item, dict):
        raise BadInput("jobs", "must hold objects")
    name, steps = _text(item, "name", ""), item.get("steps") or []
    if not name:
        raise BadInput("jobs.name", "is missing")
    if not isinstance(steps, list) or not all(isinstance(step, str) for step in steps):
        raise BadInput("jobs.steps", "must be a list of names")
    end = _end(item, "conclusion") if "conclusion" in item else "success"
    return Plan(name, end, _text(item, "log", ""), tuple(steps))

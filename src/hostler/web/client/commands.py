"""Task, pause, queue, bus and pool commands, carried out by the service over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import quote

from hostler.governor.gates import UNTIL_RESUMED, ParkedPool
from hostler.model import format_timestamp, parse_timestamp
from hostler.service.running.bus_messages import BusMessageDraft
from hostler.service.tasks.control import PauseResult
from hostler.service.tasks.submission import SubmissionReceipt, TaskRequest
from hostler.store.operator import ALL, Pause, project_of
from hostler.store.tasks import TaskState
from hostler.web.client.connection import NotExecuted, ServiceConnection

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RemoteTaskChange:
    """A task after a command."""

    id: str
    project: str
    state: TaskState
    reason: str


@dataclass(frozen=True, slots=True)
class RemoteTasks:
    """Task commands. Tasks are named by id, unique prefix of an id, or issue."""

    connection: ServiceConnection

    def stop(self, names: Iterable[str], why: str = "") -> Sequence[RemoteTaskChange]:
        """Stop tasks and their children."""
        return self._change("stop", names, why)

    def cancel(self, names: Iterable[str], why: str = "") -> Sequence[RemoteTaskChange]:
        """Stop tasks permanently."""
        return self._change("cancel", names, why)

    def resume(self, names: Iterable[str], why: str = "") -> Sequence[RemoteTaskChange]:
        """Resume tasks where they were."""
        return self._change("resume", names, why)

    def retry(self, names: Iterable[str], why: str = "") -> Sequence[RemoteTaskChange]:
        """Retry tasks from scratch."""
        return self._change("retry", names, why)

    def answer(self, name: str, text: str) -> RemoteTaskChange:
        """Answer the question of a manual task."""
        hint = f"Check with `hostler task show {name}` whether the question is still open."
        body = {"task": name, "text": text}
        return self.connection.request(
            "POST", "/tasks/answer", body, _parse_changes, check_hint=hint
        )[0]

    def _change(self, verb: str, names: Iterable[str], why: str) -> list[RemoteTaskChange]:
        body = {"tasks": [*names], "why": why}
        hint = "Check the tasks with `hostler task list --all`."
        return self.connection.request(
            "POST", f"/tasks/{verb}", body, _parse_changes, check_hint=hint
        )


@dataclass(frozen=True, slots=True)
class RemotePauses:
    """Pause commands."""

    connection: ServiceConnection

    def pause(self, scope: str, why: str = "") -> PauseResult:
        """Pause a scope: start no new task. Running agents continue."""
        return self._request(f"{_pause_path(scope)}/pause", {"why": why}, _parse_pause)

    def unpause(self, scope: str) -> tuple[bool, list[str]]:
        """Unpause a scope. Return whether it was paused, and the remaining pauses."""
        return self._request(f"{_pause_path(scope)}/resume", {}, _parse_unpause)

    def _request(self, path: str, body: object, parse: Callable[[Any], T]) -> T:
        hint = "Check with `hostler status` what is paused."
        return self.connection.request("POST", path, body, parse, check_hint=hint)


@dataclass(frozen=True, slots=True)
class RemoteQueue:
    """Submits manual tasks."""

    connection: ServiceConnection

    def submit(self, request: TaskRequest, depends_on: Sequence[str]) -> SubmissionReceipt:
        """Queue a task. Either everything is stored or nothing."""
        folder = request.cwd or ("" if request.repo else request.here)
        if not folder and not request.repo:
            raise NotExecuted  # the current folder was deleted: the local code reports it better
        body = {
            "prompt": request.prompt,
            "repo": request.repo,
            "cwd": folder,
            "title": request.title,
            "project": request.project,
            "agent": request.agent,
            "depends_on": [*depends_on],
            "env": [*request.env],
            "wall_limit_minutes": request.wall_limit_minutes,
            "max_restarts": request.max_restarts,
        }
        hint = "Check with `hostler task list` whether the task exists before you submit it again."
        return self.connection.request("POST", "/tasks", body, _parse_submission, check_hint=hint)


@dataclass(frozen=True, slots=True)
class RemoteBuses:
    """Posts bus messages."""

    connection: ServiceConnection

    def post(self, draft: BusMessageDraft) -> Mapping[str, Any]:
        """Post a message and return it as stored."""
        body = {
            "project": draft.project,
            "task": draft.task,
            "create": draft.create,
            "text": draft.text,
            "type": draft.type.value,
            "thread": draft.thread,
        }
        hint = "Check with `hostler bus read` whether it was posted."
        return self.connection.request("POST", "/bus", body, dict[str, Any], check_hint=hint)


@dataclass(frozen=True, slots=True)
class RemotePools:
    """Pool commands."""

    connection: ServiceConnection

    def set(self, pool: str, caps: Mapping[str, Any]) -> None:
        """Replace the settings of a pool."""
        self._request("PUT", _pool_path(pool), dict(caps), lambda _: None)

    def reset(self, pool: str) -> bool:
        """Reset the adaptive state of a pool. Return False if there was none."""
        return bool(
            self._request("POST", f"{_pool_path(pool)}/reset", None, lambda it: it["was_reset"])
        )

    def park(self, pool: str, end: datetime | timedelta | None, why: str) -> ParkedPool | None:
        """Park a pool for a time, until a time, or until it is resumed."""
        body: dict[str, Any] = {"why": why}
        if isinstance(end, timedelta):
            body["minutes"] = end / timedelta(minutes=1)
        elif end is not None:
            body["until"] = format_timestamp(end)
        return self._request("POST", f"{_pool_path(pool)}/park", body, _parse_parked)

    def resume(self, pool: str) -> bool:
        """Resume a parked pool. Return False if it was not parked."""
        return bool(
            self._request("POST", f"{_pool_path(pool)}/resume", None, lambda it: it["was_parked"])
        )

    def _request(self, method: str, path: str, body: object, parse: Callable[[Any], T]) -> T:
        hint = "Check the pool with `hostler governor`."
        return self.connection.request(method, path, body, parse, check_hint=hint)


def _pause_path(scope: str) -> str:
    return "" if scope == ALL else f"/repositories/{quote(project_of(scope), safe='')}"


def _pool_path(pool: str) -> str:
    return f"/pools/{quote(pool, safe='')}"


def _parse_changes(found: Any) -> list[RemoteTaskChange]:
    return [
        RemoteTaskChange(**{**one, "state": TaskState(one["state"])}) for one in found["changed"]
    ]


def _parse_pause(found: Any) -> PauseResult:
    pause = Pause(found["scope"], found["since"], found["by"], found["why"])
    return PauseResult(pause, bool(found["changed"]))


def _parse_unpause(found: Any) -> tuple[bool, list[str]]:
    return bool(found["changed"]), [str(one) for one in found["still_paused"]]


def _parse_submission(found: Any) -> SubmissionReceipt:
    lists = {name: tuple(found[name]) for name in ("depends_on", "blockers")}
    return SubmissionReceipt(**{**found, **lists})


def _parse_parked(found: Any) -> ParkedPool | None:
    parked = found["parked"]
    if parked is None:
        return None
    until = parse_timestamp(parked["until"]) if parked["until"] else UNTIL_RESUMED
    return ParkedPool(until, None, parked["why"])

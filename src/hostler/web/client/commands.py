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
    """Tasks, named as people name them."""

    line: ServiceConnection

    def stop(self, names: Iterable[str], why: str = "") -> Sequence[RemoteTaskChange]:
        """Stop tasks and what came from them."""
        return self._several("stop", names, why)

    def cancel(self, names: Iterable[str], why: str = "") -> Sequence[RemoteTaskChange]:
        """The same for good."""
        return self._several("cancel", names, why)

    def resume(self, names: Iterable[str], why: str = "") -> Sequence[RemoteTaskChange]:
        """Let tasks go on where they were."""
        return self._several("resume", names, why)

    def retry(self, names: Iterable[str], why: str = "") -> Sequence[RemoteTaskChange]:
        """Begin tasks anew."""
        return self._several("retry", names, why)

    def answer(self, name: str, text: str) -> RemoteTaskChange:
        """Answer the question of a task by hand."""
        look = f"`hostler task show {name}` says whether it still asks."
        asked = {"task": name, "text": text}
        return self.line.ask("POST", "/tasks/answer", asked, _parse_changes, look=look)[0]

    def _several(self, verb: str, names: Iterable[str], why: str) -> list[RemoteTaskChange]:
        asked = {"tasks": [*names], "why": why}
        look = "`hostler task list --all` says how tasks stand."
        return self.line.ask("POST", f"/tasks/{verb}", asked, _parse_changes, look=look)


@dataclass(frozen=True, slots=True)
class RemotePauses:
    """What is held back."""

    line: ServiceConnection

    def pause(self, scope: str, why: str = "") -> PauseResult:
        """Start nothing new in a scope; agents at work go on."""
        return self._ask(f"{_pause_path(scope)}/pause", {"why": why}, _parse_pause)

    def unpause(self, scope: str) -> tuple[bool, list[str]]:
        """Let a scope go on: whether it was paused, and which pauses are left."""
        return self._ask(f"{_pause_path(scope)}/resume", {}, _parse_unpause)

    def _ask(self, path: str, asked: object, read: Callable[[Any], T]) -> T:
        look = "`hostler status` says what is paused."
        return self.line.ask("POST", path, asked, read, look=look)


@dataclass(frozen=True, slots=True)
class RemoteQueue:
    """Where tasks by hand are given."""

    line: ServiceConnection

    def submit(self, wish: TaskRequest, depends_on: Sequence[str]) -> SubmissionReceipt:
        """Queue what is asked for, whole or not at all."""
        folder = wish.cwd or ("" if wish.repo else wish.here)
        if not folder and not wish.repo:
            raise NotExecuted  # the folder we are in is gone: said best where that is known
        asked = {
            "prompt": wish.prompt,
            "repo": wish.repo,
            "cwd": folder,
            "title": wish.title,
            "project": wish.project,
            "agent": wish.agent,
            "depends_on": [*depends_on],
            "env": [*wish.env],
            "wall_limit_minutes": wish.wall_limit_minutes,
            "max_restarts": wish.max_restarts,
        }
        look = "`hostler task list` says whether it is there: look before you submit it again."
        return self.line.ask("POST", "/tasks", asked, _parse_submission, look=look)


@dataclass(frozen=True, slots=True)
class RemoteBuses:
    """Where people say something."""

    line: ServiceConnection

    def post(self, letter: BusMessageDraft) -> Mapping[str, Any]:
        """Append a message, as it is stored."""
        asked = {
            "project": letter.project,
            "task": letter.task,
            "create": letter.create,
            "text": letter.text,
            "type": letter.type.value,
            "thread": letter.thread,
        }
        look = "`hostler bus read` says whether it was posted."
        return self.line.ask("POST", "/bus", asked, dict[str, Any], look=look)


@dataclass(frozen=True, slots=True)
class RemotePools:
    """An operator's word on a pool."""

    line: ServiceConnection

    def set(self, pool: str, caps: Mapping[str, Any]) -> None:
        """Set a pool anew."""
        self._ask("PUT", _pool_path(pool), dict(caps), lambda _: None)

    def reset(self, pool: str) -> bool:
        """Forget what was learned of it; whether there was anything."""
        return bool(
            self._ask("POST", f"{_pool_path(pool)}/reset", None, lambda it: it["was_known"])
        )

    def park(self, pool: str, term: datetime | timedelta | None, why: str) -> ParkedPool | None:
        """Close it for a while, until a moment, or until it is resumed."""
        asked: dict[str, Any] = {"why": why}
        if isinstance(term, timedelta):
            asked["minutes"] = term / timedelta(minutes=1)
        elif term is not None:
            asked["until"] = format_timestamp(term)
        return self._ask("POST", f"{_pool_path(pool)}/park", asked, _parse_parked)

    def resume(self, pool: str) -> bool:
        """Open it; whether it was closed."""
        return bool(
            self._ask("POST", f"{_pool_path(pool)}/resume", None, lambda it: it["was_parked"])
        )

    def _ask(self, method: str, path: str, asked: object, read: Callable[[Any], T]) -> T:
        return self.line.ask(method, path, asked, read, look="`hostler governor` says how it is.")


def _pause_path(scope: str) -> str:
    return "" if scope == ALL else f"/repositories/{quote(project_of(scope), safe='')}"


def _pool_path(pool: str) -> str:
    return f"/pools/{quote(pool, safe='')}"


def _parse_changes(found: Any) -> list[RemoteTaskChange]:
    return [
        RemoteTaskChange(**{**one, "state": TaskState(one["state"])}) for one in found["changed"]
    ]


def _parse_pause(found: Any) -> PauseResult:
    held = Pause(found["scope"], found["since"], found["by"], found["why"])
    return PauseResult(held, bool(found["changed"]))


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

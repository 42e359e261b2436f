"""What people do with a home, over a line to its service."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import quote

from hostler.governor.gates import UNTIL_RESUMED, Closed
from hostler.model import parse_stamp, stamp
from hostler.service.directing import Paused
from hostler.service.ordering import Wish
from hostler.service.posting import Letter
from hostler.service.submission import Received
from hostler.store.operator import ALL, Pause, project_of
from hostler.store.tasks import TaskState
from hostler.web.client.line import Line, NotTaken

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Moved:
    """A task after a command."""

    id: str
    project: str
    state: TaskState
    reason: str


@dataclass(frozen=True, slots=True)
class RemoteTasks:
    """Tasks, named as people name them."""

    line: Line

    def stop(self, names: Iterable[str], why: str = "") -> Sequence[Moved]:
        """Stop tasks and what came from them."""
        return self._several("stop", names, why)

    def cancel(self, names: Iterable[str], why: str = "") -> Sequence[Moved]:
        """The same for good."""
        return self._several("cancel", names, why)

    def resume(self, names: Iterable[str], why: str = "") -> Sequence[Moved]:
        """Let tasks go on where they were."""
        return self._several("resume", names, why)

    def retry(self, names: Iterable[str], why: str = "") -> Sequence[Moved]:
        """Begin tasks anew."""
        return self._several("retry", names, why)

    def answer(self, name: str, text: str) -> Moved:
        """Answer the question of a task by hand."""
        look = f"`hostler task show {name}` says whether it still asks."
        asked = {"task": name, "text": text}
        return self.line.ask("POST", "/tasks/answer", asked, _moved, look=look)[0]

    def _several(self, verb: str, names: Iterable[str], why: str) -> list[Moved]:
        asked = {"tasks": [*names], "why": why}
        look = "`hostler task list --all` says how tasks stand."
        return self.line.ask("POST", f"/tasks/{verb}", asked, _moved, look=look)


@dataclass(frozen=True, slots=True)
class RemoteHolds:
    """What is held back."""

    line: Line

    def pause(self, scope: str, why: str = "") -> Paused:
        """Start nothing new in a scope; agents at work go on."""
        return self._ask(f"{_held(scope)}/pause", {"why": why}, _paused)

    def unpause(self, scope: str) -> tuple[bool, list[str]]:
        """Let a scope go on: whether it was paused, and which pauses are left."""
        return self._ask(f"{_held(scope)}/resume", {}, _unpaused)

    def _ask(self, path: str, asked: object, read: Callable[[Any], T]) -> T:
        look = "`hostler status` says what is paused."
        return self.line.ask("POST", path, asked, read, look=look)


@dataclass(frozen=True, slots=True)
class RemoteQueue:
    """Where tasks by hand are given."""

    line: Line

    def submit(self, wish: Wish, depends_on: Sequence[str]) -> Received:
        """Queue what is asked for, whole or not at all."""
        folder = wish.cwd or ("" if wish.repo else wish.here)
        if not folder and not wish.repo:
            raise NotTaken  # the folder we are in is gone: said best where that is known
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
        return self.line.ask("POST", "/tasks", asked, _received, look=look)


@dataclass(frozen=True, slots=True)
class RemoteBuses:
    """Where people say something."""

    line: Line

    def post(self, letter: Letter) -> Mapping[str, Any]:
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

    line: Line

    def set(self, pool: str, caps: Mapping[str, Any]) -> None:
        """Set a pool anew."""
        self._ask("PUT", _pool(pool), dict(caps), lambda _: None)

    def reset(self, pool: str) -> bool:
        """Forget what was learned of it; whether there was anything."""
        return bool(self._ask("POST", f"{_pool(pool)}/reset", None, lambda it: it["was_known"]))

    def park(self, pool: str, term: datetime | timedelta | None, why: str) -> Closed | None:
        """Close it for a while, until a moment, or until it is resumed."""
        asked: dict[str, Any] = {"why": why}
        if isinstance(term, timedelta):
            asked["minutes"] = term / timedelta(minutes=1)
        elif term is not None:
            asked["until"] = stamp(term)
        return self._ask("POST", f"{_pool(pool)}/park", asked, _closed)

    def resume(self, pool: str) -> bool:
        """Open it; whether it was closed."""
        return bool(self._ask("POST", f"{_pool(pool)}/resume", None, lambda it: it["was_parked"]))

    def _ask(self, method: str, path: str, asked: object, read: Callable[[Any], T]) -> T:
        return self.line.ask(method, path, asked, read, look="`hostler governor` says how it is.")


def _held(scope: str) -> str:
    return "" if scope == ALL else f"/repositories/{quote(project_of(scope), safe='')}"


def _pool(pool: str) -> str:
    return f"/pools/{quote(pool, safe='')}"


def _moved(found: Any) -> list[Moved]:
    return [Moved(**{**one, "state": TaskState(one["state"])}) for one in found["changed"]]


def _paused(found: Any) -> Paused:
    held = Pause(found["scope"], found["since"], found["by"], found["why"])
    return Paused(held, bool(found["changed"]))


def _unpaused(found: Any) -> tuple[bool, list[str]]:
    return bool(found["changed"]), [str(one) for one in found["still_paused"]]


def _received(found: Any) -> Received:
    lists = {name: tuple(found[name]) for name in ("depends_on", "blockers")}
    return Received(**{**found, **lists})


def _closed(found: Any) -> Closed | None:
    parked = found["parked"]
    if parked is None:
        return None
    until = parse_stamp(parked["until"]) if parked["until"] else UNTIL_RESUMED
    return Closed(until, None, parked["why"])

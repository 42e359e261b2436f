"""What people do with a home: ports, by what they are about.

Behind each are two: one on the database (`service/`), one over the API of a service that works
on the home (`web/client/`). The same words mean the same on both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from hostler.governor.gates import Closed
from hostler.service.directing import Paused
from hostler.service.ordering import Wish
from hostler.service.posting import Letter
from hostler.service.submission import Received
from hostler.store.tasks import TaskState


class Changed(Protocol):
    """A task after a command."""

    @property
    def id(self) -> str: ...
    @property
    def project(self) -> str: ...
    @property
    def state(self) -> TaskState: ...
    @property
    def reason(self) -> str: ...


class Tasks(Protocol):
    """Tasks, named as people name them; of several, all or none."""

    def stop(self, names: Iterable[str], why: str = "") -> Sequence[Changed]: ...
    def cancel(self, names: Iterable[str], why: str = "") -> Sequence[Changed]: ...
    def resume(self, names: Iterable[str], why: str = "") -> Sequence[Changed]: ...
    def retry(self, names: Iterable[str], why: str = "") -> Sequence[Changed]: ...
    def answer(self, name: str, text: str) -> Changed: ...


class Holds(Protocol):
    """What is held back: everything, or one project."""

    def pause(self, scope: str, why: str = "") -> Paused: ...
    def unpause(self, scope: str) -> tuple[bool, list[str]]: ...


class Queue(Protocol):
    """Where tasks by hand are given."""

    def submit(self, wish: Wish, depends_on: Sequence[str]) -> Received: ...


class Buses(Protocol):
    """Where people say something."""

    def post(self, letter: Letter) -> Mapping[str, Any]: ...


class Pools(Protocol):
    """An operator's word on a pool. `term`: for how long, until when; None: until resumed."""

    def set(self, pool: str, caps: Mapping[str, Any]) -> None: ...
    def reset(self, pool: str) -> bool: ...
    def park(self, pool: str, term: datetime | timedelta | None, why: str) -> Closed | None: ...
    def resume(self, pool: str) -> bool: ...

"""A home in which a restart runs: its database, its command, and whoever starts next."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import NoReturn

from intake_yard import PATIENT, migrated

from hostler.checkouts.process import ChildProcess, TailBuffer, run_child
from hostler.clock import FakeClock, Wakeup
from hostler.config.settings import Runtime, Settings
from hostler.service.context import lock_and_open
from hostler.service.restart import RestartDeps, RestartDrain
from hostler.service.service_log import ServiceLog
from hostler.store import Store, open_store
from hostler.store.engine.locks import HomeLock
from hostler.store.operator import (
    RESTART,
    CommandRow,
    CommandStatus,
    Operation,
    add_command,
    find_command,
    find_operation,
)
from hostler.store.outbox import open_writes
from hostler.telemetry.logs import EventLog, LogDestinations
from hostler.workflows.commands import RESTART_SCOPES, request_restart, start_restart

SAID_AT = "2026-01-01T00:00:00.000Z"
# Commands that are only played: looking for what a real one left takes its time.
OK, WARNS, BROKEN = (["played", str(code)] for code in (0, 1, 2))
AGAIN = ["hostler", "service"]
ENVIRONMENT = {"PATH": os.environ["PATH"]}


def play(child: ChildProcess, out: TailBuffer) -> int | None:
    """Play a command, or run it if it is a real one."""
    return int(child.argv[1]) if child.argv[0] == OK[0] else run_child(child, out)


class HastyClock(FakeClock):
    """A clock whose waits are over at once, and have taken their time."""

    def wakeup(self) -> Wakeup:
        return _Passing(self)


class _Passing:
    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.advance(timeout or 0.0)
        return False


class HeardJournal(ServiceLog):
    """Says of each command of an update that it has ended."""

    def __init__(
        self, heard: Callable[[str], None], log: EventLog, tell: Callable[[str], None]
    ) -> None:
        super().__init__(log, tell)
        self._heard = heard

    def updating(self, step: str, code: int | None, output: str) -> None:
        super().updating(step, code, output)
        self._heard(step)


@dataclass
class Bench:
    """One home. `lines` is what was logged, `told` what people were told."""

    home: Path
    clock: FakeClock = field(default_factory=HastyClock)
    lines: StringIO = field(default_factory=StringIO)
    told: list[str] = field(default_factory=list)

    def furnish(self, database: bytes | None = None) -> Bench:
        """A database in which an operator's restart waits to be begun."""
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "hostler.db").write_bytes(database or migrated())
        return self

    def store(self) -> Store:
        return open_store(self.home, clock=self.clock, patience=PATIENT)

    def ask(self, store: Store) -> None:
        waiting = CommandStatus.WAITING
        row = CommandRow("k1", "octo/barn", 7, 70, "ann", "restart", SAID_AT, status=waiting)
        with store.write(*RESTART_SCOPES) as tx:
            add_command(tx, row)
            assert request_restart(tx, "ann", row)

    def begin(self, store: Store) -> None:
        """All work is over: the restart runs."""
        self.ask(store)
        with store.write(*RESTART_SCOPES) as tx:
            assert start_restart(tx)

    def service_log(self, heard: Callable[[str], None] = lambda _step: None) -> ServiceLog:
        log = LogDestinations(self.clock, None, terminal=self.lines).log
        return HeardJournal(heard, log, self.told.append)

    def means(
        self,
        update: Sequence[str] = (),
        check: Sequence[str] = OK,
        rollback: Sequence[str] = (),
        become: Callable[[int], object] = lambda _lock: None,
        heard: Callable[[str], None] = lambda _step: None,
    ) -> RestartDeps:
        """Commands for each step; `heard` is told of each that has ended."""
        runtime = Runtime(restart_command=[*update], restart_rollback_command=[*rollback])
        return RestartDeps(
            self.home,
            Settings(runtime=runtime),
            ENVIRONMENT,
            self.service_log(heard),
            check,
            AGAIN,
            lambda _again, lock: become(lock),
            play,
        )

    def operation(self, store: Store) -> Operation:
        with store.read() as tx:
            found = find_operation(tx, RESTART)
        assert found is not None
        return found

    def answer(self, store: Store) -> tuple[str, str]:
        """What became of the command, and the one reply to it."""
        with store.read() as tx:
            command = find_command(tx, "k1")
            assert len(open_writes(tx)) == 1
        assert command is not None
        return command.status.value, command.result

    def next_start(self) -> Operation:
        """The next service begins, twice over: the second has nothing left to tell."""
        for _ in range(2):
            with lock_and_open(self.home, Settings(), self.clock) as (app, _lock):
                RestartDrain(app.store, self.service_log(), self.clock).report_finished_restart()
        HomeLock.take(self.home, self.clock).release()
        with closing(self.store()) as store:
            return self.operation(store)


def die(*_: object, **__: object) -> NoReturn:
    """kill -9 of ourselves."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives this")


def ended_by(act: Callable[[], object]) -> int:
    """Do something in a process of its own; the signal that ended it."""
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"it ended with {status}"
    return os.WTERMSIG(status)

"""Restart the service: drain, update and check the program, replace the process, roll back."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from hostler import __version__
from hostler.agents.prepare import build_agent_environment, secret_variables
from hostler.checkouts.process import ChildProcess, Halted, TailBuffer, run_child
from hostler.clock import Clock
from hostler.config.settings import Runtime, Settings
from hostler.errors import HostlerError, StoreError
from hostler.service.service_log import ServiceLog
from hostler.store import Store, Transaction
from hostler.store.engine.locks import HomeLock
from hostler.store.operator import OperationStatus, Step
from hostler.workflows.commands import (
    RESTART_SCOPES,
    current_restart,
    finish_restart,
    start_restart,
    store_restart_step,
)

# By the last step of a restart that a process left behind, why it failed. Other steps succeeded.
_INTERRUPTED_TEXTS: dict[Step | None, str] = {
    None: "The service ended before it was replaced.",
    Step.LOOK: "The service ended before it was replaced.",
    Step.UPDATE: "The service ended before the update was made and checked.",
    Step.ROLLBACK: "The update failed, and the service ended before it was rolled back.",
    Step.UNFIT: "The new version could not bring the database to its layout; the log says why.",
}
# The end of the last job triggers an iteration; this is for changes without an event.
_TICK_SECONDS = 1.0


class DrainEvent(StrEnum):
    """An event of a drain."""

    STARTED = "started"
    PROGRESS = "progress"
    COMPLETED = "completed"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class DrainState:
    """When a drain started, on the monotonic clock, and the pending jobs last reported."""

    started_at: float
    told: int


def next_drain_state(
    drain: DrainState | None, wanted: bool, pending: int, now: float, timeout: float
) -> tuple[DrainState | None, tuple[DrainEvent, ...]]:
    """Return the next state of a drain, and its events. Pure."""
    if not wanted:
        return None, ()
    begun = drain or DrainState(now, pending)
    first = () if drain else (DrainEvent.STARTED,)
    if pending == 0:
        return begun, (*first, DrainEvent.COMPLETED)
    if now - begun.started_at >= timeout:
        return None, (*first, DrainEvent.TIMEOUT)
    if pending != begun.told:
        return replace(begun, told=pending), (*first, DrainEvent.PROGRESS)
    return begun, first


def judge_restart(step: Step | None, version: str) -> tuple[bool, str]:
    """Return whether a restart that reached a step succeeded, and a text about it."""
    broken_off = _INTERRUPTED_TEXTS.get(step, "")
    return not broken_off, f"{broken_off} Hostler {version} is running.".strip()


class RestartDrain:
    """The drain before a restart: a row stores the request, this object the start time."""

    def __init__(self, store: Store, service_log: ServiceLog, clock: Clock) -> None:
        self._store = store
        self._service_log = service_log
        self._clock = clock
        self._drain: DrainState | None = None
        # The change mark and answer of the last query.
        self._known: tuple[int, bool] | None = None
        self._untold = False

    @property
    def started_at_monotonic(self) -> float | None:
        """When the drain started; None if there is none."""
        return self._drain.started_at if self._drain else None

    def is_requested(self) -> bool:
        """Return True if a restart is pending or running, so that no work may start."""
        mark = self._store.change_mark()
        if self._known is None or self._known[0] != mark:
            with self._store.read() as tx:
                self._known = (mark, current_restart(tx) is not None)
        return self._known[1]

    def advance(self, pending: int, timeout: float) -> bool:
        """Advance the drain. `pending` counts jobs after a reap. Return True to restart now."""
        if self._untold:
            self._tell()
        now = self._clock.monotonic()
        after, acts = next_drain_state(self._drain, self.is_requested(), pending, now, timeout)
        seconds = now - (self._drain or after or DrainState(now, 0)).started_at
        restart = DrainEvent.COMPLETED in acts and self._start()
        if DrainEvent.TIMEOUT in acts:
            self._give_up(pending, seconds)
        # Last: if storing failed, the next call tries again.
        self._drain = after
        for act in acts:
            self._service_log.drain(act.value, pending, seconds)
        return restart

    def seconds_left(self) -> float | None:
        """Return in how many seconds to call `advance` without an event."""
        return _TICK_SECONDS if self._drain is not None else None

    def report_finished_restart(self) -> None:
        """Report the end of the restart that started this process."""
        self._untold = True
        try:
            self._tell()
        except StoreError as error:
            # A busy database: nothing starts until this is stored.
            self._service_log.broke(error)

    def _tell(self) -> None:
        with self._store.read() as tx:
            found = current_restart(tx)
        if found is not None and found.status is OperationStatus.RUNNING:
            done, words = judge_restart(found.step, __version__)
            with self._store.write(*RESTART_SCOPES) as tx:
                finish_restart(tx, done, words)
            if done:
                self._service_log.restarted(__version__, found.requested_by)
            else:
                self._service_log.restart_failed(words)
        self._untold = False

    def _start(self) -> bool:
        with self._store.write(*RESTART_SCOPES) as tx:
            return start_restart(tx) is not None

    def _give_up(self, pending: int, seconds: float) -> None:
        many = f"{pending} task{'s were' if pending > 1 else ' was'}"
        why = f"{many} still at work after {seconds:.0f} s. Nothing was interrupted."
        with self._store.write(*RESTART_SCOPES) as tx:
            finish_restart(tx, False, why)


# The descriptor of the home's lock, for the program that replaces this one.
LOCK_VARIABLE = "HOSTLER_INHERITED_LOCK"
_SHUTDOWN_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def replace_process(words: Sequence[str], lock: int) -> None:
    """Replace this process by the installed program. Returns only by raising `OSError`."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    environment = {**os.environ, LOCK_VARIABLE: str(lock)}
    try:
        # A shell would lose the descriptor of the lock.
        os.execve(words[0], [*words], environment)  # noqa: S606
    finally:
        # The replacement failed: child processes must not inherit the lock.
        os.set_inheritable(lock, False)


def program_command(home: Path, config: Path | None, *, debug: bool = False) -> list[str]:
    """Return the command that starts the installed program for this home.

    All paths are absolute, so that it works from any folder.
    """
    settings = ["--config", str(config)] if config else []
    python = [sys.executable, *interpreter_arguments(sys.orig_argv, sys.argv)]
    return [*python, "--home", str(home), *settings, *(["--debug"] if debug else [])]


def interpreter_arguments(whole: Sequence[str], ours: Sequence[str]) -> list[str]:
    """Return the arguments between the interpreter and Hostler's own; `-m hostler` by default."""
    between = list(whole[1 : len(whole) - len(ours) + 1])
    if between and between[0].startswith("-"):
        return between
    if between and Path(between[0]).exists():
        return [str(Path(between[0]).absolute()), *between[1:]]
    return ["-m", "hostler"]


def take_inherited_lock() -> int | None:
    """Return the inherited lock, and remove it from the environment of child processes."""
    lock = os.environ.pop(LOCK_VARIABLE, "")
    return int(lock) if lock.isdigit() else None


@contextmanager
def defer_signals() -> Iterator[None]:
    """Block shutdown signals, so that they reach the program that replaces this one.

    Only this thread can block them. A signal that another thread receives ends the process, as
    it should; a handler would be replaced before it could act.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _SHUTDOWN_SIGNALS)
    before = {number: signal.signal(number, signal.SIG_DFL) for number in _SHUTDOWN_SIGNALS}
    # The next program has no handler for this one at first, and reads the settings anyway.
    before[signal.SIGHUP] = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SHUTDOWN_SIGNALS)


# A program that needs longer for its check counts as broken.
CHECK_SECONDS = 60.0
_MAX_OUTPUT_BYTES = 16_384
# With this exit code, or a higher one, `doctor` reports that something is broken.
_BROKEN_EXIT_CODE = 2
# The working folder of this process, and of the program that replaces it.
_CURRENT_FOLDER = Path()
_CHECK_FAILED_TEXT = "`hostler doctor --quick` reports errors; the old program keeps running."
# Runs a command to its end; its exit code, None if its time ran out.
RunCommand = Callable[[ChildProcess, TailBuffer], int | None]
# A command, its exit code (None: its time ran out), and the end of what it printed.
ReportCommand = Callable[[str, int | None, str], None]


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """The result of an update. `failed` says why it failed; `replace`: start the new program."""

    failed: str = ""
    replace: bool = True


@dataclass(frozen=True, slots=True)
class Updater:
    """Runs the operator's update command, then checks the new program.

    `env` is for the operator's commands and has no secrets of Hostler; `own` is for Hostler's
    own program. `begins` is called before each step.
    """

    runtime: Runtime
    check: Sequence[str]
    home: Path
    env: Mapping[str, str]
    own: Mapping[str, str]
    begins: Callable[[Step], None]
    told: ReportCommand
    run: RunCommand = run_child

    def update(self) -> UpdateResult:
        """Update, or roll back. Without an update command, only check the program.

        For example, broken settings would not let a new process start.
        """
        command = self.runtime.restart_command
        self.begins(Step.UPDATE if command else Step.LOOK)
        if command and not self._run("update", command):
            return self._back("The update failed.")
        if self._check():
            self.begins(Step.UPDATED if command else Step.READY)
            return UpdateResult()
        if command:
            return self._back("The new version does not pass `hostler doctor --quick`.")
        return UpdateResult(_CHECK_FAILED_TEXT, False)

    def undo(self) -> bool:
        """Roll back. Return True if a rollback command exists and the program passes its check."""
        command = self.runtime.restart_rollback_command
        return bool(command) and self._run("rollback", command) and self._check()

    def _back(self, why: str) -> UpdateResult:
        if not self.runtime.restart_rollback_command:
            return UpdateResult(
                f"{why} No `restart_rollback_command` is set; the old program keeps running.", False
            )
        self.begins(Step.ROLLBACK)
        if self.undo():
            return UpdateResult(f"{why} It was rolled back.")
        return UpdateResult(f"{why} The rollback failed too; the old program keeps running.", False)

    def _check(self) -> bool:
        """Return True if the installed program passes its check."""
        child = ChildProcess(
            list(self.check), _CURRENT_FOLDER, self.own, CHECK_SECONDS, mark="restart-check"
        )
        code = self._go("check", child)
        return code is not None and 0 <= code < _BROKEN_EXIT_CODE

    def _run(self, step: str, command: Sequence[str]) -> bool:
        seconds = float(self.runtime.restart_command_timeout_seconds)
        child = ChildProcess(list(command), self.home, self.env, seconds, mark=f"restart-{step}")
        return self._go(step, child) == 0

    def _go(self, step: str, child: ChildProcess) -> int | None:
        out = TailBuffer(_MAX_OUTPUT_BYTES)
        code: int | None
        try:
            code = self.run(child, out)
        except OSError as error:
            code = 127
            out.feed(str(error).encode())
        self.told(step, code, out.text())
        return code


def max_update_seconds(runtime: Runtime) -> float:
    """Return the time limit of an update with its rollback, each with a check."""
    return 2 * (runtime.restart_command_timeout_seconds + CHECK_SECONDS)


# Pause between two attempts to store something; short, so that a shutdown is not delayed.
_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.25, 5.0
_MANUAL_REMEDY = "Install the previous version, or fix the cause and run: hostler db upgrade"


@dataclass(frozen=True, slots=True)
class RestartDeps:
    """What a restart needs.

    `check` is the command that checks the installed program, `again` the one that starts it.
    `become` returns only by raising `OSError`.
    """

    home: Path
    settings: Settings
    environment: Mapping[str, str]
    service_log: ServiceLog
    check: Sequence[str]
    again: Sequence[str]
    become: Callable[[Sequence[str], int], None] = replace_process
    run: RunCommand = run_child

    def updater(self, begins: Callable[[Step], None]) -> Updater:
        """Return the updater; its commands see no secrets of Hostler."""
        own, told, runtime = self.environment, self.service_log.updating, self.settings.runtime
        clean = build_agent_environment(own, [], {}, secret_variables(self.settings))
        return Updater(runtime, self.check, self.home, clean, own, begins, told, self.run)

    def replace(self, lock: HomeLock, leaves: Callable[[], bool]) -> None:
        """Replace this process by the installed program, unless a shutdown was requested."""
        with defer_signals():
            if not leaves():
                self.become(self.again, lock.hand_over())


@dataclass(frozen=True, slots=True)
class Restart:
    """Updates if configured, and starts the new program. `leaves`: a shutdown was requested."""

    means: RestartDeps
    store: Store
    lock: HomeLock
    clock: Clock
    leaves: Callable[[], bool]

    def carry_out(self) -> None:
        """Return only if the old program keeps running or shuts down."""
        try:
            became = self.means.updater(self._begins).update()
            if became.failed:
                self._failed(became.failed)
            if became.replace:
                self.means.replace(self.lock, self.leaves)
        except OSError as error:
            why = f"The new program could not be started ({error.strerror}): the old one goes on."
            self._failed(why)
        except HostlerError as error:
            self._failed(" ".join(error.lines()))

    def _begins(self, step: Step) -> None:
        self._store(lambda tx: store_restart_step(tx, step))

    def _failed(self, why: str) -> None:
        self._store(lambda tx: finish_restart(tx, False, why))
        self.means.service_log.restart_failed(why)

    def _store(self, write: Callable[[Transaction], object]) -> None:
        """Store something, however long the database is busy or full; `Halted` if we leave."""
        pause, seconds = self.clock.wakeup(), _MIN_PAUSE_SECONDS
        while True:
            try:
                with self.store.write(*RESTART_SCOPES) as tx:
                    write(tx)
                return
            except StoreError as error:
                self.means.service_log.broke(error)
            if self.leaves():
                raise Halted
            pause.wait(seconds)
            seconds = min(2 * seconds, _MAX_PAUSE_SECONDS)


def carry_out_restart(
    means: RestartDeps, store: Store, lock: HomeLock, clock: Clock, leaves: Callable[[], bool]
) -> None:
    """Carry a restart out. If we leave, its row says how far it came, and the next start tells."""
    try:
        Restart(means, store, lock, clock, leaves).carry_out()
    except Halted:
        return


def roll_back_update(
    means: RestartDeps, lock: HomeLock, leaves: Callable[[], bool], error: HostlerError
) -> None:
    """Our layout cannot be had: become the program before us, or say what a person can do.

    Returns only if there is no way back. That the layout could not be had is stored already.
    """
    means.service_log.broke(error)
    try:
        if means.updater(lambda _: None).undo():
            means.replace(lock, leaves)
    except (Halted, OSError, HostlerError):
        pass  # the error that led here says more
    error.remedy = f"{error.remedy} {_MANUAL_REMEDY}".strip()

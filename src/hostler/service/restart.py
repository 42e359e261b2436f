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

# Where a restart that was running stood when the program before us ended, and what that means.
# Without an entry, all that was asked for has happened.
_INTERRUPTED_TEXTS: dict[Step | None, str] = {
    None: "The service ended before it was replaced.",
    Step.LOOK: "The service ended before it was replaced.",
    Step.UPDATE: "The service ended before the update was made and checked.",
    Step.ROLLBACK: "The update failed, and the service ended before it was rolled back.",
    Step.UNFIT: "The new version could not bring the database to its layout; the log says why.",
}
# The end of the last work wakes us; this is for what happens without an event.
_TICK_SECONDS = 1.0


class DrainEvent(StrEnum):
    """What there is to do or to say about a drain."""

    STARTED = "started"
    PROGRESS = "progress"
    COMPLETED = "completed"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class DrainState:
    """Since when, on the monotonic clock, and how many were pending when it was last told."""

    started_at: float
    told: int


def next_drain_state(
    drain: DrainState | None, wanted: bool, pending: int, now: float, timeout: float
) -> tuple[DrainState | None, tuple[DrainEvent, ...]]:
    """What one look at a drain leads to. Touches nothing."""
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
    """Whether a restart that came so far is done, and what there is to tell about it."""
    broken_off = _INTERRUPTED_TEXTS.get(step, "")
    return not broken_off, f"{broken_off} Hostler {version} is at work.".strip()


class RestartDrain:
    """The one drain of a process: its row says whether, its timer since when."""

    def __init__(self, store: Store, journal: ServiceLog, clock: Clock) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock
        self._drain: DrainState | None = None
        # Where the database stood when it was last asked, and what it said.
        self._known: tuple[int, bool] | None = None
        self._untold = False

    @property
    def started_at_monotonic(self) -> float | None:
        """Since when it drains; None while it does not."""
        return self._drain.started_at if self._drain else None

    def wanted(self) -> bool:
        """Whether a restart is pending or running: then nothing may begin."""
        mark = self._store.change_mark()
        if self._known is None or self._known[0] != mark:
            with self._store.read() as tx:
                self._known = (mark, current_restart(tx) is not None)
        return self._known[1]

    def look(self, pending: int, timeout: float) -> bool:
        """So many futures are pending after a reap of all; whether to restart now."""
        if self._untold:
            self._tell()
        now = self._clock.monotonic()
        after, acts = next_drain_state(self._drain, self.wanted(), pending, now, timeout)
        seconds = now - (self._drain or after or DrainState(now, 0)).started_at
        restart = DrainEvent.COMPLETED in acts and self._start()
        if DrainEvent.TIMEOUT in acts:
            self._give_up(pending, seconds)
        # Only now: what could not be stored is tried again with the next look.
        self._drain = after
        for act in acts:
            self._journal.drain(act.value, pending, seconds)
        return restart

    def seconds_left(self) -> float | None:
        """Until it must look again by itself."""
        return _TICK_SECONDS if self._drain is not None else None

    def came_back(self) -> None:
        """A restart that was running when we started is over: here we are."""
        self._untold = True
        try:
            self._tell()
        except StoreError as error:
            # A busy database is no reason to leave. Nothing begins until it is told.
            self._journal.broke(error)

    def _tell(self) -> None:
        with self._store.read() as tx:
            found = current_restart(tx)
        if found is not None and found.status is OperationStatus.RUNNING:
            done, words = judge_restart(found.step, __version__)
            with self._store.write(*RESTART_SCOPES) as tx:
                finish_restart(tx, done, words)
            if done:
                self._journal.restarted(__version__, found.requested_by)
            else:
                self._journal.restart_failed(words)
        self._untold = False

    def _start(self) -> bool:
        with self._store.write(*RESTART_SCOPES) as tx:
            return start_restart(tx) is not None

    def _give_up(self, pending: int, seconds: float) -> None:
        many = f"{pending} task{'s were' if pending > 1 else ' was'}"
        why = f"{many} still at work after {seconds:.0f} s. Nothing was interrupted."
        with self._store.write(*RESTART_SCOPES) as tx:
            finish_restart(tx, False, why)


# The descriptor of the home's lock, for the program that comes after us.
LOCK_VARIABLE = "HOSTLER_INHERITED_LOCK"
_SHUTDOWN_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def replace_process(words: Sequence[str], lock: int) -> None:
    """Become the program that is on the disk now. Returns only by raising `OSError`."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    environment = {**os.environ, LOCK_VARIABLE: str(lock)}
    try:
        # A shell would lose the descriptor of the lock.
        os.execve(words[0], [*words], environment)  # noqa: S606
    finally:
        # We are still here: what we start must not keep the lock.
        os.set_inheritable(lock, False)


def program_command(home: Path, config: Path | None, *, debug: bool = False) -> list[str]:
    """How the program on the disk is called for this home: to be asked, and to take over.

    By whole paths: who stands elsewhere, or in a folder that was made anew, means the same.
    """
    settings = ["--config", str(config)] if config else []
    python = [sys.executable, *interpreter_arguments(sys.orig_argv, sys.argv)]
    return [*python, "--home", str(home), *settings, *(["--debug"] if debug else [])]


def interpreter_arguments(whole: Sequence[str], ours: Sequence[str]) -> list[str]:
    """What stood between Python and our own words; our name, if that script is gone."""
    between = list(whole[1 : len(whole) - len(ours) + 1])
    if between and between[0].startswith("-"):
        return between
    if between and Path(between[0]).exists():
        return [str(Path(between[0]).absolute()), *between[1:]]
    return ["-m", "hostler"]


def take_inherited_lock() -> int | None:
    """The lock that was handed over. Taken out of the environment: our children must not see it."""
    lock = os.environ.pop(LOCK_VARIABLE, "")
    return int(lock) if lock.isdigit() else None


@contextmanager
def defer_signals() -> Iterator[None]:
    """Nobody here hears a signal any more: it waits for the program that takes over.

    Only this thread can hold them back. One that another thread gets ends us, which is what it
    asks for; a handler of ours would hear it, and be gone before it has done anything.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _SHUTDOWN_SIGNALS)
    before = {number: signal.signal(number, signal.SIG_DFL) for number in _SHUTDOWN_SIGNALS}
    # The next program has no ear for this one at first, and reads the settings anyway.
    before[signal.SIGHUP] = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SHUTDOWN_SIGNALS)


# Whoever needs longer than this to find nothing broken is broken.
CHECK_SECONDS = 60.0
_MAX_OUTPUT_BYTES = 16_384
# `doctor` says with this exit code, or a higher one, that something is broken.
_BROKEN_EXIT_CODE = 2
# Where we stand ourselves, and where the program that takes over will stand.
_CURRENT_FOLDER = Path()
_CHECK_FAILED_TEXT = "`hostler doctor --quick` finds something broken: the old program goes on."
# Runs a command to its end; its exit code, None if its time ran out.
RunCommand = Callable[[ChildProcess, TailBuffer], int | None]
# A command, its exit code (None: its time ran out), and the end of what it printed.
ReportCommand = Callable[[str, int | None, str], None]


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What became of an update. `failed` says why there is none; `replace`: start the new one."""

    failed: str = ""
    replace: bool = True


@dataclass(frozen=True, slots=True)
class Updater:
    """Runs what the operator named, then asks the new program how it is.

    `env` is for his commands, without secrets of ours; `own` is for our own program. `begins`
    hears of each step before it is begun.
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
        """Update, or go back. Without an update to make, the program is only looked at.

        Settings that were broken while we worked, for one, would let no program start.
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
        """Run the operator's way back; whether there is one, and it leads to a sound program."""
        command = self.runtime.restart_rollback_command
        return bool(command) and self._run("rollback", command) and self._check()

    def _back(self, why: str) -> UpdateResult:
        if not self.runtime.restart_rollback_command:
            return UpdateResult(
                f"{why} No `restart_rollback_command` is set: the old program goes on.", False
            )
        self.begins(Step.ROLLBACK)
        if self.undo():
            return UpdateResult(f"{why} It was rolled back.")
        return UpdateResult(f"{why} Rolling it back failed too: the old program goes on.", False)

    def _check(self) -> bool:
        """Whether the program that is there now finds nothing broken."""
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
    """How long an update and its way back may take, each with its check."""
    return 2 * (runtime.restart_command_timeout_seconds + CHECK_SECONDS)


# Between two attempts to store something; short, because somebody may ask us to leave.
_MIN_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.25, 5.0
_MANUAL_REMEDY = "Install the version before it; or mend the cause, and run: hostler db upgrade"


@dataclass(frozen=True, slots=True)
class RestartDeps:
    """What one program is replaced with.

    `check` asks the program on the disk how it is, `again` starts it. `become` returns only by
    raising `OSError`.
    """

    home: Path
    settings: Settings
    environment: Mapping[str, str]
    journal: ServiceLog
    check: Sequence[str]
    again: Sequence[str]
    become: Callable[[Sequence[str], int], None] = replace_process
    run: RunCommand = run_child

    def updater(self, begins: Callable[[Step], None]) -> Updater:
        """Whoever updates; its commands see no secret of ours."""
        own, told, runtime = self.environment, self.journal.updating, self.settings.runtime
        clean = build_agent_environment(own, [], {}, secret_variables(self.settings))
        return Updater(runtime, self.check, self.home, clean, own, begins, told, self.run)

    def replace(self, lock: HomeLock, leaves: Callable[[], bool]) -> None:
        """Become the program on the disk, unless we are asked to leave."""
        with defer_signals():
            if not leaves():
                self.become(self.again, lock.hand_over())


@dataclass(frozen=True, slots=True)
class Restart:
    """Updates if that is wanted, and becomes the new program. `leaves`: we were asked to."""

    means: RestartDeps
    store: Store
    lock: HomeLock
    clock: Clock
    leaves: Callable[[], bool]

    def carry_out(self) -> None:
        """Returns only if the old program goes on, or leaves because it was asked to."""
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
        self.means.journal.restart_failed(why)

    def _store(self, write: Callable[[Transaction], object]) -> None:
        """Store something, however long the database is busy or full; `Halted` if we leave."""
        pause, seconds = self.clock.wakeup(), _MIN_PAUSE_SECONDS
        while True:
            try:
                with self.store.write(*RESTART_SCOPES) as tx:
                    write(tx)
                return
            except StoreError as error:
                self.means.journal.broke(error)
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
    means.journal.broke(error)
    try:
        if means.updater(lambda _: None).undo():
            means.replace(lock, leaves)
    except (Halted, OSError, HostlerError):
        pass  # the error that led here says more
    error.remedy = f"{error.remedy} {_MANUAL_REMEDY}".strip()

"""One program replaced by the next: an update first, its check, the way back, then `exec`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hostler.agents.environment import agent_environment, secret_names
from hostler.checkouts.process import Child, Halted, Tail, run
from hostler.config.settings import Runtime
from hostler.flows.operations import SCOPES, finish_operation
from hostler.service.house import House
from hostler.service.journal import Journal
from hostler.store import Store
from hostler.store.homelock import HomeLock

# The descriptor of the home's lock, for the program that comes after us.
LOCK_VARIABLE = "HOSTLER_INHERITED_LOCK"
# Said to it if an update came before: it may bring the database to its own layout.
UPDATED_VARIABLE = "HOSTLER_UPDATED"
# Whoever needs longer than this to find nothing broken is broken.
CHECK_SECONDS = 60.0
KEPT_OUTPUT = 16_384
LEAVING_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# `doctor` says with this exit code, or a higher one, that something is broken.
BROKEN = 2
NOT_SOUND = "`hostler doctor --quick` finds something broken: the old program goes on."
# A step, its exit code (None: its time ran out), and the end of what it printed.
Told = Callable[[str, int | None, str], None]


@dataclass(frozen=True, slots=True)
class Updated:
    """What became of an update. `failed` says why there is none; `replace`: start the new one."""

    failed: str = ""
    replace: bool = True


@dataclass(frozen=True, slots=True)
class Updater:
    """Runs what the operator named, then asks the new program how it is.

    `env` is for his commands, without secrets of ours; `own` is for our own program.
    """

    runtime: Runtime
    check: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    own: Mapping[str, str]
    told: Told

    def update(self) -> Updated:
        """Update, or go back. Without an update to make, the program is only looked at.

        Settings that were broken while we worked, for one, would let no program start.
        """
        command = self.runtime.restart_command
        if not command:
            return Updated() if self._check() else Updated(NOT_SOUND, False)
        if not self._run("update", command):
            return self._back("The update failed.")
        if not self._check():
            return self._back("The new version does not pass `hostler doctor --quick`.")
        return Updated()

    def _back(self, why: str) -> Updated:
        command = self.runtime.restart_rollback_command
        if not command:
            return Updated(
                f"{why} No `restart_rollback_command` is set: the old program goes on.", False
            )
        if self._run("rollback", command) and self._check():
            return Updated(f"{why} It was rolled back.")
        return Updated(f"{why} Rolling it back failed too: the old program goes on.", False)

    def _check(self) -> bool:
        """Whether the program that is there now finds nothing broken."""
        code = self._go("check", self.check, self.own, CHECK_SECONDS)
        return code is not None and 0 <= code < BROKEN

    def _run(self, step: str, command: Sequence[str]) -> bool:
        seconds = float(self.runtime.restart_command_timeout_seconds)
        return self._go(step, command, self.env, seconds) == 0

    def _go(
        self, step: str, command: Sequence[str], env: Mapping[str, str], seconds: float
    ) -> int | None:
        out = Tail(KEPT_OUTPUT)
        code: int | None
        try:
            code = run(Child(list(command), self.cwd, env, seconds, mark=f"restart-{step}"), out)
        except OSError as error:
            code = 127
            out.feed(str(error).encode())
        self.told(step, code, out.text())
        return code


def check_command(home: Path, config: Path | None) -> list[str]:
    """How the program that is on the disk now is asked whether it would work."""
    settings = ["--config", str(config)] if config else []
    program = [sys.executable, "-m", "hostler", "--home", str(home)]
    return [*program, *settings, "doctor", "--quick"]


def replace_process(lock: int, *, updated: bool) -> None:
    """Become the program that is on the disk now. Returns only by raising `OSError`."""
    # A signal for the one before must not end the one after: it has no ear for it yet.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    told = {LOCK_VARIABLE: str(lock), UPDATED_VARIABLE: "1" if updated else ""}
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    environment = {**os.environ, **told}
    # A shell would lose the descriptor of the lock.
    os.execve(sys.executable, [sys.executable, *_arguments()], environment)  # noqa: S606


def _arguments() -> list[str]:
    """How we were called; by our name, if the script that was called is gone."""
    called = sys.orig_argv[1:]
    if called and (called[0].startswith("-") or Path(called[0]).exists()):
        return called
    return ["-m", "hostler", *sys.argv[1:]]


@dataclass(frozen=True, slots=True)
class Inherited:
    """What the program before us handed over: the home's lock; whether there was an update."""

    lock: int
    updated: bool


def inherited() -> Inherited | None:
    """What was handed over. Taken out of the environment: what we start must not believe it."""
    lock, updated = os.environ.pop(LOCK_VARIABLE, ""), os.environ.pop(UPDATED_VARIABLE, "")
    return Inherited(int(lock), bool(updated)) if lock.isdigit() else None


def restart(
    house: House,
    lock: HomeLock,
    config: Path | None,
    journal: Journal,
    leaves: Callable[[], bool],
) -> None:
    """Update if that is wanted, and become the new program.

    Returns only if the old one goes on, or leaves because it was asked to.
    """
    runtime = house.settings.runtime
    names = secret_names(house.settings)
    updater = Updater(
        runtime,
        check_command(house.home, config),
        house.home,
        env=agent_environment(house.environment, [], {}, names),
        own=house.environment,
        told=journal.updating,
    )
    try:
        became = updater.update()
    except Halted:
        return  # whoever starts next is what came of it
    if became.failed:
        _failed(house.store, journal, became.failed)
    # From here on a signal is for the next program, which hears it as soon as it can.
    signal.pthread_sigmask(signal.SIG_BLOCK, LEAVING_SIGNALS)
    if became.replace and not leaves():
        try:
            replace_process(lock.hand_over(), updated=bool(runtime.restart_command))
        except OSError as error:
            why = f"The new program could not be started ({error.strerror}): the old one goes on."
            _failed(house.store, journal, why)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, LEAVING_SIGNALS)


def _failed(store: Store, journal: Journal, why: str) -> None:
    with store.write(*SCOPES) as tx:
        finish_operation(tx, False, why)
    journal.restart_failed(why)

"""One restart, step by step: each is stored before it is begun, and so is what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hostler.agents.environment import agent_environment, secret_names
from hostler.checkouts.process import Halted, run
from hostler.clock import Clock
from hostler.config.settings import Settings
from hostler.errors import HostlerError, StoreError
from hostler.flows.operations import SCOPES, finish_operation, note_step
from hostler.service.journal import Journal
from hostler.service.replacing import replace_process, signals_kept_for_the_next
from hostler.service.updating import Runs, Updater
from hostler.store import Store, Transaction
from hostler.store.engine.locks import HomeLock
from hostler.store.operator import Step

# Between two attempts to store something; short, because somebody may ask us to leave.
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0
BY_HAND = "Install the version before it; or mend the cause, and run: hostler db upgrade"


@dataclass(frozen=True, slots=True)
class Means:
    """What one program is replaced with.

    `check` asks the program on the disk how it is, `again` starts it. `become` returns only by
    raising `OSError`.
    """

    home: Path
    settings: Settings
    environment: Mapping[str, str]
    journal: Journal
    check: Sequence[str]
    again: Sequence[str]
    become: Callable[[Sequence[str], int], None] = replace_process
    run: Runs = run

    def updater(self, begins: Callable[[Step], None]) -> Updater:
        """Whoever updates; its commands see no secret of ours."""
        own, told, runtime = self.environment, self.journal.updating, self.settings.runtime
        clean = agent_environment(own, [], {}, secret_names(self.settings))
        return Updater(runtime, self.check, self.home, clean, own, begins, told, self.run)

    def replace(self, lock: HomeLock, leaves: Callable[[], bool]) -> None:
        """Become the program on the disk, unless we are asked to leave."""
        with signals_kept_for_the_next():
            if not leaves():
                self.become(self.again, lock.hand_over())


@dataclass(frozen=True, slots=True)
class Restart:
    """Updates if that is wanted, and becomes the new program. `leaves`: we were asked to."""

    means: Means
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
        self._store(lambda tx: note_step(tx, step))

    def _failed(self, why: str) -> None:
        self._store(lambda tx: finish_operation(tx, False, why))
        self.means.journal.restart_failed(why)

    def _store(self, write: Callable[[Transaction], object]) -> None:
        """Store something, however long the database is busy or full; `Halted` if we leave."""
        pause, seconds = self.clock.wakeup(), FIRST_PAUSE
        while True:
            try:
                with self.store.write(*SCOPES) as tx:
                    write(tx)
                return
            except StoreError as error:
                self.means.journal.broke(error)
            if self.leaves():
                raise Halted
            pause.wait(seconds)
            seconds = min(2 * seconds, LONGEST_PAUSE)


def restart(
    means: Means, store: Store, lock: HomeLock, clock: Clock, leaves: Callable[[], bool]
) -> None:
    """Carry a restart out. If we leave, its row says how far it came, and the next start tells."""
    try:
        Restart(means, store, lock, clock, leaves).carry_out()
    except Halted:
        return


def undo_update(
    means: Means, lock: HomeLock, leaves: Callable[[], bool], error: HostlerError
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
    error.remedy = f"{error.remedy} {BY_HAND}".strip()

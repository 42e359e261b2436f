"""A drain: nothing begins in any repository until all work is over; then comes the restart."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from hostler import __version__
from hostler.clock import Clock
from hostler.errors import StoreError
from hostler.flows.operations import SCOPES, current_operation, finish_operation, start_operation
from hostler.service.journal import Journal
from hostler.store import Store
from hostler.store.operator import OperationStatus, Step

# Where a restart that was running stood when the program before us ended, and what that means.
# Without an entry, all that was asked for has happened.
_BROKEN_OFF: dict[Step | None, str] = {
    None: "The service ended before it was replaced.",
    Step.LOOK: "The service ended before it was replaced.",
    Step.UPDATE: "The service ended before the update was made and checked.",
    Step.ROLLBACK: "The update failed, and the service ended before it was rolled back.",
    Step.UNFIT: "The new version could not bring the database to its layout; the log says why.",
}
# The end of the last work wakes us; this is for what happens without an event.
TICK_SECONDS = 1.0


class Act(StrEnum):
    """What there is to do or to say about a drain."""

    STARTED = "started"
    PROGRESS = "progress"
    COMPLETED = "completed"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class Drain:
    """Since when, on the monotonic clock, and how many were pending when it was last told."""

    started_at: float
    told: int


def step(
    drain: Drain | None, wanted: bool, pending: int, now: float, timeout: float
) -> tuple[Drain | None, tuple[Act, ...]]:
    """What one look at a drain leads to. Touches nothing."""
    if not wanted:
        return None, ()
    begun = drain or Drain(now, pending)
    first = () if drain else (Act.STARTED,)
    if pending == 0:
        return begun, (*first, Act.COMPLETED)
    if now - begun.started_at >= timeout:
        return None, (*first, Act.TIMEOUT)
    if pending != begun.told:
        return replace(begun, told=pending), (*first, Act.PROGRESS)
    return begun, first


def verdict(step: Step | None, version: str) -> tuple[bool, str]:
    """Whether a restart that came so far is done, and what there is to tell about it."""
    broken_off = _BROKEN_OFF.get(step, "")
    return not broken_off, f"{broken_off} Hostler {version} is at work.".strip()


class RestartDrain:
    """The one drain of a process: its row says whether, its timer since when."""

    def __init__(self, store: Store, journal: Journal, clock: Clock) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock
        self._drain: Drain | None = None
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
                self._known = (mark, current_operation(tx) is not None)
        return self._known[1]

    def look(self, pending: int, timeout: float) -> bool:
        """So many futures are pending after a reap of all; whether to restart now."""
        if self._untold:
            self._tell()
        now = self._clock.monotonic()
        after, acts = step(self._drain, self.wanted(), pending, now, timeout)
        seconds = now - (self._drain or after or Drain(now, 0)).started_at
        restart = Act.COMPLETED in acts and self._start()
        if Act.TIMEOUT in acts:
            self._give_up(pending, seconds)
        # Only now: what could not be stored is tried again with the next look.
        self._drain = after
        for act in acts:
            self._journal.drain(act.value, pending, seconds)
        return restart

    def seconds_left(self) -> float | None:
        """Until it must look again by itself."""
        return TICK_SECONDS if self._drain is not None else None

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
            found = current_operation(tx)
        if found is not None and found.status is OperationStatus.RUNNING:
            done, words = verdict(found.step, __version__)
            with self._store.write(*SCOPES) as tx:
                finish_operation(tx, done, words)
            if done:
                self._journal.restarted(__version__, found.requested_by)
            else:
                self._journal.restart_failed(words)
        self._untold = False

    def _start(self) -> bool:
        with self._store.write(*SCOPES) as tx:
            return start_operation(tx) is not None

    def _give_up(self, pending: int, seconds: float) -> None:
        many = f"{pending} task{'s were' if pending > 1 else ' was'}"
        why = f"{many} still at work after {seconds:.0f} s. Nothing was interrupted."
        with self._store.write(*SCOPES) as tx:
            finish_operation(tx, False, why)

"""Runs on this machine: each under a shim, which outlives us."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hostler.agents.errors import RunFilesFailed
from hostler.clock import Clock
from hostler.runs import ledger
from hostler.runs.errors import FenceLost, ShimRefused, StopUnheard, UnknownRun
from hostler.runs.evidence import shim_in, shim_of
from hostler.runs.eyes import Eye, adopt, wake
from hostler.runs.hooks import InTransaction, nothing
from hostler.runs.port import Happening, Observer, Step, What, nobody
from hostler.runs.runfile import make_folder, show
from hostler.runs.spawn import Spawned, shim_environment, spawn
from hostler.runs.watcher import Watcher
from hostler.shim import files
from hostler.shim.life import TAKEN, USED
from hostler.store import Store
from hostler.store.runs import Run, RunState, find_run

# A hint that nobody asked for in time is no loss: rows and folders are the truth.
REMEMBERED = 1024


class LocalDispatcher:
    """The dispatcher for agents on this machine. Close it to stop watching; agents go on."""

    def __init__(
        self,
        home: Path,
        store: Store,
        clock: Clock,
        *,
        attached: InTransaction = nothing,
        environment: Mapping[str, str] | None = None,
        observer: Observer = nobody,
        notify: Callable[[], None] = lambda: None,
    ) -> None:
        """`attached` is called in the transaction that says `running`; `notify` on each event."""
        self._home = home
        self._store = store
        self._clock = clock
        self._attached = attached
        self._environment = os.environ if environment is None else environment
        self._observe = observer
        self._notify = notify
        self._watcher = Watcher()
        self._mutex = threading.Lock()
        self._eyes: dict[str, Eye] = {}
        self._happenings: deque[Happening] = deque(maxlen=REMEMBERED)
        self._number = 0

    def submit(self, spec: Mapping[str, Any], run: str, fence: int) -> None:
        """Start the run's agent, once. `RunStopped`: somebody asked for its end first."""
        row = self._row(run)
        if row.fence != fence:
            raise FenceLost(run, fence, "ours", f"its fence is {row.fence}")
        if row.state is not RunState.ADMITTED or (eye := self._claim(run)) is None:
            return
        try:
            self._start(row, spec, eye)
        except ShimRefused as refused:
            # Somebody started it before us: there is something to attach to.
            if refused.code not in {TAKEN, USED}:
                raise

    def attach(self, run: str) -> Eye:
        """Watch a run, whoever started it."""
        row = self._row(run)
        with self._mutex:
            if run in self._eyes:
                return self._eyes[run]
            eye = self._eyes[run] = self._eye(run)
        folder = self._home / row.folder
        # The file is the agent's to change; it is asked only while there can be no agent.
        with self._giving_up(eye):
            adopt(self._watcher, folder, shim_of(row) or shim_in(folder), self._on_end(eye))
        return eye

    def cancel(self, run: str, grace: float) -> None:
        """Tell a run's shim of its stop; a shorter grace hurries an earlier one."""
        row = self._row(run)
        folder = self._home / row.folder
        if not folder.is_dir():
            return  # nothing was started yet, and the row keeps it so
        asked = {"why": row.stop_why or "cancelled", "grace_seconds": grace}
        try:
            files.write(str(folder / files.STOP), asked)
        except OSError as error:
            raise StopUnheard(run, error) from error
        if known := shim_of(row) or shim_in(folder):
            wake(known)

    def events(self, after: int) -> list[Happening]:
        """What happened after that number, as far as it is remembered."""
        with self._mutex:
            return [happening for happening in self._happenings if happening.number > after]

    def close(self) -> None:
        """Stop watching: whoever waits for a run hears of it."""
        self._watcher.close()
        with self._mutex:
            eyes = list(self._eyes.values())
        for eye in eyes:
            eye.close()

    def _start(self, row: Run, spec: Mapping[str, Any], eye: Eye) -> None:
        folder = self._home / row.folder
        with self._giving_up(eye):
            _write_spec(folder, {**spec, "fence": row.fence})
            environment = shim_environment(self._environment, spec.get("inherit"))
            spawned = spawn(row.run, str(folder), environment)
        try:
            with self._giving_up(eye):
                self._observe(Step.SPAWNED, row.run)
                shim = spawned.ready()
                self._watcher.watch(spawned.hand_over(), self._on_end(eye))
            self._observe(Step.LOCKED, row.run)
            self._go(row, shim, spawned)
        finally:
            spawned.discard()

    @contextmanager
    def _giving_up(self, eye: Eye) -> Iterator[None]:
        """While nobody watches the shim: whoever attaches after a failure looks for itself."""
        try:
            yield
        except BaseException:
            eye.ended(None)
            self._let_go_of(eye)
            raise

    def _go(self, row: Run, shim: Mapping[str, Any], spawned: Spawned) -> None:
        """From a locked shim to an agent: the row says so first."""
        with self._store.write() as tx:
            row = ledger.begin(tx, row, shim)
        self._observe(Step.STARTING, row.run)
        with self._store.write() as tx:
            row = ledger.attach(tx, row)
            self._attached(tx, row)
        self._observe(Step.RUNNING, row.run)
        spawned.go()
        self._observe(Step.GO, row.run)
        show(self._home / row.folder, row)
        self._happened(row.run, What.STARTED)

    def _row(self, run: str) -> Run:
        with self._store.read() as tx:
            row = find_run(tx, run)
        if row is None:
            raise UnknownRun(run)
        return row

    def _claim(self, run: str) -> Eye | None:
        """The eye on a run that we are the first here to start."""
        with self._mutex:
            if run in self._eyes:
                return None
            eye = self._eyes[run] = self._eye(run)
            return eye

    def _eye(self, run: str) -> Eye:
        return Eye(run, self._clock.wakeup(), self._let_go_of)

    def _let_go_of(self, eye: Eye) -> None:
        with self._mutex:
            if eye.over and self._eyes.get(eye.run) is eye:
                del self._eyes[eye.run]

    def _on_end(self, eye: Eye) -> Callable[[int | None], None]:
        def ended(code: int | None) -> None:
            eye.ended(code)
            self._happened(eye.run, What.OVER)

        return ended

    def _happened(self, run: str, what: What) -> None:
        with self._mutex:
            self._number += 1
            self._happenings.append(Happening(self._number, run, what))
        self._notify()


def _write_spec(folder: Path, spec: Mapping[str, Any]) -> None:
    make_folder(folder)
    try:
        files.write(str(folder / files.SPEC), spec)
    except OSError as error:
        raise RunFilesFailed(folder / files.SPEC, error) from error

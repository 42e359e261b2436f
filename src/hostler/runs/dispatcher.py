"""Start agents on this machine: spawn a shim, attach to it, let it start its agent."""

from __future__ import annotations

import json
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hostler.agents.errors import RunFilesFailed
from hostler.clock import Clock
from hostler.runs import transitions
from hostler.runs.interfaces import RunObserver, RunStep, ignore_run_step
from hostler.runs.process_watch import ExitWatcher, ProcessWatch, notify_stop, reap, watch_existing
from hostler.runs.run_folder import make_folder, read_shim_file, stored_shim, write_run_file
from hostler.runs.states import FenceLost, ShimStartFailed, StopNotDelivered, UnknownRun
from hostler.shim import command, run_files
from hostler.shim.supervisor import EXIT_TAKEN, EXIT_USED
from hostler.store import Store, Transaction
from hostler.store.runs import Run, RunState, find_run

# A shim starts within seconds even under load; one that is silent for this long hangs.
SHIM_TIMEOUT_SECONDS = 60.0
MAX_LINE_BYTES = 65_536
# Instead of an exit code: the operating system could not start it.
NOT_SPAWNED = -1
# The dynamic loader may need it to find Python's libraries.
LOADER_VARIABLES = ("LD_LIBRARY_PATH",)


class Spawned:
    """A spawned shim. Call `hand_over` and `go`, or else `discard`."""

    def __init__(self, run: str, pid: int, go: int, identity_read: int, error_read: int) -> None:
        self.run = run
        self.pid = pid
        # No other code reaps this child, so the pid cannot have been reused.
        self._pidfd = os.pidfd_open(pid)
        self._pipes: tuple[int, ...] = (go, identity_read, error_read)

    def read_identity(self) -> dict[str, Any]:
        """Wait until the shim has locked its folder; return its identity.

        Raise `ShimStartFailed` if it exited.
        """
        line = self._read_line(self._pipes[1])
        if line.endswith(b"\n"):
            found: dict[str, Any] = json.loads(line)
            return found
        sentence = self._read_line(self._pipes[2]).decode("utf-8", "replace").strip()
        raise ShimStartFailed(self.run, self.discard(), sentence)

    def hand_over(self) -> int:
        """Return the descriptor of its process to whoever watches and reaps it from now on."""
        pidfd, self._pidfd = self._pidfd, -1
        return pidfd

    def go(self) -> None:
        """Let it start its agent. If the shim has exited, the watch reports that."""
        try:
            os.write(self._pipes[0], b"g")
        except BrokenPipeError:
            pass
        finally:
            self._close_pipes()

    def discard(self) -> int | None:
        """Close the pipes; without `go` the shim exits without an agent.

        Return its exit code, if known.
        """
        self._close_pipes()
        if self._pidfd < 0:
            return None
        if not _readable(self._pidfd):
            # It hangs and has no agent yet.
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        code = reap(self._pidfd)
        os.close(self.hand_over())
        return code

    def _close_pipes(self) -> None:
        for descriptor in self._pipes:
            os.close(descriptor)
        self._pipes = ()

    def _read_line(self, descriptor: int) -> bytes:
        """Return one line; less at the end of the pipe or after the timeout."""
        line = b""
        while not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES and _readable(descriptor):
            if not (more := os.read(descriptor, MAX_LINE_BYTES)):
                break
            line += more
        return line


def spawn(run: str, folder: str, environment: Mapping[str, str]) -> Spawned:
    """Start a shim in its own session. It inherits three pipes and no other descriptor."""
    (go_read, go), (identity_read, identity_write), (error_read, error_write) = (
        os.pipe(),
        os.pipe(),
        os.pipe(),
    )
    inherited = (go_read, identity_write, error_write)
    argv = command(folder)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(inherited)]
        pid = os.posix_spawn(argv[0], argv, environment, file_actions=actions, setsid=True)
    except OSError as error:
        for descriptor in (go, identity_read, error_read):
            os.close(descriptor)
        why = f"it cannot be started: {error.strerror}."
        raise ShimStartFailed(run, NOT_SPAWNED, why) from error
    finally:
        for descriptor in inherited:
            os.close(descriptor)
    return Spawned(run, pid, go, identity_read, error_read)


def shim_environment(environment: Mapping[str, str], inherit: object) -> dict[str, str]:
    """Return the environment of a shim: only the variables that it passes on."""
    names = [*LOADER_VARIABLES, *(inherit if isinstance(inherit, list) else ())]
    return {name: environment[name] for name in names if name in environment}


def _readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(SHIM_TIMEOUT_SECONDS * 1000))


class LocalDispatcher:
    """Starts and watches agents on this machine. `close` stops watching; the agents continue."""

    def __init__(
        self,
        home: Path,
        store: Store,
        clock: Clock,
        *,
        on_attach: Callable[[Transaction, Run], None] | None = None,
        environment: Mapping[str, str] | None = None,
        observer: RunObserver = ignore_run_step,
    ) -> None:
        """`on_attach` is called in the transaction that stores `running`."""
        self._home = home
        self._store = store
        self._clock = clock
        self._on_attach = on_attach
        self._environment = os.environ if environment is None else environment
        self._observe = observer
        self._watcher = ExitWatcher()
        self._mutex = threading.Lock()
        self._watches: dict[str, ProcessWatch] = {}

    def submit(self, spec: Mapping[str, Any], run: str, fence: int) -> None:
        """Start the run's agent, once. Raise `RunStopped` if a stop was requested before."""
        row = self._row(run)
        if row.fence != fence:
            raise FenceLost(run, fence, "ours", f"its fence is {row.fence}")
        if row.state is not RunState.ADMITTED or (watch := self._claim_start(run)) is None:
            return
        try:
            self._start(row, spec, watch)
        except ShimStartFailed as refused:
            # Another process has started it: `attach` will find it.
            if refused.code not in {EXIT_TAKEN, EXIT_USED}:
                raise

    def attach(self, run: str) -> ProcessWatch:
        """Return a watch on a run, whichever process started it."""
        row = self._row(run)
        with self._mutex:
            if run in self._watches:
                return self._watches[run]
            watch = self._watches[run] = self._new_watch(run)
        folder = self._home / row.folder
        # The agent can change the file, so the row comes first; without a row there is no agent.
        with self._discarding_on_error(watch):
            watch_existing(
                self._watcher, folder, stored_shim(row) or read_shim_file(folder), watch.record_exit
            )
        return watch

    def cancel(self, run: str, grace: float) -> None:
        """Deliver a stop request to a run's shim.

        A shorter grace period replaces an earlier one.
        """
        row = self._row(run)
        folder = self._home / row.folder
        if not folder.is_dir():
            return  # Nothing was started yet, and the stop in the row prevents it.
        request = {"why": row.stop_why or "cancelled", "grace_seconds": grace}
        try:
            run_files.write_json(str(folder / run_files.STOP_FILE), request)
        except OSError as error:
            raise StopNotDelivered(run, error) from error
        if shim := stored_shim(row) or read_shim_file(folder):
            notify_stop(shim)

    def close(self) -> None:
        """Stop watching; waiting callers get `WatchClosed`."""
        self._watcher.close()
        with self._mutex:
            watches = list(self._watches.values())
        for watch in watches:
            watch.close()

    def _start(self, row: Run, spec: Mapping[str, Any], watch: ProcessWatch) -> None:
        folder = self._home / row.folder
        with self._discarding_on_error(watch):
            _write_spec(folder, {**spec, "fence": row.fence})
            environment = shim_environment(self._environment, spec.get("inherit"))
            spawned = spawn(row.run, str(folder), environment)
        try:
            with self._discarding_on_error(watch):
                self._observe(RunStep.SPAWNED, row.run)
                shim = spawned.read_identity()
                self._watcher.watch(spawned.hand_over(), watch.record_exit)
            self._observe(RunStep.LOCKED, row.run)
            self._release_agent(row, shim, spawned)
        finally:
            spawned.discard()

    @contextmanager
    def _discarding_on_error(self, watch: ProcessWatch) -> Iterator[None]:
        """Drop the watch after an error, so that the next `attach` looks for the shim itself."""
        try:
            yield
        except BaseException:
            watch.record_exit(None)
            self._forget_watch(watch)
            raise

    def _release_agent(self, row: Run, shim: Mapping[str, Any], spawned: Spawned) -> None:
        """Store that the run is running, then let the shim start its agent."""
        with self._store.write() as tx:
            row = transitions.store_starting(tx, row, shim)
        self._observe(RunStep.STARTING, row.run)
        with self._store.write() as tx:
            row = transitions.store_running(tx, row)
            if self._on_attach:
                self._on_attach(tx, row)
        self._observe(RunStep.RUNNING, row.run)
        spawned.go()
        self._observe(RunStep.GO, row.run)
        write_run_file(self._home / row.folder, row)

    def _row(self, run: str) -> Run:
        with self._store.read() as tx:
            row = find_run(tx, run)
        if row is None:
            raise UnknownRun(run)
        return row

    def _claim_start(self, run: str) -> ProcessWatch | None:
        """Return a new watch for a run; None if this process has started it already."""
        with self._mutex:
            if run in self._watches:
                return None
            watch = self._watches[run] = self._new_watch(run)
            return watch

    def _new_watch(self, run: str) -> ProcessWatch:
        return ProcessWatch(run, self._clock.wakeup(), self._forget_watch)

    def _forget_watch(self, watch: ProcessWatch) -> None:
        with self._mutex:
            if watch.has_exited and self._watches.get(watch.run) is watch:
                del self._watches[watch.run]


def _write_spec(folder: Path, spec: Mapping[str, Any]) -> None:
    make_folder(folder)
    try:
        run_files.write_json(str(folder / run_files.SPEC_FILE), spec)
    except OSError as error:
        raise RunFilesFailed(folder / run_files.SPEC_FILE, error) from error

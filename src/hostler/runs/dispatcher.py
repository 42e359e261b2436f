"""Start agents on this machine: spawn a shim, attach to it, let it go."""

from __future__ import annotations

import json
import os
import select
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hostler.agents.errors import RunFilesFailed
from hostler.clock import Clock
from hostler.runs import transitions
from hostler.runs.interfaces import (
    Happening,
    InTransaction,
    Observer,
    Step,
    What,
    do_nothing,
    ignore_step,
)
from hostler.runs.process_watch import ProcessWatch, Watcher, notify_stop, reap, watch_existing
from hostler.runs.run_folder import make_folder, shim_in, shim_of, show
from hostler.runs.states import FenceLost, ShimRefused, StopUnheard, UnknownRun
from hostler.shim import command, run_files
from hostler.shim.supervisor import EXIT_TAKEN, EXIT_USED
from hostler.store import Store
from hostler.store.runs import Run, RunState, find_run

# A machine under load starts a shim within seconds; one that says nothing for this long hangs.
PATIENCE_SECONDS = 60.0
LONGEST_SAYING = 65_536
# In the place of an exit code: the system would not even start it.
NOT_SPAWNED = -1
# What the dynamic loader may need to find Python's own libraries.
LOADER = ("LD_LIBRARY_PATH",)


class Spawned:
    """A shim of ours, to be left by `hand_over` and `go`, or else by `discard`."""

    def __init__(self, run: str, pid: int, go: int, said: int, complaint: int) -> None:
        self.run = run
        self.pid = pid
        # Nobody else waits for our children, so the pid is still ours here.
        self._pidfd = os.pidfd_open(pid)
        self._pipes: tuple[int, ...] = (go, said, complaint)

    def ready(self) -> dict[str, Any]:
        """Wait until it has the lock; its identity. `ShimRefused`: it left, and was reaped."""
        line = self._hear(self._pipes[1])
        if line.endswith(b"\n"):
            found: dict[str, Any] = json.loads(line)
            return found
        sentence = self._hear(self._pipes[2]).decode("utf-8", "replace").strip()
        raise ShimRefused(self.run, self.discard(), sentence)

    def hand_over(self) -> int:
        """The descriptor of its process, for whoever watches and reaps it from now on."""
        pidfd, self._pidfd = self._pidfd, -1
        return pidfd

    def go(self) -> None:
        """Let it start its agent. If it is gone, that is found out where its end is looked for."""
        try:
            os.write(self._pipes[0], b"g")
        except BrokenPipeError:
            pass
        finally:
            self._close_pipes()

    def discard(self) -> int | None:
        """Let go of it: before go, it leaves without an agent. Its code, where we saw it leave."""
        self._close_pipes()
        if self._pidfd < 0:
            return None
        if not _readable(self._pidfd):
            # It hangs, and has no agent yet.
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        code = reap(self._pidfd)
        os.close(self.hand_over())
        return code

    def _close_pipes(self) -> None:
        for descriptor in self._pipes:
            os.close(descriptor)
        self._pipes = ()

    def _hear(self, descriptor: int) -> bytes:
        """One line; less at the end of the pipe, or when nothing comes."""
        heard = b""
        while not heard.endswith(b"\n") and len(heard) < LONGEST_SAYING and _readable(descriptor):
            if not (more := os.read(descriptor, LONGEST_SAYING)):
                break
            heard += more
        return heard


def spawn(run: str, folder: str, environment: Mapping[str, str]) -> Spawned:
    """Start a shim in a session of its own, with no descriptor of ours but three pipes."""
    (heard_go, go), (said, say), (complaint, complain) = os.pipe(), os.pipe(), os.pipe()
    theirs = (heard_go, say, complain)
    argv = command(folder)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(theirs)]
        pid = os.posix_spawn(argv[0], argv, environment, file_actions=actions, setsid=True)
    except OSError as error:
        for descriptor in (go, said, complaint):
            os.close(descriptor)
        raise ShimRefused(run, NOT_SPAWNED, f"it cannot be started: {error.strerror}.") from error
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    return Spawned(run, pid, go, said, complaint)


def shim_environment(ours: Mapping[str, str], inherit: object) -> dict[str, str]:
    """What a shim gets of our environment: the values that it hands on, and no other."""
    names = [*LOADER, *(inherit if isinstance(inherit, list) else ())]
    return {name: ours[name] for name in names if name in ours}


def _readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(PATIENCE_SECONDS * 1000))


# A hint that nobody asked for in time is no loss: rows and folders are the truth.
MAX_EVENTS = 1024


class LocalDispatcher:
    """The dispatcher for agents on this machine. Close it to stop watching; agents go on."""

    def __init__(
        self,
        home: Path,
        store: Store,
        clock: Clock,
        *,
        attached: InTransaction = do_nothing,
        environment: Mapping[str, str] | None = None,
        observer: Observer = ignore_step,
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
        self._eyes: dict[str, ProcessWatch] = {}
        self._happenings: deque[Happening] = deque(maxlen=MAX_EVENTS)
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
            if refused.code not in {EXIT_TAKEN, EXIT_USED}:
                raise

    def attach(self, run: str) -> ProcessWatch:
        """Watch a run, whoever started it."""
        row = self._row(run)
        with self._mutex:
            if run in self._eyes:
                return self._eyes[run]
            eye = self._eyes[run] = self._eye(run)
        folder = self._home / row.folder
        # The file is the agent's to change; it is asked only while there can be no agent.
        with self._giving_up(eye):
            watch_existing(
                self._watcher, folder, shim_of(row) or shim_in(folder), self._on_end(eye)
            )
        return eye

    def cancel(self, run: str, grace: float) -> None:
        """Tell a run's shim of its stop; a shorter grace hurries an earlier one."""
        row = self._row(run)
        folder = self._home / row.folder
        if not folder.is_dir():
            return  # nothing was started yet, and the row keeps it so
        asked = {"why": row.stop_why or "cancelled", "grace_seconds": grace}
        try:
            run_files.write_json(str(folder / run_files.STOP_FILE), asked)
        except OSError as error:
            raise StopUnheard(run, error) from error
        if known := shim_of(row) or shim_in(folder):
            notify_stop(known)

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

    def _start(self, row: Run, spec: Mapping[str, Any], eye: ProcessWatch) -> None:
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
    def _giving_up(self, eye: ProcessWatch) -> Iterator[None]:
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
            row = transitions.begin(tx, row, shim)
        self._observe(Step.STARTING, row.run)
        with self._store.write() as tx:
            row = transitions.attach(tx, row)
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

    def _claim(self, run: str) -> ProcessWatch | None:
        """The eye on a run that we are the first here to start."""
        with self._mutex:
            if run in self._eyes:
                return None
            eye = self._eyes[run] = self._eye(run)
            return eye

    def _eye(self, run: str) -> ProcessWatch:
        return ProcessWatch(run, self._clock.wakeup(), self._let_go_of)

    def _let_go_of(self, eye: ProcessWatch) -> None:
        with self._mutex:
            if eye.over and self._eyes.get(eye.run) is eye:
                del self._eyes[eye.run]

    def _on_end(self, eye: ProcessWatch) -> Callable[[int | None], None]:
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
        run_files.write_json(str(folder / run_files.SPEC_FILE), spec)
    except OSError as error:
        raise RunFilesFailed(folder / run_files.SPEC_FILE, error) from error

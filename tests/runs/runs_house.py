"""A house for runs: a home with a database, real shims, and an agent that does as it is told."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import insert
from sqlalchemy import select as choose

from hostler.agents.assignment import Assignment, Launch, RunLimits
from hostler.agents.prepare import prepare_launch
from hostler.clock import Clock, SystemClock
from hostler.config.settings import Agent
from hostler.runs import LocalDispatcher, NewRun, RunPlan, RunStep, Supervisor, admit_run, recover
from hostler.runs.outcome import ProviderSignals
from hostler.shim import processes, run_files
from hostler.store import Patience, Transaction, open_store
from hostler.store.runs import Run, find_run, runs_of
from hostler.store.schema import store_meta
from started_processes import started_with

PATIENT = Patience(queue_seconds=60.0, begin_seconds=60.0)
# A test that waits in vain must fail with a message, not hang.
PATIENCE = 60.0
TOKEN = "RUNS_TEST_TOKEN"
PROGRAM = Path(__file__).parent / "runs_agent.py"


class Pipe:
    """Lines that cross processes, in the order in which they were sent."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            os.mkfifo(path)
        # Open for both: the end never comes, and nobody waits for the other side.
        self._pipe = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._rest = b""

    def send(self, *words: object) -> None:
        os.write(self._pipe, (" ".join(map(str, words)) + "\n").encode())

    def next(self) -> list[str]:
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._pipe], [], [], PATIENCE)
            assert ready, f"nothing was said within {PATIENCE} s"
            self._rest += os.read(self._pipe, 65536)
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode().split()

    def drain(self) -> None:
        """Forget what nobody has read."""
        while select.select([self._pipe], [], [], 0)[0]:
            os.read(self._pipe, 65536)

    def close(self) -> None:
        os.close(self._pipe)


@dataclass
class Service:
    """What a service has for runs, and its callbacks, which store rows: a second one fails."""

    home: Path
    place: Path
    token: str
    clock: Clock = field(default_factory=SystemClock)
    observer: Callable[[RunStep, str], None] = lambda step, run: None
    how: str = "wait"
    program: str = sys.executable
    read_seconds: float = 0.1
    limits: RunLimits = field(default_factory=lambda: RunLimits(grace_seconds=0.2))
    scopes: tuple[str, ...] = ()
    launched: Callable[[Run], None] = lambda run: None
    finished: Callable[[Run], None] = lambda run: None

    def __post_init__(self) -> None:
        self.store = open_store(self.home, clock=self.clock, patience=PATIENT)
        self.dispatcher = LocalDispatcher(
            self.home,
            self.store,
            self.clock,
            on_attach=Effect("attached").apply,
            environment=self.environment(),
            observer=self.observer,
        )
        self.boss = Supervisor(
            self.home,
            self.store,
            self.dispatcher,
            self,
            read_seconds=self.read_seconds,
            grace_seconds=0.2,
            observer=self.observer,
        )

    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], TOKEN: self.token, "GITHUB_TOKEN": "not-for-agents"}

    def launch(self, run: Run) -> Launch:
        self.launched(run)
        folder = self.home / run.folder
        agent = Agent(
            kind="scripted",
            command=[self.program, "-I", "-S", str(PROGRAM)],
            script=str(self.place),
            extra_args=[self.how],
            env=[TOKEN],
        )
        work = Assignment(
            run=run.run,
            task=run.task_id,
            project=run.project,
            attempt=run.attempt,
            home=self.home,
            task_dir=folder.parent.parent,
            run_dir=folder,
            checkout=self.place,
            prompt="Mend the fence.",
            limits=self.limits,
        )
        return prepare_launch(agent, work, self.environment())

    def finish(self, run: Run, verdict: Any) -> Effect:
        self.finished(run)
        return Effect("ended")

    def plan_signals(self, run: Run, signals: ProviderSignals) -> RunPlan | None:
        return None

    def release(self, tx: Transaction, run: Run) -> None:
        Effect("released").apply(tx, run)

    def requeue(self, tx: Transaction, run: Run) -> None:
        Effect("requeued").apply(tx, run)

    def admit_run(self, task: str = "t1") -> Run:
        new = NewRun(task, "p", kind="work", agent="tester", agent_kind="scripted", pool="none")
        with self.store.write("admission") as tx:
            return admit_run(tx, new)

    def row(self, run: str) -> Run:
        with self.store.read() as tx:
            found = find_run(tx, run)
        assert found
        return found

    def runs(self, task: str = "t1") -> list[Run]:
        with self.store.read() as tx:
            return runs_of(tx, task)

    def effects(self, run: Run) -> list[str]:
        """What hooks stored for a run, in the order of the alphabet."""
        with self.store.read() as tx:
            keys = tx.execute(choose(store_meta.c.key)).scalars()
            return sorted(key.split()[0] for key in keys if key.endswith(f" {run.run}"))

    def settle(self) -> list[Run]:
        """What a restarted service does first."""
        return [self.boss.resume(found.run) for found in recover(self.home, self.store)]

    def until_success(self, task: str = "t1", most: int = 4) -> list[Run]:
        """Go on with a task as long as it takes; all of its runs."""
        self.settle()
        while not (found := self.runs(task)) or found[-1].outcome != "success":
            assert len(found) < most, [(run.outcome, run.why) for run in found]
            self.boss.supervise(self.admit_run(task))
        return found

    def close(self) -> None:
        self.dispatcher.close()
        self.store.close()


@dataclass
class House(Service):
    """A service in the test itself, with ears for the agents."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.events = Pipe(self.place / "events")
        self.orders = Pipe(self.place / "orders")
        self._workers = ThreadPoolExecutor(max_workers=4)

    def start(self, run: Run) -> Future[Run]:
        """Supervise it in a worker."""
        return self._workers.submit(self.boss.supervise, run)

    def go_on(self, run: Run) -> Future[Run]:
        """Resume it in a worker."""
        return self._workers.submit(self.boss.resume, run)

    def hear(self, name: str) -> processes.Process:
        """Wait until somebody says this name and its pid."""
        while True:
            said, *rest = self.events.next()
            if said == name:
                process = (
                    processes.read_process(int(rest[0]))
                    if rest
                    else processes.read_process(os.getpid())
                )
                assert process, f"{name} is gone already"
                return process

    def lives(self) -> list[list[str]]:
        """What agents noted about themselves."""
        file = self.place / "lives"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []

    def begun(self) -> int:
        """How many agents ever lived; no two of them at a time."""
        assert not [line for line in self.lives() if line[0] == "overlap"]
        return len([line for line in self.lives() if line[0] == "begin"])

    def shim_of(self, folder: Path) -> processes.Process:
        """The run's shim, found by its command line."""
        for process in processes.read_process_table().values():
            words = _read(process.pid, "cmdline")
            if not process.zombie and str(folder).encode() in words and b"shim" in words:
                return process
        raise AssertionError("no shim")

    def left(self) -> list[processes.Process]:
        """Living processes that come from this test, but for services in processes of ours."""
        return started_with(f"{TOKEN}={self.token}")

    def end(self) -> list[processes.Process]:
        """Close everything; who was left that should not have been."""
        left = self.left()
        for process in left:
            processes.send_signal(process, signal.SIGKILL)
        self._workers.shutdown()
        self.close()
        self.events.close()
        self.orders.close()
        return left


@dataclass(frozen=True)
class Effect:
    """Stores a row. The database refuses the second one of a name for the same run."""

    name: str

    def apply(self, tx: Transaction, run: Run) -> None:
        tx.execute(insert(store_meta), {"key": f"{self.name} {run.run}", "value": run.state.value})


def gone(process: processes.Process) -> bool:
    """Whether that very process has ended."""
    now = processes.read_process(process.pid)
    return now is None or now.key != process.key or now.zombie


def await_end(process: processes.Process) -> None:
    """Wait until a process has ended."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        if not gone(process):
            assert select.select([pidfd], [], [], PATIENCE)[0], f"{process.name} does not end"
    finally:
        os.close(pidfd)


def stop_file(folder: Path) -> dict[str, Any] | None:
    return run_files.read_json(str(folder / run_files.STOP_FILE))


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""

"""One life of the service, in a process of its own: it is told what to do, and dies at any step.

Everything that it knows of the host goes through a pipe, so that the host outlives it.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import suppress
from datetime import datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from hostler.agents.outcomes import Outcome
from hostler.agents.result import AgentResult
from hostler.agents.verdict import DecidedBy, RunVerdict
from hostler.checkouts.names import Sha
from hostler.clock import FakeClock
from hostler.config.settings import Tasks
from hostler.errors import NotFound
from hostler.forge.github.polling.context import PollContext
from hostler.forge.github.polling.poller import Poller, PollPlan
from hostler.forge.outbox.rules import OutboxPolicy
from hostler.forge.outbox.sender import OutboxSender
from hostler.forge.port import RequestCost
from hostler.intake.model import EVENT_KINDS
from hostler.intake.repo_policy import RepoPolicy
from hostler.model import RepoName
from hostler.store import Patience, open_store
from hostler.store.engine import sqlite
from hostler.store.inbox import rows_to_look_at
from hostler.store.pull_requests import PullStatus, find_pull
from hostler.store.tasks import TaskState, require_task, tasks_in
from hostler.workflows.commands import CommandRefused
from hostler.workflows.effects import apply_transition, handle_settled_write
from hostler.workflows.finish import FinishedWork, WorkDelivery, decide_after_delivery
from hostler.workflows.ingest import ingest_events
from hostler.workflows.outcomes import RunEndFacts, decide_after_run
from hostler.workflows.resume import NoSuchPull, NotResumed, ResumeRequest, resume_pull, unblock
from hostler.workflows.turns import STARTABLE, begin_turn, load_turn_input, pending_event_keys

PATIENT = Patience(queue_seconds=60.0, begin_seconds=60.0)
SCOPES = ("tasks", "outbox")
BOT = "hostler-bot"
ENDLESS = Tasks(max_restarts=100_000, exits_without_progress=1000)
DONE = RunVerdict(
    Outcome.SUCCESS,
    DecidedBy.RESULT,
    "It says so.",
    AgentResult.model_validate({"status": "done", "pr_title": "Mend it", "summary": "Mended."}),
)
STUCK = RunVerdict(
    Outcome.BLOCKED,
    DecidedBy.RESULT,
    "It says so.",
    AgentResult.model_validate({"status": "blocked", "summary": "No key."}),
)
CUT = RunVerdict(Outcome.CRASH, DecidedBy.EXIT_CODE, "It was cut off.")
REFUSALS = (NotResumed, CommandRefused, NoSuchPull)


class Switch:
    """Kills this process at a step that was chosen before: a statement, or a word to the host."""

    def __init__(self) -> None:
        self.left = 0

    def step(self, _what: object = None) -> None:
        if self.left:
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)


class Far:
    """The host, as seen through the pipe."""

    def __init__(self, pipe: Connection, switch: Switch) -> None:
        self._pipe = pipe
        self._switch = switch

    def own_login(self) -> str:
        return BOT

    def was_renamed(self) -> bool:
        return False

    def cost(self) -> RequestCost:
        return RequestCost(0, None)

    def __getattr__(self, name: str) -> Any:
        def ask(*given: Any, **named: Any) -> Any:
            self._switch.step()
            self._pipe.send(("ask", name, given, named))
            found, answer = self._pipe.recv()
            self._switch.step()
            if not found:
                raise NotFound(name, 404, "Not Found")
            return answer

        return ask


class Life:
    """A service without its scheduler: each step of it is a command."""

    def __init__(
        self, pipe: Connection, home: Path, repo: RepoName, plan: PollPlan, near: Any = None
    ) -> None:
        """`near`: the host itself, where it is in the same process."""
        self.pipe, self.repo = pipe, repo
        self.switch, self.clock = Switch(), FakeClock()
        self.forge: Any = near or Far(pipe, self.switch)
        self._trace()
        self.store = open_store(home, clock=self.clock, patience=PATIENT)
        tap = PollContext(self.store, self.forge, repo, settled=handle_settled_write, scopes=SCOPES)
        self.poller = Poller(tap, plan)
        self.watch = RepoPolicy(repo, "stable", frozenset({"ann", "bob"}), agent="helper")
        self.sender = OutboxSender(
            self.store,
            lambda _: self.forge,
            self.clock,
            OutboxPolicy(),
            handle_settled_write,
            scopes=("tasks",),
        )

    def serve(self) -> None:
        """Do as told until the pipe ends."""
        while True:
            try:
                name, now, given = self.pipe.recv()
            except EOFError:
                return
            self.set(now)
            getattr(self, name)(*given)
            self.pipe.send(("done",))

    # -- commands -----------------------------------------------------------------------------

    def arm(self, steps: int, seconds: float) -> None:
        """Die after so many steps, or at a moment that nobody chose."""
        self.switch.left = steps
        if seconds:
            # Whose default is to end the process where it stands, as a kill does.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def poll(self) -> None:
        """A look as the service takes one, and what follows from it."""
        found = self.poller.poll()
        self.pipe.send(("polled", found.differences))
        with self.store.read() as tx:
            waiting_ = rows_to_look_at(tx, self.repo, EVENT_KINDS)
        if waiting_:
            ingest_events(self.store, self.forge, self.watch)
        self.send()

    def send(self) -> None:
        self.sender.send_due()

    def work(self) -> None:
        """Every task that can begin a turn does, and ends it."""
        self.recover()
        with self.store.read() as tx:
            ready = tasks_in(tx, tuple(STARTABLE), self.repo)
        for task in ready:
            self.forge.push(self._begin(task.id))
            self._deliver(task.id)

    def block(self, which: int) -> None:
        """An agent's turn ends with a block, if one can begin."""
        self.recover()
        with self.store.read() as tx:
            ready = tasks_in(tx, tuple(STARTABLE), self.repo)
        if ready:
            task = ready[which % len(ready)]
            self._begin(task.id)
            self._end(task.id, STUCK)

    def unblock(self, which: int) -> None:
        """The operator lets something blocked go on."""
        with self.store.read() as tx:
            stuck = tasks_in(tx, (TaskState.BLOCKED,), self.repo)
        for task in stuck[which % len(stuck) :][:1] if stuck else []:
            with suppress(*REFUSALS):
                unblock(self.store, self.forge, self.watch, task, ResumeRequest("ann"))

    def catch_up(self) -> None:
        """Everything that is blocked goes on, and everybody works."""
        with self.store.read() as tx:
            count = len(tasks_in(tx, (TaskState.BLOCKED,), self.repo))
        for place in range(count):
            self.unblock(count - 1 - place)
        self.work()

    def resume(self, number: int) -> None:
        """The operator wants a closed pull request to be watched again."""
        with self.store.read() as tx:
            pull = find_pull(tx, self.repo, number)
        if pull is not None and pull.status is PullStatus.CLOSED:
            with suppress(*REFUSALS):
                resume_pull(self.store, self.forge, self.watch, number, ResumeRequest("ann"))

    def recover(self) -> None:
        """Turns whose process is gone have ended."""
        with self.store.read() as tx:
            cut = tasks_in(tx, (TaskState.RUNNING,), self.repo)
        for task in cut:
            self._end(task.id, CUT)

    # -----------------------------------------------------------------------------------------

    def _begin(self, task: str) -> str:
        with self.store.write(*SCOPES) as tx:
            return begin_turn(tx, require_task(tx, task)).branch

    def _deliver(self, name: str) -> None:
        work = FinishedWork(Sha("1" * 40), "main", "1" * 40, has_commits=True)
        with self.store.write(*SCOPES) as tx:
            task = require_task(tx, name)
            more = bool(set(pending_event_keys(tx, task)) - set(task.turn_keys))
            delivery = WorkDelivery(work, DONE, load_turn_input(tx, task).comments, more)
            apply_transition(
                tx, task, decide_after_delivery(task, delivery, RunEndFacts(tx.now()), ENDLESS)
            )

    def _end(self, name: str, verdict: RunVerdict) -> None:
        with self.store.write(*SCOPES) as tx:
            task = require_task(tx, name)
            apply_transition(
                tx, task, decide_after_run(task, verdict, RunEndFacts(tx.now()), ENDLESS)
            )

    def set(self, now: datetime) -> None:
        """Our clock, which may jump."""
        ahead = (now - self.clock.now()).total_seconds()
        if ahead >= 0:
            self.clock.advance(ahead)
        else:
            self.clock.jump(ahead)

    def _trace(self) -> None:
        """SQLite tells of every statement before it runs, BEGIN and COMMIT among them."""
        connect = sqlite.connect

        def traced(*given: Any) -> sqlite3.Connection:
            connection = connect(*given)
            connection.set_trace_callback(self.switch.step)
            return connection

        sqlite.connect = traced


def live(pipe: Connection, home: Path, repo: RepoName, plan: PollPlan) -> None:
    """A forked child's whole life."""
    code = 1
    try:
        Life(pipe, home, repo, plan).serve()
        code = 0
    except Exception:
        import traceback

        with suppress(OSError):
            pipe.send(("failed", traceback.format_exc()))
    finally:
        os._exit(code)

"""Reading the service's database and its agents' words. Nothing is written here."""

from __future__ import annotations

from pathlib import Path

from hostler.agents.events import Text
from hostler.agents.lines import Stream, Tail
from hostler.agents.wire import decode
from hostler.cli.demo.sight import House, RunSeen, TaskSeen
from hostler.errors import StoreError
from hostler.store import Store, Transaction, open_store
from hostler.store.outbox import open_writes
from hostler.store.runs import Run, RunState, runs_of
from hostler.store.tasks import Task, TaskState, tasks_in


class HouseEyes:
    """Looks into a home. Until its database is there, there is nothing to see."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._store: Store | None = None
        self._mark = 0
        self._tails: dict[str, Tail] = {}
        self._words: dict[str, tuple[str, ...]] = {}
        self._silent: set[str] = set()

    def close(self) -> None:
        """Close the database."""
        if self._store is not None:
            self._store.close()

    def look(self) -> House:
        """What is stored now."""
        if self._store is None and not self._open():
            return House()
        assert self._store is not None
        # Before reading: what is committed meanwhile ends the next wait at once.
        self._mark = self._store.change_mark()
        with self._store.read() as tx:
            return House(
                tasks=tuple(self._task(tx, task) for task in tasks_in(tx, list(TaskState))),
                unsent=len(open_writes(tx)),
            )

    def wait(self, seconds: float) -> bool:
        """Wait until something was stored after the last look; False if there is no database."""
        if self._store is None:
            return False
        self._store.wait_for_change(self._mark, seconds)
        return True

    def _open(self) -> bool:
        try:
            self._store = open_store(self._home)
        except StoreError:
            return False  # The service makes it when it starts.
        return True

    def _task(self, tx: Transaction, task: Task) -> TaskSeen:
        return TaskSeen(
            id=task.id,
            repo=task.repo_full_name or "",
            issue=task.number,
            flow=task.flow.value,
            state=task.state.value,
            reason=task.question or task.reason,
            attempt=task.attempt,
            pull=task.pr_number,
            runs=tuple(self._run(run) for run in runs_of(tx, task.id)),
        )

    def _run(self, run: Run) -> RunSeen:
        if run.run not in self._silent:
            self._listen(run)
        if run.state is RunState.ENDED:
            self._silent.add(run.run)
        return RunSeen(
            run=run.run,
            state=run.state.value,
            attempt=run.attempt,
            outcome=run.outcome or "",
            words=self._words[run.run],
        )

    def _listen(self, run: Run) -> None:
        """Read on in what an agent says; the row itself hears of it every few seconds only."""
        path = self._home / run.folder / Stream.STDOUT
        tail = self._tails.setdefault(run.run, Tail(path, Stream.STDOUT, 0))
        events = [decode(line.text) for line in tail.lines()]
        said = tuple(event.text for event in events if isinstance(event, Text))
        self._words[run.run] = self._words.get(run.run, ()) + said

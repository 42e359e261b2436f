"""One campaign: people, chaos and a service, until every story is told and all is quiet."""

from __future__ import annotations

import fcntl
import json
import math
import os
import random
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from soak_chaos import Chaos
from soak_people import People, Tale
from soak_plan import Story, plan_of
from soak_sizes import Size
from soak_town import OWNER, US, Town, founded

from hostler.model import RepoName
from hostler.store import Transaction
from hostler.store.governor import all_leases
from hostler.store.inbox import pending_inbox_rows
from hostler.store.operator import OPEN, CommandRow, CommandStatus, commands_in
from hostler.store.outbox import open_writes
from hostler.store.runs import live_runs, open_runs
from hostler.store.tasks import Task, TaskState, tasks_in

MOVING = (TaskState.QUEUED, TaskState.RUNNING, TaskState.RETRYING, TaskState.PARKED)
TABLE_EVERY = 8


@dataclass
class Samples:
    """What can only be seen while it lasts."""

    # Agents that lived before and after a look at the rows, which did not have them.
    homeless: list[str] = field(default_factory=list)
    # Command lines of our processes, each once.
    argv: set[bytes] = field(default_factory=set)
    ticks: int = 0


class Campaign:
    """A town and everything that happens there."""

    def __init__(self, town: Town, seed: int) -> None:
        self.town = town
        self.size = town.size
        self.seed = seed
        self.plan: list[Story] = plan_of(seed, town.size)
        self.tales: list[Tale] = []
        self.people = People(town)
        self.chaos = Chaos(town, random.Random(seed + 1))
        self.samples = Samples()
        # By a signal and a new start; and how often a restart was tried in either way.
        self.replaced = self.restarts_tried = 0
        self._began = time.monotonic()
        self.seconds = 0.0

    def play(self) -> None:
        """From the first start to the last end of the service."""
        self.town.start()
        while not self._all_told():
            mark = self.town.store.change_mark()
            self._tick()
            self._wait(mark)
        self.chaos.calm()
        self._settle()
        self.town.leave()
        self.seconds = time.monotonic() - self._began

    # -- while it lasts -----------------------------------------------------------------------

    def _tick(self) -> None:
        tasks = self._tasks()
        hung = {one["task"] for one in self.town.stamps() if one["word"] == "hang"}
        self._file()
        for tale in self.tales:
            while not tale.told and self.people.carry_on(tale, tasks.get(tale.key), hung):
                # What follows an act is seen in the next look at the rows.
                if tale.step in WAITS:
                    break
        self._strike()
        self._sample()

    def _file(self) -> None:
        open_tales = sum(not tale.told for tale in self.tales)
        missing = min(self.size.abreast - open_tales, len(self.plan) - len(self.tales), 3)
        for story in self.plan[len(self.tales) :][: max(0, missing)]:
            self.tales.append(self.people.file(story))

    def _strike(self) -> None:
        progress = min(1.0, self._told() / (self.size.well_on * len(self.plan)))
        due = math.ceil(self.size.faults * min(1.0, progress + 0.1))
        self.chaos.trouble(due, reads_alone=progress == 1.0)
        if sum(self.chaos.kills.values()) < math.ceil(self.size.kills * progress):
            self.chaos.strike(anybody=self._told() == len(self.plan))
        due = self.restarts() < self.size.restarts * progress
        # One that has just been started is not asked to leave: it could not hear it yet.
        if due and not self._restarts_now() and self.town.at_work():
            self.restarts_tried += 1
            self._restart()

    def _restart(self) -> None:
        """By a signal and a new start, or by an operator's word, which replaces the process."""
        if self.restarts_tried % 2 == 0:
            self.chaos.replace_service()
            self.replaced += 1
            return
        tale = next((one for one in reversed(self.tales) if one.story.eligible), None)
        task = tale and self._tasks().get(tale.key)
        if tale and task:
            self.people.command(tale, task, "restart")

    def restarts(self) -> int:
        """Those that happened: a word that came to nothing, because somebody killed, is none."""
        return self.replaced + len(self._restart_commands((CommandStatus.APPLIED,)))

    def _restarts_now(self) -> bool:
        return bool(self._restart_commands(OPEN))

    def _restart_commands(self, states: Collection[CommandStatus]) -> list[CommandRow]:
        with self.town.store.read() as tx:
            repos = [RepoName.parse(f"{OWNER}/{name}") for name in self.town.ids]
            found = [row for repo in repos for row in commands_in(tx, repo, tuple(states))]
        return [row for row in found if row.verb == "restart"]

    def _sample(self) -> None:
        before = self._alive()
        with self.town.store.read() as tx:
            homes = {run.run for run in live_runs(tx)} & {one.lease for one in all_leases(tx)}
        lasting = before & self._alive()
        self.samples.homeless += sorted(lasting - homes)
        self.samples.ticks += 1
        # Reading the whole table costs more than all the rest of a tick.
        if self.samples.ticks % TABLE_EVERY == 0:
            self.samples.argv |= {_cmdline(process.pid) for process in self.town.left()}

    def _alive(self) -> set[str]:
        """Runs whose agent, or anything that it has started, lives: somebody holds its lock."""
        return {path.name for path in (self.town.place / "alive").iterdir() if _held(path)}

    # -- the end ------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Until nothing moves, and every repository was looked at twice more."""
        while True:
            mark = self.town.store.change_mark()
            if self._quiet():
                self._until_looked(self._looks())
                if self._quiet():
                    return
            self._wait(mark)

    def _until_looked(self, before: Counter[str]) -> None:
        names = [f"{OWNER}/{name}" for name in self.town.ids]
        while True:
            mark = self.town.store.change_mark()
            now = self._looks()
            if all(now[name] >= before[name] + 2 for name in names):
                return
            self._wait(mark)

    def _looks(self) -> Counter[str]:
        """How often the service has asked for each repository's issues."""
        asked = self.town.asked(login=US, method="GET", route="/repos/{owner}/{repo}/issues")
        return Counter("/".join(one.path.split("/")[2:4]) for one in asked)

    def _quiet(self) -> bool:
        with self.town.store.read() as tx:
            return not (
                open_runs(tx)
                or open_writes(tx)
                or tasks_in(tx, MOVING)
                or any(self._waits(tx, name) for name in self.town.ids)
            )

    def _waits(self, tx: Transaction, name: str) -> bool:
        repo = RepoName.parse(f"{OWNER}/{name}")
        return bool(pending_inbox_rows(tx, repo) or commands_in(tx, repo, OPEN))

    # -- bookkeeping --------------------------------------------------------------------------

    def _tasks(self) -> dict[tuple[str, int], Task]:
        """The newest task of each issue."""
        with self.town.store.read() as tx:
            found = tasks_in(tx, tuple(TaskState))
        return {(task.repo_full_name or "", task.number): task for task in found}

    def _told(self) -> int:
        return sum(tale.told for tale in self.tales)

    def _all_told(self) -> bool:
        if len(self.tales) < len(self.plan) or self._told() < len(self.plan):
            return False
        struck = sum(self.chaos.faults().values()) >= self.size.faults
        killed = sum(self.chaos.kills.values()) >= self.size.kills
        return struck and killed and self.restarts() >= self.size.restarts

    def _wait(self, mark: int) -> None:
        """For the next commit; a campaign that does not end has failed."""
        left = self.size.patience - (time.monotonic() - self._began)
        assert left > 0, f"it does not come to an end: {self.story()}"
        assert self.town.service.poll() is None, f"the service ended by itself: {self.story()}"
        self.town.store.wait_for_change(mark, 0.5)

    def story(self) -> str:
        """Where everything stands, for a person."""
        tasks = self._tasks()
        waiting = [
            f"{tale.key} {tale.story.kind} waits for {tale.step!r}: "
            + (f"{task.state} {task.reason} {task.gate}" if task else "no task")
            for tale in self.tales
            if not tale.told
            for task in [tasks.get(tale.key)]
        ]
        return "\n".join([str(self.counts()), *waiting[:40]])

    def counts(self) -> dict[str, object]:
        """What really happened."""
        faults = self.chaos.faults()
        begun = [one for one in self.town.stamps() if one["word"] == "begin"]
        return {
            "seed": self.seed,
            "seconds": round(self.seconds or time.monotonic() - self._began),
            "repositories": len(self.town.ids),
            "stories": f"{self._told()}/{len(self.plan)}",
            "tasks": len(self._tasks()),
            "kills": sum(self.chaos.kills.values()),
            "killed": dict(self.chaos.kills),
            "faults": sum(faults.values()),
            "struck": dict(faults),
            "restarts": self.restarts(),
            "services": len(self.town.processes),
            "runs": len(begun),
            # Whoever has the second lock has met somebody with the first.
            "together": max((one["slot"] + 1 for one in begun), default=0),
            "words": sum(len(word.versions) for tale in self.tales for word in tale.words),
            "commands": sum(len(tale.commands) for tale in self.tales),
            "rescues": sum(tale.rescues for tale in self.tales),
        }

    def write_down(self) -> None:
        """What a person needs to find out what happened, beside the home."""
        lines = "".join(json.dumps(asdict(one)) + "\n" for one in self.town.asked())
        (self.town.root / "ledger.jsonl").write_text(lines)
        (self.town.root / "counts.json").write_text(json.dumps(self.counts(), indent=1))


# Steps that wait, and must not be looked at again before the rows are.
WAITS = frozenset(
    ("pull", "question", "blocked", "stopped", "done", "answered", "obeyed", "refused", "hung")
)


@contextmanager
def campaign(root: Path, size: Size, seed: int) -> Iterator[Campaign]:
    """A campaign that has not begun; everything it starts ends with the block."""
    with founded(root, size) as town:
        made = Campaign(town, seed)
        try:
            yield made
        finally:
            made.write_down()
            made.people.close()


def _held(path: Path) -> bool:
    lock = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""

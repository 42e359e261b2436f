"""The walk of one issue, with services, shims and agents that are killed on the way."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from service_kill_child import Orders, ServiceChild, Stop
from service_kill_contact import Ear, Gate
from service_kill_nursery import Nursery
from service_kill_processes import exit_status, gone, kill
from service_town import ALICE, BOB, REPO, US, Town

from hostler.checkouts.mirror import Remote, fetch_mirror, open_mirror
from hostler.model import RepoName
from hostler.sandbox.auth import token_for
from hostler.sandbox.server import Running
from hostler.shim import processes
from hostler.store import open_store
from hostler.store.inbox import pending_inbox_rows
from hostler.store.outbox import open_writes
from hostler.store.runs import Run, open_runs, runs_of
from hostler.store.tasks import Task, TaskState, tasks_in
from started_processes import started_with

PROGRAM = Path(__file__).parent / "service_kill_agent.py"
# A restart comes so much later, for GitHub too: long enough to believe that a write is absent.
OUTAGE = 400.0
SAID, EDITED = "Please count.", "Please count twice."
# At these there is an agent: it waits until it is let on.
WITH_AGENT = ("go", "read")
# A step of the agent, not of the service: its result is written, and it has not left yet.
RESULT = "result"


@dataclass(frozen=True)
class Cut:
    """Who is killed at which step: `service`, `shim`, `agent`, some of them with `and`, `nobody`.

    `sleep`: the service is stopped instead, and another one begins. `meanwhile` is done while
    everything waits at the step.
    """

    step: str
    about: str = ""
    victims: str = "service"
    meanwhile: Callable[[], None] = lambda: None

    @property
    def stop(self) -> Stop | None:
        return Stop(self.step, self.about) if self.step != RESULT else None

    @property
    def agent_works(self) -> bool:
        return self.step in WITH_AGENT

    def kills(self, victim: str) -> bool:
        return victim in self.victims.split(" and ")


class Walk:
    """One issue, its people, and whichever service is alive."""

    def __init__(self, hub: Running, nursery: Nursery, root: Path, template: Path) -> None:
        self._nursery = nursery
        self.place = root / "place"
        self.place.mkdir()
        agent = {"kind": "command", "command": [sys.executable, "-I", "-S", str(PROGRAM)]}
        self.town = Town(
            hub,
            root,
            agent={**agent, "extra_args": [str(self.place)]},
            # We say when it looks, and strays that are deaf need no grace.
            runtime={"poll_interval_seconds": 3600, "stop_grace_seconds": 0},
        )
        (self.town.home / "hostler.db").write_bytes(template.read_bytes())
        self.store = open_store(self.town.home)
        self.alice, self.bob = self.town.person(ALICE), self.town.person(BOB)
        self.gate, self.exit = Gate(self.place / "gate"), Gate(self.place / "exit")
        self.ear = Ear(self.place / "events")
        self.children: list[ServiceChild] = []
        self.sleepers: list[tuple[ServiceChild, str]] = []
        self.later = 0.0
        self._agent: processes.Process | None = None
        self.agents_lost = 0
        self.issue = self.pull = self.remark = 0

    # -- the four things that people do -------------------------------------------------------

    def file(self, *cuts: Cut) -> None:
        """An issue becomes a pull request."""
        self.issue = self.alice.file("Work", "agent:small-job")
        self._go(cuts, lambda: self.task_is(TaskState.AWAITING_FEEDBACK) and self._has_pull())
        self.pull = self.task().pr_number or 0

    def say(self, *cuts: Cut) -> None:
        """A remark is answered."""
        self.remark = self.bob.remark(self.pull, SAID, "work.log")
        self._go(cuts, lambda: self._answers() == 1)

    def edit(self, *cuts: Cut) -> None:
        """An edited remark is answered again."""
        self.bob.edit_remark(self.remark, EDITED)
        self._go(cuts, lambda: self._answers() == 2)

    def merge(self, *cuts: Cut) -> None:
        """A merge ends the task."""
        self.bob.merge(self.pull)
        self._go(cuts, lambda: self.task_is(TaskState.DONE))

    def _go(self, cuts: tuple[Cut, ...], over: Callable[[], bool]) -> None:
        self._prepare(cuts)
        stops = [*(cut.stop for cut in cuts), None]
        self.look(stops[0])
        for number, cut in enumerate(cuts, 1):
            self._strike(cut, stops[number])
            if not any(later.agent_works for later in cuts[number:]):
                self.gate.open()
        self.child.until(lambda: self.rests() and over(), "end of the act")

    def _prepare(self, cuts: tuple[Cut, ...]) -> None:
        if any(cut.agent_works for cut in cuts):
            self.gate.shut()
        if any(cut.step == RESULT for cut in cuts):
            self.exit.shut()

    # -- services -----------------------------------------------------------------------------

    @property
    def child(self) -> ServiceChild:
        return self.children[-1]

    def start(self, stop: Stop | None = None, *, locked: bool = True) -> None:
        """A service that works, until it has done a step."""
        settings = self.town.settings()
        orders = Orders(self.town.home, settings, self.later, locked=locked, stop=stop)
        self.children.append(ServiceChild(self._nursery, orders))

    def look(self, stop: Stop | None = None) -> None:
        """Have it look at GitHub; the first one looks by itself."""
        if not self.children:
            self.start(stop)
            return
        self.child.arm(stop)
        self.child.poll()

    def see_all(self) -> None:
        """Wait for a look that began after this; the first to end may have begun before."""
        for _ in range(2):
            self.look(Stop("heard"))
            self.child.stopped()
            self.child.go_on()

    def replace(self, stop: Stop | None, *, locked: bool = True) -> None:
        """Somebody starts the next service, after a while."""
        self.later += OUTAGE
        self.town.hub.control.post("/clock", json={"advance": OUTAGE}).raise_for_status()
        self.start(stop, locked=locked)

    def wake(self, sleeper: ServiceChild) -> None:
        """Let one go on that believes that no time has passed."""
        sleeper.send(signal.SIGCONT)
        sleeper.go_on()

    # -- killing ------------------------------------------------------------------------------

    def _strike(self, cut: Cut, following: Stop | None) -> None:
        about = self.child.stopped() if cut.stop is not None else ""
        agent = self._agent_at(cut)
        if cut.kills("shim"):
            run = about or self.runs()[-1].run
            self._kill_shim(run, with_child=cut.agent_works)
            # What the shim had said is still in the pipe: its service may do more steps with it.
            following = following and replace(following, passed=run)
        if cut.kills("agent"):
            assert agent is not None
            kill(agent)
        if cut.kills("service"):
            self.child.kill()
        self._count(cut, agent)
        cut.meanwhile()
        self._go_on(cut, about, following)
        self.exit.open()

    def _agent_at(self, cut: Cut) -> processes.Process | None:
        if cut.step == RESULT:
            return self.ear.hear("said")
        if not cut.agent_works:
            return None
        # One that outlived its service has said so before.
        if self._agent is None or gone(self._agent):
            self._agent = self.ear.hear("here")
        return self._agent

    def _kill_shim(self, run: str, *, with_child: bool) -> None:
        """The kernel ends the agent with it; what the agent had started is left."""
        shim = self._shim(run)
        child = self.ear.hear("child") if with_child else None
        kill(shim)
        assert child is None or not gone(child)

    def _shim(self, run: str) -> processes.Process:
        """Return the shim of a run; an earlier service may have started it."""
        (shim,) = filter(None, (child.stored_shim(run) for child in self.children))
        assert not gone(shim), f"the shim of {run} left by itself, with {exit_status(shim)}"
        return shim

    def _count(self, cut: Cut, agent: processes.Process | None) -> None:
        if agent is None or not (cut.kills("shim") or cut.kills("agent")):
            assert agent is None or not gone(agent), "a service took its agent along"
        elif cut.step != RESULT:
            self.agents_lost += 1

    def _go_on(self, cut: Cut, about: str, following: Stop | None) -> None:
        if cut.kills("service"):
            self.replace(following)
        elif cut.kills("sleep"):
            self._put_to_sleep(cut, about)
            # The lock of the home would keep a second one out: here, what else does is asked.
            self.replace(following, locked=False)
        else:
            self.child.arm(following)
            if cut.stop is not None:
                self.child.go_on()

    def _put_to_sleep(self, cut: Cut, about: str) -> None:
        """Outside of any transaction: a database that is locked for good would stop everybody."""
        if not cut.about:
            self.child.until(self._has_sent_all, "end of sending")
        self.child.send(signal.SIGSTOP)
        self.sleepers.append((self.child, about))

    # -- what can be seen ---------------------------------------------------------------------

    def task(self) -> Task:
        (found,) = self._tasks()
        return found

    def task_is(self, state: TaskState) -> bool:
        return [task.state for task in self._tasks()] == [state]

    def runs(self) -> list[Run]:
        with self.store.read() as tx:
            return runs_of(tx, self.task().id)

    def rests(self) -> bool:
        """Whether nothing is under way: no run, no write, nothing in the inbox."""
        repo = RepoName.parse(REPO)
        with self.store.read() as tx:
            return not (open_runs(tx) or open_writes(tx) or pending_inbox_rows(tx, repo))

    def lives(self) -> list[str]:
        """What agents noted about themselves."""
        file = self.place / "lives"
        return file.read_text().splitlines() if file.exists() else []

    def left(self) -> list[str]:
        """Processes that have to do with this home; services do not say so."""
        return [one.name for one in started_with(str(self.town.home), "cmdline", "environ")]

    def go_wrong(self, **fault: Any) -> None:
        """GitHub's next answer of a kind."""
        self.town.hub.control.post("/faults", json=fault).raise_for_status()

    def head(self) -> str:
        """Where the pull request is."""
        return str(self.alice("GET", f"/pulls/{self.pull}")["head"]["sha"])

    def forget_branch(self) -> None:
        """Delete it; the mirror hears of that as soon as another task needs it."""
        self.bob("DELETE", f"/git/refs/heads/{self.task().branch}")
        mirror = open_mirror(self.town.home / "mirrors", RepoName.parse(REPO))
        url = f"{self.town.hub.url}/{REPO}.git"
        fetch_mirror(mirror, Remote(url, token=lambda: token_for(US)))

    def close(self) -> None:
        for child in self.children:
            child.kill()
        self.gate.close()
        self.exit.close()
        self.ear.close()
        self.store.close()

    def _tasks(self) -> list[Task]:
        with self.store.read() as tx:
            return tasks_in(tx, tuple(TaskState))

    def _has_sent_all(self) -> bool:
        with self.store.read() as tx:
            return not open_writes(tx)

    def _has_pull(self) -> bool:
        return self.task().pr_number is not None

    def _answers(self) -> int:
        return len(self.bob.remarks(self.pull)) - 1


@contextmanager
def walking(hub: Running, nursery: Nursery, root: Path, template: Path) -> Iterator[Walk]:
    """A walk for the length of a block; what it started ends with it."""
    walk = Walk(hub, nursery, root, template)
    try:
        yield walk
    finally:
        walk.close()

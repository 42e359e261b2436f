"""What a decision does, as data. `applying.py` turns it into rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hostler.forge.deeds import RerunFailedJobs
from hostler.intake.operator import Asked, Misspoken
from hostler.intake.references import Named
from hostler.intake.signals import IssueSeen, Remark, RunSeen
from hostler.store.pull_requests import Floors, PullRow, PullStatus
from hostler.store.tasks import Flow, Task, TaskState


@dataclass(frozen=True, slots=True)
class Begin:
    """A new task for an issue, approved by somebody; after a design, if there is a parent.

    What follows a design waits for the same as its parent. `heard_from`: the GitHub time at which
    a takeover of the issue ends; empty: when the issue last changed.
    """

    flow: Flow
    issue: IssueSeen
    approved_by: str
    parent: Task | None = None
    waits_for: Named = field(default_factory=Named)
    heard_from: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """A task changes its state."""

    task: Task
    state: TaskState
    reason: str
    question: str = ""


@dataclass(frozen=True, slots=True)
class Reword:
    """A task works from another version of its issue from now on.

    None: it waits for what it waited for.
    """

    task: Task
    issue: IssueSeen
    waits_for: Named | None = None


@dataclass(frozen=True, slots=True)
class Hear:
    """Words for a task. `pull` is 0 where they were said on its issue."""

    task: Task
    remark: Remark
    pull: int


@dataclass(frozen=True, slots=True)
class Redirect:
    """Tell somebody that the talk goes on at the pull request."""

    task: Task
    remark: Remark
    pull: int


@dataclass(frozen=True, slots=True)
class PullIs:
    """A pull request changes its status, or has a new head."""

    pull: PullRow
    status: PullStatus
    head_sha: str


@dataclass(frozen=True, slots=True)
class TakeOver:
    """People have the work of a task: its words are let go, and none are heard."""

    task: Task


@dataclass(frozen=True, slots=True)
class Note:
    """A command, to be carried out or, if it was not understood, answered."""

    remark: Remark
    asked: Asked | Misspoken


@dataclass(frozen=True, slots=True)
class Refuse:
    """A command of somebody who may not give any."""

    remark: Remark
    asked: Asked | Misspoken


@dataclass(frozen=True, slots=True)
class TellOfRuns:
    """Failed runs are work for a task."""

    task: Task
    runs: tuple[RunSeen, ...]
    pull: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """A failed run is suspected to be a flake: it is run once more, and people are told."""

    task: Task
    run: RunSeen
    why: str


@dataclass(frozen=True, slots=True)
class AskAboutCi:
    """Failed runs are work for a task, but a person has to say first how it goes on."""

    task: Task
    runs: tuple[RunSeen, ...]
    pull: int
    question: str


@dataclass(frozen=True, slots=True)
class Stick:
    """It cannot go on by itself; its work is on its pull request."""

    task: Task
    pull: PullRow
    why: str


CiEffect = TellOfRuns | Repeat | AskAboutCi | Stick
Effect = Begin | Move | Reword | Hear | Redirect | PullIs | TakeOver | Note | Refuse | CiEffect


@dataclass(frozen=True, slots=True)
class Decision:
    """What one event causes, and why. One that waits is looked at again later.

    `held`: it waits for its task to be unblocked, and need not be looked at before.
    """

    reason: str
    effects: tuple[Effect, ...] = ()
    waits: bool = False
    held: bool = False

    @property
    def acts(self) -> bool:
        return bool(self.effects)


@dataclass(frozen=True, slots=True)
class Checks:
    """What is known of the CI of a pull request's present head.

    `seen`: every attempt that is over, oldest first; `told`: event keys of those that went to an
    agent; `repeated`: by check, the run that we had repeated, as it was then; `unfinished`: whether
    the host shows runs that are not over, None where it was not asked.
    """

    seen: tuple[RunSeen, ...] = ()
    told: frozenset[str] = frozenset()
    repeated: Mapping[str, RerunFailedJobs] = field(default_factory=dict)
    unfinished: bool | None = False


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about the thread that an event belongs to.

    `labellers` is None where nobody was asked yet; `opening`: a pull request of ours is just
    being opened, so its number may not be known; `issue` is the newest version of the issue;
    `blocked_by` is what it waits for by GitHub's own list, None where that is not known yet;
    `first`: no other version of it is known; `told`, `redirected`: what became of another one;
    `operations_begun`: what the operations issue held at first is known, and is history.
    """

    tasks: tuple[Task, ...] = ()
    pull: PullRow | None = None
    pull_task: Task | None = None
    issue: IssueSeen | None = None
    labellers: dict[str, str] | None = None
    floors: Floors = field(default_factory=Floors)
    opening: bool = False
    newest: bool = True
    blocked_by: tuple[str, ...] | None = ()
    first: bool = True
    told: bool = False
    redirected: bool = False
    operations_begun: bool = False
    checks: Checks = field(default_factory=Checks)

    @property
    def present(self) -> Task | None:
        """The task that words on the issue are for: the unfinished one, else the last."""
        going = [task for task in self.tasks if not task.over]
        return (going or list(self.tasks))[-1] if self.tasks else None

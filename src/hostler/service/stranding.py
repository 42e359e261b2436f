"""Work in the foreground that waits for what is not its own, and nobody works on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from hostler.flows.lineage import descendants
from hostler.planner import Blocker, Standing, blockers_of
from hostler.service.minding import deserted
from hostler.service.resting import rested
from hostler.service.waits import waits_of
from hostler.store import Store, Transaction
from hostler.store.runs import Run, open_runs
from hostler.store.tasks import WAITING, Task, TaskState, find_task, require_task


@dataclass(frozen=True, slots=True)
class Stranded:
    """Somebody of a family waits for something outside of it that nobody works on."""

    task: str
    name: str
    sentence: str

    def __str__(self) -> str:
        told = f"{self.task} waits for {self.name}, and nobody works on that: {self.sentence}"
        return f"{told} A service would (`hostler service`)."


@dataclass(frozen=True, slots=True)
class Family:
    """A task and all that came from it and is not over, with all that is under way in the home.

    `held`: by task, what it depends on; `waits`: by task, for whom its agent waits and has lent
    its place; `working`: tasks with an agent or a worker that goes on by itself.
    """

    tasks: tuple[Task, ...]
    held: Mapping[str, tuple[Blocker, ...]]
    waits: Mapping[str, tuple[Task, ...]]
    working: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(task.id for task in self.tasks)


def stranded(family: Family) -> list[Stranded]:
    """Who waits for whom in vain. Pure."""
    held = [
        Stranded(task, one.name, one.sentence)
        for task, found in family.held.items()
        for one in found
        if one.name not in family.names and one.standing is not Standing.RUNNING
    ]
    waits = [
        Stranded(task, one.id, f"{one.id} is {one.state}.")
        for task, found in family.waits.items()
        for one in found
        if one.id not in family.names | family.working
    ]
    return held + waits


def stands_still(family: Family) -> bool:
    """Whether nothing can move any more by itself: everybody waits for others. Pure."""
    waiting = [task for task in family.tasks if task.state in WAITING]
    free = any(task.id not in family.held for task in waiting)
    return not free and not family.working and bool(stranded(family))


def family_now(store: Store, root: str) -> Family:
    """A task and those below it, as they are now."""
    with store.read() as tx:
        return family_of(tx, root)


def family_of(tx: Transaction, root: str) -> Family:
    """The same, in an open transaction."""
    tasks = [task for task in (require_task(tx, root), *descendants(tx, root)) if not task.over]
    runs = open_runs(tx)
    idle = {run.task_id: for_whom for run in runs if (for_whom := _waits(tx, run))}
    with_runs = {run.task_id for run in runs}
    alone = {t.id for t in tasks if t.state is TaskState.RUNNING and t.id not in with_runs}
    names = {task.id for task in tasks}
    return Family(
        tasks=tuple(tasks),
        held=blockers_of(tx, [task for task in tasks if task.state in WAITING]),
        waits={name: for_whom for name, for_whom in idle.items() if name in names},
        working=frozenset((with_runs - idle.keys()) | alone),
    )


def _waits(tx: Transaction, run: Run) -> tuple[Task, ...]:
    """Unfinished tasks that the agent of a run waits for; none: it works, or is about to."""
    if run.lent_at is None or run.back_wanted_at is not None or deserted(run):
        return ()
    found = [find_task(tx, name) for name in waits_of([run]).get(run.task_id, ())]
    known = {task.id: task for task in found if task is not None}
    for one in rested(tx, known):
        del known[one.task.id]
    return tuple(known.values())


class Lookout:
    """Tells once of each vain wait of a family, and knows when nothing moves any more."""

    def __init__(self, see: Callable[[], Family], tell: Callable[[str], None]) -> None:
        self._see = see
        self._tell = tell
        self._told: Collection[Stranded] = frozenset()

    def look(self) -> bool:
        """Tell what is new; whether nothing can move any more."""
        family = self._see()
        found = stranded(family)
        for one in found:
            if one not in self._told:
                self._tell(str(one))
        self._told = frozenset(found)
        return stands_still(family)

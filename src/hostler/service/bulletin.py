"""What the service says on the buses of tasks: runs, blockers, warnings, questions and answers.

Rows are the truth; a message that cannot be posted stops nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from hostler.bus import BEGINNING, Bus, MessageType, Sender, Terms, task_bus
from hostler.bus.errors import BusError
from hostler.bus.hearing import heard
from hostler.clock import Clock
from hostler.intake.effects import Hear
from hostler.intake.taking import Heard
from hostler.runs import Step
from hostler.service.house import House
from hostler.store.runs import LIVE, Run, find_run, open_runs
from hostler.store.tasks import Task, TaskState, find_task, require_task

GITHUB = "github:"


class Bulletin:
    """Posts for the service. `troubled` hears of what could not be posted."""

    def __init__(
        self, house: House, clock: Clock, troubled: Callable[[BaseException], None]
    ) -> None:
        self._house = house
        self._clock = clock
        self._troubled = troubled
        self._terms = Terms.of(house.settings.tasks)

    def bus(self, task: Task) -> Bus:
        """The bus of a task."""
        return task_bus(self._house.home, task.project, task.id, self._clock, self._terms)

    def heard(self, step: str, run: str) -> None:
        """Tell of a run's begin and end, and of what a task by hand asks after it."""
        if step not in (Step.GO, Step.EXITED, Step.ENDED):
            return
        with self._house.store.read() as tx:
            found = find_run(tx, run)
            task = find_task(tx, found.task_id) if found else None
        if found is None or task is None:
            return
        if step == Step.ENDED:
            if task.by_hand and task.state is TaskState.NEEDS_INPUT:
                self._post(task, MessageType.QUESTION, task.question)
            return
        type_, text = started(task, found) if step == Step.GO else ended(found)
        self._post(task, type_, text, run=found.run)

    def progress(self, task: Task, text: str) -> None:
        """What holds a task has changed."""
        self._post(task, MessageType.PROGRESS, text)

    def fact(self, task: Task, text: str) -> None:
        """Nothing holds a task any more."""
        self._post(task, MessageType.FACT, text)

    def warning(self, task: Task, text: str) -> None:
        """Something a person should know."""
        self._post(task, MessageType.WARNING, text)

    def said(self, heard: Iterable[Heard]) -> None:
        """What people said on GitHub to a task, for its agent at work."""
        for event in heard:
            for effect in event.decision.effects:
                if isinstance(effect, Hear) and effect.remark.body.strip():
                    self._from_github(effect)

    def heard_by(self, run: Run, task: Task) -> list[tuple[str, str]]:
        """Words from GitHub that a run's agent was shown on the bus: who said what."""
        try:
            shown = heard(self._house.home / run.folder, self.bus(task))
        except (BusError, OSError) as error:
            self._troubled(error)
            return []
        said = ((one.sender.name, one.body) for one in shown)
        return [(n.removeprefix(GITHUB), body) for n, body in said if n.startswith(GITHUB)]

    def _from_github(self, effect: Hear) -> None:
        row = effect.remark.row
        with self._house.store.read() as tx:
            task = require_task(tx, effect.task.id)
            at_work = any(run.state in LIVE for run in open_runs(tx, task_id=task.id))
        if not at_work or row.event_key in task.turn_keys:
            return  # its next turn begins with these words, or has begun with them
        bus = self.bus(task)
        with suppress(BusError, ValueError):
            asked = bus.tail(1, lambda message: message.type is MessageType.QUESTION)
            thread = next((message.thread_id for message in asked), BEGINNING)
            sender = Sender.person(f"{GITHUB}{row.author}")
            bus.create().post(MessageType.USER, effect.remark.body, sender, thread=thread)

    def _post(self, task: Task, type_: MessageType, text: str, *, run: str = "") -> None:
        sender = Sender.service(run, task.id, task.project)
        try:
            self.bus(task).create().post(type_, text or "(no text)", sender)
        except (BusError, OSError) as error:
            self._troubled(error)


def started(task: Task, run: Run) -> tuple[MessageType, str]:
    """The message about an agent that begins. Attempts are counted from 0, as restarts."""
    restart = max(task.attempt - 1, 0)
    return MessageType.RUN_START, f"starting root agent (restart #{restart}): {run.agent}"


def ended(run: Run) -> tuple[MessageType, str]:
    """The message about an agent that has ended."""
    crashed = run.outcome in ("crash", "timeout", "stalled")
    type_ = MessageType.RUN_CRASH if crashed else MessageType.RUN_STOP
    return type_, f"{run.outcome}: {run.why or ''}".strip()

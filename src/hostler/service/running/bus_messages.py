"""Post messages on buses: for users, for the service, and questions of agents to GitHub."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostler.bus.bus import Bus, BusLocation, open_task_bus, read_shown_messages
from hostler.bus.errors import BusError
from hostler.bus.message import BEGINNING, Message, MessageSender, MessageType, SenderKind
from hostler.bus.writer import BusOptions
from hostler.clock import Clock
from hostler.forge.actions import CreateComment
from hostler.forge.outbox.queue import build_token, enqueue_action
from hostler.intake.model import AddFeedback
from hostler.intake.process import ProcessedEvent
from hostler.runs import Step
from hostler.service.context import AppContext
from hostler.store import Store
from hostler.store.outbox import Lane
from hostler.store.runs import LIVE, Run, find_run, live_runs, open_runs
from hostler.store.tasks import OVER, Task, TaskState, find_task, require_task, tasks_in
from hostler.telemetry.redaction import redact


@dataclass(frozen=True, slots=True)
class BusMessageDraft:
    """What is said, and on which bus; without a task it is the project's. `create`: begin it."""

    project: str
    task: str
    type: MessageType
    text: str
    thread: str = ""
    create: bool = False


@dataclass(frozen=True, slots=True)
class BusPoster:
    """The buses of a home, for one sender."""

    home: Path
    clock: Clock
    terms: BusOptions
    sender: MessageSender

    def post(self, draft: BusMessageDraft) -> Mapping[str, Any]:
        """Append a message, as it is stored; it is in the file when this returns."""
        bus = Bus(BusLocation(self.home, draft.project, draft.task).path, self.clock, self.terms)
        if draft.create:
            bus.create()
        text = redact(draft.text)
        return bus.post(draft.type, text, self.sender, thread=draft.thread).stored()


_GITHUB_PREFIX = "github:"


class BusNotifier:
    """Posts for the service. `troubled` hears of what could not be posted."""

    def __init__(
        self, app: AppContext, clock: Clock, troubled: Callable[[BaseException], None]
    ) -> None:
        self._app = app
        self._clock = clock
        self._troubled = troubled
        self._terms = BusOptions.of(app.settings.tasks)

    def bus(self, task: Task) -> Bus:
        """The bus of a task."""
        return open_task_bus(self._app.home, task.project, task.id, self._clock, self._terms)

    def heard(self, step: str, run: str) -> None:
        """Tell of a run's begin and end, and of what a task by hand asks after it."""
        if step not in (Step.GO, Step.EXITED, Step.ENDED):
            return
        with self._app.store.read() as tx:
            found = find_run(tx, run)
            task = find_task(tx, found.task_id) if found else None
        if found is None or task is None:
            return
        if step == Step.ENDED:
            if task.by_hand and task.state is TaskState.NEEDS_INPUT:
                self._post(task, MessageType.QUESTION, task.question)
            return
        type_, text = _start_message(task, found) if step == Step.GO else _end_message(found)
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

    def said(self, heard: Iterable[ProcessedEvent]) -> None:
        """What people said on GitHub to a task, for its agent at work."""
        for event in heard:
            for effect in event.decision.effects:
                if isinstance(effect, AddFeedback) and effect.remark.body.strip():
                    self._from_github(effect)

    def heard_by(self, run: Run, task: Task) -> list[tuple[str, str]]:
        """Words from GitHub that a run's agent was shown on the bus: who said what."""
        try:
            shown = read_shown_messages(self._app.home / run.folder, self.bus(task))
        except (BusError, OSError) as error:
            self._troubled(error)
            return []
        said = ((one.sender.name, one.body) for one in shown)
        return [
            (n.removeprefix(_GITHUB_PREFIX), body)
            for n, body in said
            if n.startswith(_GITHUB_PREFIX)
        ]

    def _from_github(self, effect: AddFeedback) -> None:
        row = effect.remark.row
        with self._app.store.read() as tx:
            task = require_task(tx, effect.task.id)
            at_work = any(run.state in LIVE for run in open_runs(tx, task_id=task.id))
        if not at_work or row.event_key in task.turn_keys:
            return  # its next turn begins with these words, or has begun with them
        bus = self.bus(task)
        with suppress(BusError, ValueError):
            asked = bus.tail(1, lambda message: message.type is MessageType.QUESTION)
            thread = next((message.thread_id for message in asked), BEGINNING)
            sender = MessageSender.person(f"{_GITHUB_PREFIX}{row.author}")
            bus.create().post(MessageType.USER, effect.remark.body, sender, thread=thread)

    def _post(self, task: Task, type_: MessageType, text: str, *, run: str = "") -> None:
        sender = MessageSender.service(run, task.id, task.project)
        try:
            self.bus(task).create().post(type_, text or "(no text)", sender)
        except (BusError, OSError) as error:
            self._troubled(error)


def _start_message(task: Task, run: Run) -> tuple[MessageType, str]:
    """The message about an agent that begins. Attempts are counted from 0, as restarts."""
    restart = max(task.attempt - 1, 0)
    return MessageType.RUN_START, f"starting root agent (restart #{restart}): {run.agent}"


def _end_message(run: Run) -> tuple[MessageType, str]:
    """The message about an agent that has ended."""
    crashed = run.outcome in ("crash", "timeout", "stalled")
    type_ = MessageType.RUN_CRASH if crashed else MessageType.RUN_STOP
    return type_, f"{run.outcome}: {run.why or ''}".strip()


_QUESTION_SCOPES = ("outbox",)
_UNFINISHED_STATES = tuple(state for state in TaskState if state not in OVER)


class QuestionForwarder:
    """Carries each question once: its token says whether it is there already.

    The token is a row as long as its task is; how far a bus was read is only kept to read less.
    """

    def __init__(
        self, store: Store, bus_notifier: BusNotifier, troubled: Callable[[BaseException], None]
    ) -> None:
        self._store = store
        self._bus_notifier = bus_notifier
        self._troubled = troubled
        self._read: dict[str, str] = {}

    def asking(self) -> list[Task]:
        """Tasks with an agent at work that people on GitHub can answer."""
        with self._store.read() as tx:
            found = [find_task(tx, run.task_id) for run in live_runs(tx)]
        return [task for task in found if task is not None and _has_thread(task)]

    def carry(self) -> None:
        """Look at the buses of all who are at work."""
        tasks = self.asking()
        at_work = {task.id for task in tasks}
        self._read = {name: last for name, last in self._read.items() if name in at_work}
        for task in tasks:
            self._guarded(task)

    def carry_rest(self, task: Task) -> None:
        """What is left on the bus of a task whose agent has ended: nothing comes after it."""
        if _has_thread(task):
            self._guarded(task)

    def carry_unfinished(self) -> None:
        """At a start: whatever an earlier service left, of every task that is not over."""
        with self._store.read() as tx:
            found = tasks_in(tx, _UNFINISHED_STATES)
        for task in found:
            self.carry_rest(task)

    def _guarded(self, task: Task) -> None:
        try:
            self._carry(task)
        except (BusError, OSError) as error:
            self._troubled(error)

    def _carry(self, task: Task) -> None:
        page = self._bus_notifier.bus(task).since(self._read.get(task.id, BEGINNING))
        asked = [message for message in page if _is_agent_question(message)]
        if asked:
            with self._store.write(*_QUESTION_SCOPES) as tx:
                for message in asked:
                    deed = CreateComment(_thread_number(task), _question_text(message))
                    token = build_token("question", task.id, message.id)
                    enqueue_action(
                        tx, task.repo, deed, token=token, lane=Lane.FEEDBACK, source="question"
                    )
        if len(page):
            # After the commit: a crash in between carries them again, and that changes nothing.
            self._read[task.id] = page.messages[-1].id


def _is_agent_question(message: Message) -> bool:
    """Whether an agent asks something."""
    return message.type is MessageType.QUESTION and message.sender.kind is SenderKind.AGENT


def _question_text(message: Message) -> str:
    """The question as people read it; nobody knows whether its agent is still there by then."""
    return (
        f"{message.body.strip()}\n\n*An agent asks this. An answer here reaches it at work, or in "
        "its next turn.*"
    )


def _has_thread(task: Task) -> bool:
    return bool(task.repo_full_name and _thread_number(task))


def _thread_number(task: Task) -> int:
    return task.pr_number or task.number

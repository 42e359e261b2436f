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
from hostler.runs import RunStep
from hostler.service.context import AppContext
from hostler.store import Store
from hostler.store.outbox import Lane
from hostler.store.runs import LIVE, Run, find_run, live_runs, open_runs
from hostler.store.tasks import OVER, Task, TaskState, find_task, require_task, tasks_in
from hostler.telemetry.redaction import redact


@dataclass(frozen=True, slots=True)
class BusMessageDraft:
    """A message, and its bus: a task's, or the project's without a task. `create`: make the bus."""

    project: str
    task: str
    type: MessageType
    text: str
    thread: str = ""
    create: bool = False


@dataclass(frozen=True, slots=True)
class BusPoster:
    """Posts on the buses of a home for one sender."""

    home: Path
    clock: Clock
    options: BusOptions
    sender: MessageSender

    def post(self, draft: BusMessageDraft) -> Mapping[str, Any]:
        """Append a message and return it as stored; it is in the file when this returns."""
        bus = Bus(BusLocation(self.home, draft.project, draft.task).path, self.clock, self.options)
        if draft.create:
            bus.create()
        text = redact(draft.text)
        return bus.post(draft.type, text, self.sender, thread=draft.thread).stored()


_GITHUB_PREFIX = "github:"


class BusNotifier:
    """Posts for the service. `on_error` is called with what prevented a message."""

    def __init__(
        self, app: AppContext, clock: Clock, on_error: Callable[[BaseException], None]
    ) -> None:
        self._app = app
        self._clock = clock
        self._on_error = on_error
        self._options = BusOptions.of(app.settings.tasks)

    def bus(self, task: Task) -> Bus:
        """Return the bus of a task."""
        return open_task_bus(self._app.home, task.project, task.id, self._clock, self._options)

    def post_run_step(self, step: str, run: str) -> None:
        """Post that a run started or exited, and the question of a manual task after it."""
        if step not in (RunStep.GO, RunStep.EXITED, RunStep.ENDED):
            return
        with self._app.store.read() as tx:
            found = find_run(tx, run)
            task = find_task(tx, found.task_id) if found else None
        if found is None or task is None:
            return
        if step == RunStep.ENDED:
            if task.by_hand and task.state is TaskState.NEEDS_INPUT:
                self._post(task, MessageType.QUESTION, task.question)
            return
        type_, text = _start_message(task, found) if step == RunStep.GO else _end_message(found)
        self._post(task, type_, text, run=found.run)

    def progress(self, task: Task, text: str) -> None:
        """Post that the task's blockers have changed."""
        self._post(task, MessageType.PROGRESS, text)

    def fact(self, task: Task, text: str) -> None:
        """Post that the task has no blockers any more."""
        self._post(task, MessageType.FACT, text)

    def warning(self, task: Task, text: str) -> None:
        """Post a warning for users."""
        self._post(task, MessageType.WARNING, text)

    def post_comments(self, post_run_step: Iterable[ProcessedEvent]) -> None:
        """Post comments from GitHub for the running agents of their tasks."""
        for event in post_run_step:
            for effect in event.decision.effects:
                if isinstance(effect, AddFeedback) and effect.comment.body.strip():
                    self._from_github(effect)

    def read_shown_comments(self, run: Run, task: Task) -> list[tuple[str, str]]:
        """Return comments that a run's agent was shown on the bus, as (author, text)."""
        try:
            messages = read_shown_messages(self._app.home / run.folder, self.bus(task))
        except (BusError, OSError) as error:
            self._on_error(error)
            return []
        post_comments = ((one.sender.name, one.body) for one in messages)
        return [
            (name.removeprefix(_GITHUB_PREFIX), body)
            for name, body in post_comments
            if name.startswith(_GITHUB_PREFIX)
        ]

    def _from_github(self, effect: AddFeedback) -> None:
        row = effect.comment.row
        with self._app.store.read() as tx:
            task = require_task(tx, effect.task.id)
            running = any(run.state in LIVE for run in open_runs(tx, task_id=task.id))
        if not running or row.event_key in task.turn_keys:
            return  # The comment is part of its next or present turn.
        bus = self.bus(task)
        with suppress(BusError, ValueError):
            questions = bus.tail(1, lambda message: message.type is MessageType.QUESTION)
            thread = next((message.thread_id for message in questions), BEGINNING)
            sender = MessageSender.person(f"{_GITHUB_PREFIX}{row.author}")
            bus.create().post(MessageType.USER, effect.comment.body, sender, thread=thread)

    def _post(self, task: Task, type_: MessageType, text: str, *, run: str = "") -> None:
        sender = MessageSender.service(run, task.id, task.project)
        try:
            self.bus(task).create().post(type_, text or "(no text)", sender)
        except (BusError, OSError) as error:
            self._on_error(error)


def _start_message(task: Task, run: Run) -> tuple[MessageType, str]:
    """Return the message about a started agent. Restarts are counted from 0."""
    restart = max(task.attempt - 1, 0)
    return MessageType.RUN_START, f"starting root agent (restart #{restart}): {run.agent}"


def _end_message(run: Run) -> tuple[MessageType, str]:
    """Return the message about an agent that has exited."""
    crashed = run.outcome in ("crash", "timeout", "stalled")
    type_ = MessageType.RUN_CRASH if crashed else MessageType.RUN_STOP
    return type_, f"{run.outcome}: {run.why or ''}".strip()


_QUESTION_SCOPES = ("outbox",)
_UNFINISHED_STATES = tuple(state for state in TaskState if state not in OVER)


class QuestionForwarder:
    """Forwards each question once: its token says whether it is already on GitHub.

    The token is stored as long as its task. The position on each bus is kept only to read less.
    """

    def __init__(
        self, store: Store, notifier: BusNotifier, on_error: Callable[[BaseException], None]
    ) -> None:
        self._store = store
        self._notifier = notifier
        self._on_error = on_error
        self._read: dict[str, str] = {}

    def tasks_with_agents(self) -> list[Task]:
        """Return tasks with a running agent whose questions users on GitHub can answer."""
        with self._store.read() as tx:
            found = [find_task(tx, run.task_id) for run in live_runs(tx)]
        return [task for task in found if task is not None and _has_thread(task)]

    def forward(self) -> None:
        """Forward new questions of all running agents."""
        tasks = self.tasks_with_agents()
        running = {task.id for task in tasks}
        self._read = {name: last for name, last in self._read.items() if name in running}
        for task in tasks:
            self._try_forward(task)

    def forward_rest(self, task: Task) -> None:
        """Forward the remaining questions of a task whose agent has exited."""
        if _has_thread(task):
            self._try_forward(task)

    def forward_unfinished(self) -> None:
        """Forward questions of all unfinished tasks that an earlier service left.

        Called at startup.
        """
        with self._store.read() as tx:
            found = tasks_in(tx, _UNFINISHED_STATES)
        for task in found:
            self.forward_rest(task)

    def _try_forward(self, task: Task) -> None:
        try:
            self._forward_questions(task)
        except (BusError, OSError) as error:
            self._on_error(error)

    def _forward_questions(self, task: Task) -> None:
        page = self._notifier.bus(task).since(self._read.get(task.id, BEGINNING))
        questions = [message for message in page if _is_agent_question(message)]
        if questions:
            with self._store.write(*_QUESTION_SCOPES) as tx:
                for message in questions:
                    action = CreateComment(_thread_number(task), _question_text(message))
                    token = build_token("question", task.id, message.id)
                    enqueue_action(
                        tx, task.repo, action, token=token, lane=Lane.FEEDBACK, source="question"
                    )
        if len(page):
            # After the commit: a crash in between repeats the questions, which changes nothing.
            self._read[task.id] = page.messages[-1].id


def _is_agent_question(message: Message) -> bool:
    """Return whether an agent asks a question."""
    return message.type is MessageType.QUESTION and message.sender.kind is SenderKind.AGENT


def _question_text(message: Message) -> str:
    """Return the comment for GitHub. The agent may have exited by the time it is read."""
    return (
        f"{message.body.strip()}\n\n*Question from an agent. Reply here; it gets the answer while "
        "running or in its next turn.*"
    )


def _has_thread(task: Task) -> bool:
    return bool(task.repo_full_name and _thread_number(task))


def _thread_number(task: Task) -> int:
    return task.pr_number or task.number

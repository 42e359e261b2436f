"""Questions that agents ask on their bus go to the people on GitHub."""

from __future__ import annotations

from collections.abc import Callable

from hostler.bus import BEGINNING, Message, MessageType, SenderKind
from hostler.bus.errors import BusError
from hostler.forge import Comment, enqueue, token_of
from hostler.service.bulletin import Bulletin
from hostler.store import Store
from hostler.store.outbox import Lane
from hostler.store.runs import live_runs
from hostler.store.tasks import OVER, Task, TaskState, find_task, tasks_in

SCOPES = ("outbox",)
UNFINISHED = tuple(state for state in TaskState if state not in OVER)


class Questions:
    """Carries each question once: its token says whether it is there already.

    The token is a row as long as its task is; how far a bus was read is only kept to read less.
    """

    def __init__(
        self, store: Store, bulletin: Bulletin, troubled: Callable[[BaseException], None]
    ) -> None:
        self._store = store
        self._bulletin = bulletin
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
            found = tasks_in(tx, UNFINISHED)
        for task in found:
            self.carry_rest(task)

    def _guarded(self, task: Task) -> None:
        try:
            self._carry(task)
        except (BusError, OSError) as error:
            self._troubled(error)

    def _carry(self, task: Task) -> None:
        page = self._bulletin.bus(task).since(self._read.get(task.id, BEGINNING))
        asked = [message for message in page if is_question(message)]
        if asked:
            with self._store.write(*SCOPES) as tx:
                for message in asked:
                    deed = Comment(_thread(task), text_of(message))
                    token = token_of("question", task.id, message.id)
                    enqueue(tx, task.repo, deed, token=token, lane=Lane.FEEDBACK, source="question")
        if len(page):
            # After the commit: a crash in between carries them again, and that changes nothing.
            self._read[task.id] = page.messages[-1].id


def is_question(message: Message) -> bool:
    """Whether an agent asks something."""
    return message.type is MessageType.QUESTION and message.sender.kind is SenderKind.AGENT


def text_of(message: Message) -> str:
    """The question as people read it; nobody knows whether its agent is still there by then."""
    return (
        f"{message.body.strip()}\n\n*An agent asks this. An answer here reaches it at work, or in "
        "its next turn.*"
    )


def _has_thread(task: Task) -> bool:
    return bool(task.repo_full_name and _thread(task))


def _thread(task: Task) -> int:
    return task.pr_number or task.number

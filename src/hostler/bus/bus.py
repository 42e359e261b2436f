"""Find a bus, post to it, read it, and record which messages an agent was shown."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hostler.bus.errors import BusError, InvalidBusRequest, InvalidMessage
from hostler.bus.files import list_rotated_files, make_folder, open_for_read
from hostler.bus.message import (
    BEGINNING,
    Message,
    MessageDraft,
    MessageSender,
    MessageType,
    id_from_time,
    is_id,
    is_valid_name,
    is_valid_person,
    previous_id,
)
from hostler.bus.reader import (
    BusFollower,
    BusSnapshot,
    BusStats,
    MessageFilter,
    MessagePage,
    accept_all,
    read_stats,
)
from hostler.bus.watch import BusWatch, open_watch
from hostler.bus.writer import BusOptions, BusWriter, ContentionStats
from hostler.clock import Clock, SystemClock

BUS_FILE_NAME = "bus.jsonl"


def project_bus_path(home: Path, project: str) -> Path:
    """Return the path of a project's bus."""
    return home / "projects" / _require_name(project, "project") / BUS_FILE_NAME


def task_bus_path(home: Path, project: str, task: str) -> Path:
    """Return the path of a task's bus."""
    folder = project_bus_path(home, project).parent
    return folder / "tasks" / _require_name(task, "task") / BUS_FILE_NAME


def find_projects(home: Path, task: str) -> list[str]:
    """Return the projects that have a task with this name."""
    name = _require_name(task, "task")
    found = (home / "projects").glob(f"*/tasks/{name}")
    return sorted(folder.parents[1].name for folder in found if folder.is_dir())


@dataclass(frozen=True, slots=True)
class BusLocation:
    """The names that identify a bus; without a task it is the bus of the project."""

    home: Path
    project: str
    task: str = ""

    @property
    def path(self) -> Path:
        """Return the path of its file."""
        if self.task:
            return task_bus_path(self.home, self.project, self.task)
        return project_bus_path(self.home, self.project)

    @property
    def exists(self) -> bool:
        """Return whether the task or project exists."""
        return self.path.parent.is_dir()

    def __str__(self) -> str:
        of_project = f"project {self.project}"
        return f"task {self.task} of {of_project}" if self.task else of_project


def resolve_location(
    home: Path, variables: Mapping[str, str], project: str, task: str
) -> BusLocation:
    """Return the bus with these names; missing names are taken from the current run."""
    own_project = variables.get("HOSTLER_PROJECT", "")
    if project:
        return BusLocation(home, project, task)
    if task:
        return BusLocation(home, _resolve_project(home, task, own_project), task)
    if not own_project:
        raise InvalidBusRequest(
            "Which bus? This process is not part of a run.",
            "Name it: --task TASK for a task's bus, --project PROJECT for a project's.",
        )
    return BusLocation(home, own_project, variables.get("HOSTLER_TASK", ""))


def _resolve_project(home: Path, task: str, own_project: str) -> str:
    found = find_projects(home, task)
    if own_project and (own_project in found or not found):
        return own_project
    if len(found) != 1:
        several = f"The projects {', '.join(found)} have a task {task} each."
        raise InvalidBusRequest(
            several if found else f"No project has a task {task}.",
            "Name the project too: --project PROJECT.",
        )
    return found[0]


def current_sender(variables: Mapping[str, str]) -> MessageSender:
    """Return the sender for this process: the agent of the current run, else the OS user."""
    run = variables.get("HOSTLER_RUN", "")
    if not run:
        return MessageSender.person(_user_name())
    try:
        task, project = variables.get("HOSTLER_TASK", ""), variables.get("HOSTLER_PROJECT", "")
        return MessageSender.agent(run, task, project)
    except ValueError as error:
        raise InvalidMessage(
            f"The environment is invalid: {error}.",
            "HOSTLER_RUN, HOSTLER_TASK and HOSTLER_PROJECT are set by Hostler: do not change them.",
        ) from error


def _user_name() -> str:
    # Not from $USER: anyone can set that.
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = ""
    return name if is_valid_person(name) else f"uid {os.getuid()}"


def _require_name(name: str, what: str) -> str:
    if not is_valid_name(name):
        raise InvalidBusRequest(
            f"{name[:60]!r} cannot be the name of a {what}.",
            "Names have letters, digits, '.', '_' and '-', and begin with a letter or digit.",
        )
    return name


class Bus:
    """A file of messages. Threads and processes may share it."""

    def __init__(
        self, path: Path, clock: Clock | None = None, options: BusOptions | None = None
    ) -> None:
        self.path = path
        self._clock = clock or SystemClock()
        self._options = options or BusOptions()
        self._writer = BusWriter(path, self._clock, self._options)

    def create(self) -> Bus:
        """Create the folder if it is missing. `post` does not: it would recreate a removed task."""
        make_folder(self.path, sync=self._options.sync)
        return self

    def post(
        self, type_: MessageType, body: str, sender: MessageSender, *, thread: str = BEGINNING
    ) -> Message:
        """Append a message. It is in the file when this returns."""
        root = self._root(thread) if thread else BEGINNING
        return self._writer.append(MessageDraft(type_, body, sender, root))

    def tail(self, count: int, wanted: MessageFilter = accept_all) -> MessagePage:
        """Return the last messages that match."""
        with BusSnapshot(self.path) as snapshot:
            return MessagePage(tuple(snapshot.last(count, wanted)), snapshot.skipped)

    def since(self, after: str = BEGINNING, wanted: MessageFilter = accept_all) -> MessagePage:
        """Return all messages after an id that match."""
        with BusSnapshot(self.path) as snapshot:
            found = tuple(message for message in snapshot.read(after) if wanted(message))
            return MessagePage(found, snapshot.skipped)

    def get(self, message_id: str) -> Message | None:
        """Return one message, or None if it is not on the bus."""
        if not is_id(message_id):
            return None
        with BusSnapshot(self.path) as snapshot:
            found = next(snapshot.read(previous_id(message_id)), None)
        return found if found is not None and found.id == message_id else None

    def last_id(self) -> str:
        """Return the id of the last message, or `BEGINNING` if there is none."""
        return next((message.id for message in self.tail(1)), BEGINNING)

    def follower(self, after: str | None = None) -> BusFollower:
        """Return a follower that reads messages after an id; None: from now on."""
        return BusFollower(self.path, self.last_id() if after is None else after)

    def watch(self) -> BusWatch:
        """Return a watch that waits for changes of this bus."""
        return open_watch(self._clock, [self.path.parent])

    def follow(self, after: str | None = None, using: BusWatch | None = None) -> Iterator[Message]:
        """Yield messages after an id (None: from now on) until the watch is stopped."""
        # Resolved here and not at the first step: "now" is the time of the call.
        return self._follow(self.last_id() if after is None else after, using)

    def _follow(self, after: str, using: BusWatch | None) -> Iterator[Message]:
        waiting = using or self.watch()
        follower = self.follower(after)
        try:
            while not waiting.stopped:
                yield from follower.new()
                waiting.wait()
        finally:
            follower.close()
            if using is None:
                waiting.close()

    @property
    def contention_stats(self) -> ContentionStats:
        """Return how often this object tried to take the lock."""
        return self._writer.contention_stats

    def stats(self) -> BusStats:
        """Return statistics over all messages. Reads the whole bus."""
        return read_stats(self.path)

    def forget(self, before: datetime) -> int:
        """Delete rotated files older than a time. Return how many."""
        # Keep the newest one: if the current file is empty, only its name says which id is next.
        old = [
            file for file in list_rotated_files(self.path)[:-1] if file.id < id_from_time(before)
        ]
        for file in old:
            with suppress(FileNotFoundError):
                file.path.unlink()
        return len(old)

    def _root(self, thread: str) -> str:
        found = self.get(thread)
        if found is None:
            raise InvalidMessage(
                f"There is no message {thread[:60]!r} on this bus.",
                "A thread is named by the id of one of its messages.",
            )
        return found.thread_id


def open_task_bus(
    home: Path,
    project: str,
    task: str,
    clock: Clock | None = None,
    options: BusOptions | None = None,
) -> Bus:
    """Return the bus of a task."""
    return Bus(task_bus_path(home, project, task), clock, options)


def open_project_bus(
    home: Path, project: str, clock: Clock | None = None, options: BusOptions | None = None
) -> Bus:
    """Return the bus of a project."""
    return Bus(project_bus_path(home, project), clock, options)


SHOWN_FILE_NAME = "heard"
# The agent can write to this file as well, so limit how much is read.
MAX_SHOWN_BYTES = 65_536
_SHOWN_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def record_shown(folder: Path, message: Message) -> None:
    """Record that messages are about to be shown. A missing record does no harm."""
    if message.type is not MessageType.USER:
        return
    with suppress(OSError):
        descriptor = os.open(folder / SHOWN_FILE_NAME, _SHOWN_FLAGS, 0o600)
        try:
            os.write(descriptor, f"{message.id}\n".encode())
        finally:
            os.close(descriptor)


def read_shown_messages(folder: Path, bus: Bus) -> list[Message]:
    """Return messages of users that the agent of a run was shown, each once."""
    found = (bus.get(name) for name in _read_shown_ids(folder / SHOWN_FILE_NAME))
    return [one for one in found if one is not None and one.type is MessageType.USER]


def _read_shown_ids(path: Path) -> list[str]:
    try:
        file = open_for_read(path)
    except BusError:
        return []
    if file is None:
        return []
    with file:
        text = file.read(MAX_SHOWN_BYTES).decode("ascii", "replace")
    return list(dict.fromkeys(text.split("\n")))

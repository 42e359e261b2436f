"""Read the output of runs and the newest log events, follow a task's output, and format it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from hostler.agents.adapters.registry import KINDS
from hostler.agents.agent_files import (
    LineSplitter,
    NotRegularFile,
    OutputLine,
    OutputStream,
    OutputTail,
    open_regular_file,
)
from hostler.agents.events import (
    EVENT_TYPES,
    CostEvent,
    Event,
    Finished,
    LimitSignal,
    Noise,
    RequestFailed,
    Retrying,
    SessionEvent,
    Started,
    Text,
    ToolUse,
    Usage,
)
from hostler.bus.watch import BusWatch, open_watch
from hostler.clock import Clock
from hostler.errors import StoreError
from hostler.service.scheduling.task_waits import find_settled
from hostler.store import Store
from hostler.store.runs import LIVE, Run, runs_of

CHUNK_BYTES = 64 * 1024
# No line of a program is worth more; what is before it is left out.
MAX_READ_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LastLines:
    """The last lines of a stream; `offset` is where the next one will begin, `more`: some are
    before them."""

    lines: tuple[OutputLine, ...] = ()
    offset: int = 0
    more: bool = False


def read_last_lines(
    path: Path, stream: OutputStream, count: int, *, whole: bool = False
) -> LastLines:
    """The last lines that are complete; `whole`: nobody writes any more, so take the rest too."""
    try:
        descriptor = open_regular_file(path)
    except NotRegularFile:
        return LastLines()
    try:
        return _read_backward(descriptor, stream, count, whole)
    finally:
        os.close(descriptor)


def _read_backward(descriptor: int, stream: OutputStream, count: int, whole: bool) -> LastLines:
    size = os.fstat(descriptor).st_size
    start = _find_start(descriptor, size, count)
    splitter = LineSplitter(stream, start)
    lines = list(splitter.feed(os.pread(descriptor, size - start, start)))
    if whole:
        lines += splitter.finish()
    kept = lines[len(lines) - count :] if len(lines) > count else lines
    return LastLines(tuple(kept), splitter.offset, start > 0 or len(kept) < len(lines))


def _find_start(descriptor: int, size: int, count: int) -> int:
    """The start of a line, at least so many lines before the end, or as far back as we read."""
    position, found = size, 0
    while position > max(0, size - MAX_READ_BYTES):
        begin = max(0, position - CHUNK_BYTES)
        data = os.pread(descriptor, position - begin, begin)
        found += data.count(b"\n")
        # One more: the newest line may not be complete yet, and the oldest is cut.
        if found > count + 1:
            return begin + data.find(b"\n") + 1
        position = begin
    if position == 0:
        return 0
    data = os.pread(descriptor, CHUNK_BYTES, position)
    return position + data.find(b"\n") + 1


# So many lines are looked through at most, whatever is searched for.
_MAX_LINES = 5_000
_LOG_PATTERN = "????-??-??.jsonl"


def read_newest_events(
    folder: Path, count: int, *, task: str = "", event: str = "", most: int = _MAX_LINES
) -> list[dict[str, Any]]:
    """The last events, oldest first; of one task or one name, where these are given."""

    def wanted(fields: dict[str, Any]) -> bool:
        return (not task or fields.get("task") == task) and event in ("", fields.get("event"))

    found = list(islice(filter(wanted, _iterate_backward(folder, most)), count))
    return found[::-1]


def _iterate_backward(folder: Path, most: int) -> Iterator[dict[str, Any]]:
    left = most
    for path in sorted(folder.glob(_LOG_PATTERN), reverse=True):
        lines = read_last_lines(path, OutputStream.STDOUT, left).lines if left > 0 else ()
        left -= len(lines)
        for line in reversed(lines):
            fields = _parse_fields(line.text)
            if fields is not None:
                yield fields


def _parse_fields(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


# Text that comes in pieces is told at the end of a line, or when there is so much of it.
MAX_PIECE_LENGTH = 2000
_NOISE = "noise"
_EVENT_NAMES = {**{kind: name for name, kind in EVENT_TYPES.items()}, Noise: _NOISE}
# A program that prints what it likes.
_PLAIN_KIND = "command"


def has_event_stream(agent_kind: str) -> bool:
    """Whether agents of a kind speak in events."""
    return agent_kind in KINDS and agent_kind != _PLAIN_KIND


def parse_line(agent_kind: str, line: OutputLine) -> Sequence[Event]:
    """What a line of a run's output says. A line that says more is no noise beside it."""
    kind = KINDS.get(agent_kind)
    if kind is None:
        return [Noise(line.text, aside=line.stream is OutputStream.STDERR)]
    found = kind.events(line)
    known = [event for event in found if not (isinstance(event, Noise) and event.aside)]
    return known or found


def event_json(run: str, event: Event) -> dict[str, Any]:
    """An event for programs."""
    return {"run": run, "type": _EVENT_NAMES[type(event)], **asdict(event)}


class OutputFormatter:
    """One run's output as people read it, line by line."""

    def __init__(self, agent_kind: str) -> None:
        self._kind = agent_kind
        self._flow = ""

    def of(self, line: OutputLine) -> Iterator[str]:
        """What there is to show after one more line."""
        for event in parse_line(self._kind, line):
            if isinstance(event, Text) and event.delta:
                yield from self._flowing(event.text)
            else:
                yield from self.rest()
                yield from _format_event(event)

    def rest(self) -> Iterator[str]:
        """What is left of a text that came in pieces."""
        if self._flow:
            yield self._flow
        self._flow = ""

    def _flowing(self, text: str) -> Iterator[str]:
        *whole, self._flow = (self._flow + text).split("\n")
        yield from whole
        while len(self._flow) > MAX_PIECE_LENGTH:
            yield self._flow[:MAX_PIECE_LENGTH]
            self._flow = self._flow[MAX_PIECE_LENGTH:]


def _format_event(event: Event) -> Sequence[str]:
    told = _FORMATTERS[type(event)](event)
    return told.split("\n") if told is not None else ()


def _format_started(event: Started) -> str:
    words = " ".join(word for word in (event.program, event.version, event.model) if word)
    return f"started {words}".rstrip()


def _format_tool(event: ToolUse) -> str:
    return f"-> {event.name}: {event.detail}" if event.detail else f"-> {event.name}"


def _format_retrying(event: Retrying) -> str:
    after = f" after {event.seconds:.0f} s" if event.seconds else ""
    return f"retrying{after} ({event.status or event.reason})"


def _format_limit(event: LimitSignal) -> str:
    if event.resets_at:
        return f"limit: {event.reason} until {event.resets_at}"
    if event.clock_time:
        return f"limit: {event.reason} until {event.clock_time}"
    if event.person:
        return f"limit: {event.reason} until a person acts"
    wait = f", again in {event.retry_after_seconds:.0f} s" if event.retry_after_seconds else ""
    return f"limit: {event.reason}{wait}"


def _format_fault(event: RequestFailed) -> str:
    return f"request failed: {event.reason}" + (f" ({event.status})" if event.status else "")


def _format_usage(event: Usage) -> str | None:
    """Of a whole step or run; accounts of single messages add nothing for people."""
    if event.of:
        return None
    cached = f", {event.cached_tokens:,} from a cache" if event.cached_tokens else ""
    return f"tokens: {event.input_tokens:,} in, {event.output_tokens:,} out{cached}"


def _format_cost(event: CostEvent) -> str | None:
    return f"cost: {event.usd:.4f} USD" if event.usd else None


def _format_finished(event: Finished) -> str:
    """A success says again what was said before; a failure says why."""
    if event.ok:
        return "result: success"
    why = f". {event.text}" if event.text else ""
    return f"result: {event.outcome or 'failed'}{why}"


def _format_noise(event: Noise) -> str:
    return f"stderr: {event.text}" if event.aside else event.text


_FORMATTERS: dict[type[Event], Callable[[Any], str | None]] = {
    Started: _format_started,
    SessionEvent: lambda event: f"session {event.id}",
    Text: lambda event: event.text,
    ToolUse: _format_tool,
    Retrying: _format_retrying,
    Usage: _format_usage,
    CostEvent: _format_cost,
    LimitSignal: _format_limit,
    RequestFailed: _format_fault,
    Finished: _format_finished,
    Noise: _format_noise,
}


# How long the thread that waits for commits sleeps before it looks whether it is still needed.
_COMMIT_WAIT_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RunOutputLine:
    """A line of a run."""

    run: Run
    line: OutputLine


@dataclass(frozen=True, slots=True)
class FollowedRun:
    """From here on, another run is followed."""

    run: Run


class OutputWakeup:
    """Wakes its one waiter when files of a folder change, or when anybody commits."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._bell = clock.wakeup()
        self._folder: Path | None = None
        self._watch: BusWatch | None = None
        self._over = False
        threading.Thread(target=self._on_commits, name="commits", daemon=True).start()

    def of(self, folder: Path | None) -> None:
        """Hear of this folder from now on, and of no other."""
        if folder is None or folder == self._folder or not folder.is_dir():
            return
        self._let_go()
        self._folder, self._watch = folder, open_watch(self._clock, [folder])
        threading.Thread(target=self._on_files, args=[self._watch], daemon=True).start()
        self._bell.set()  # something may have come before we watched

    def wait(self) -> None:
        """Until there may be something new since the last wait."""
        self._bell.wait()
        self._bell.clear()

    def close(self) -> None:
        """Wake nobody any more."""
        self._over = True
        self._let_go()

    def _let_go(self) -> None:
        if self._watch is not None:
            self._watch.stop()

    def _on_files(self, watching: BusWatch) -> None:
        with watching:
            while not watching.stopped:
                watching.wait()
                self._bell.set()

    def _on_commits(self) -> None:
        mark = -1
        while not self._over:
            try:
                seen = self._store.wait_for_change(mark, _COMMIT_WAIT_SECONDS)
            except StoreError:
                return  # closed, or gone: the files still ring
            if seen != mark:
                mark = seen
                self._bell.set()


class OutputFollower:
    """Reads on where it stopped; of the run that was found first, only the last lines."""

    def __init__(self, home: Path, store: Store, task: str, count: int) -> None:
        self._home = home
        self._store = store
        self._task = task
        self._count = count
        self._run: Run | None = None
        self._tails: list[OutputTail] = []

    def read_new(self) -> tuple[list[RunOutputLine | FollowedRun], bool]:
        """Everything that is new, and whether the task is at rest."""
        with self._store.read() as tx:
            runs = runs_of(tx, self._task)
            over = bool(find_settled(tx, [self._task]))
        known = self._run.fence if self._run else 0
        told: list[RunOutputLine | FollowedRun] = []
        # Of those that came and went between two looks, nothing is skipped.
        for run in [run for run in runs if run.fence >= known] if known else runs[-1:]:
            if run.fence != known:
                told += self._begin(run)
            told += self._new(run)
        return told, over

    @property
    def folder(self) -> Path | None:
        """Where the present run prints; another run is a commit."""
        return self._home / self._run.folder if self._run else None

    def _begin(self, run: Run) -> Iterator[RunOutputLine | FollowedRun]:
        first, self._run = self._run is None, run
        folder = self._home / run.folder
        yield FollowedRun(run)
        self._tails = []
        for stream in OutputStream:
            offset = 0
            if first:
                found = read_last_lines(folder / stream, stream, self._count)
                offset = found.offset
                yield from (RunOutputLine(run, line) for line in found.lines)
            self._tails.append(OutputTail(folder / stream, stream, offset))

    def _new(self, run: Run) -> Iterator[RunOutputLine]:
        over = run.state not in LIVE
        for tail in self._tails:
            yield from (
                RunOutputLine(run, line) for line in (tail.rest() if over else tail.lines())
            )


def follow_output(
    home: Path, store: Store, clock: Clock, task: str, count: int
) -> Iterator[RunOutputLine | FollowedRun]:
    """What a task's agents print, until it is at rest."""
    follower, news = OutputFollower(home, store, task, count), OutputWakeup(store, clock)
    try:
        while True:
            told, over = follower.read_new()
            yield from told
            if over:
                return
            news.of(follower.folder)
            news.wait()
    finally:
        news.close()

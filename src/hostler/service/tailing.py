"""Following a task's agents as they print, from one run to the next, until the task is at rest."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hostler.agents.lines import Line, Stream, Tail
from hostler.bus.watching import Watch, watch
from hostler.clock import Clock
from hostler.errors import StoreError
from hostler.service.outputs import last_lines
from hostler.service.resting import rested
from hostler.store import Store
from hostler.store.runs import LIVE, Run, runs_of

# How long the thread that waits for commits sleeps before it looks whether it is still needed.
LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Printed:
    """A line of a run."""

    run: Run
    line: Line


@dataclass(frozen=True, slots=True)
class Begun:
    """From here on, another run is followed."""

    run: Run


class News:
    """Wakes its one waiter when files of a folder change, or when anybody commits."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._bell = clock.wakeup()
        self._folder: Path | None = None
        self._watch: Watch | None = None
        self._over = False
        threading.Thread(target=self._on_commits, name="commits", daemon=True).start()

    def of(self, folder: Path | None) -> None:
        """Hear of this folder from now on, and of no other."""
        if folder is None or folder == self._folder or not folder.is_dir():
            return
        self._let_go()
        self._folder, self._watch = folder, watch(self._clock, [folder])
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

    def _on_files(self, watching: Watch) -> None:
        with watching:
            while not watching.stopped:
                watching.wait()
                self._bell.set()

    def _on_commits(self) -> None:
        mark = -1
        while not self._over:
            try:
                seen = self._store.wait_for_change(mark, LOOK_SECONDS)
            except StoreError:
                return  # closed, or gone: the files still ring
            if seen != mark:
                mark = seen
                self._bell.set()


class Follower:
    """Reads on where it stopped; of the run that was found first, only the last lines."""

    def __init__(self, home: Path, store: Store, task: str, count: int) -> None:
        self._home = home
        self._store = store
        self._task = task
        self._count = count
        self._run: Run | None = None
        self._tails: list[Tail] = []

    def look(self) -> tuple[list[Printed | Begun], bool]:
        """Everything that is new, and whether the task is at rest."""
        with self._store.read() as tx:
            runs = runs_of(tx, self._task)
            over = bool(rested(tx, [self._task]))
        known = self._run.fence if self._run else 0
        told: list[Printed | Begun] = []
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

    def _begin(self, run: Run) -> Iterator[Printed | Begun]:
        first, self._run = self._run is None, run
        folder = self._home / run.folder
        yield Begun(run)
        self._tails = []
        for stream in Stream:
            offset = 0
            if first:
                found = last_lines(folder / stream, stream, self._count)
                offset = found.offset
                yield from (Printed(run, line) for line in found.lines)
            self._tails.append(Tail(folder / stream, stream, offset))

    def _new(self, run: Run) -> Iterator[Printed]:
        over = run.state not in LIVE
        for tail in self._tails:
            yield from (Printed(run, line) for line in (tail.rest() if over else tail.lines()))


def follow(
    home: Path, store: Store, clock: Clock, task: str, count: int
) -> Iterator[Printed | Begun]:
    """What a task's agents print, until it is at rest."""
    follower, news = Follower(home, store, task, count), News(store, clock)
    try:
        while True:
            told, over = follower.look()
            yield from told
            if over:
                return
            news.of(follower.folder)
            news.wait()
    finally:
        news.close()

"""Looking at the house: woken by commits, now and then for the rest; failures are no end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from hostler.clock import Clock
from hostler.errors import HostlerError

# For signs of life of agents, and for who holds the home: these are no commits.
WORKING_SECONDS, RESTING_SECONDS = 5.0, 15.0
# Many commits in a moment are one piece of news.
LEAST_SECONDS = 0.25
# How long it may take to notice that the screen has closed.
NOTICE_SECONDS = 1.0
LONGEST_PAUSE = 5.0


class Outlook(Protocol):
    """What is looked with. `mark` comes before `look`: what is committed between is not missed."""

    def mark(self) -> int: ...
    def look(self) -> Mapping[str, Any]: ...
    def wait(self, mark: int, seconds: float) -> bool:
        """Whether somebody has committed since, within this time."""
        ...

    def forget(self) -> None:
        """Begin anew with the next look."""
        ...


# What was seen, or why nothing was.
Tell = Callable[[Mapping[str, Any] | None, str], None]


def pause_after(failures: int) -> float:
    """How long to wait after so many failures in a row: 1, 2, 4, then 5 seconds."""
    return min(float(1 << min(failures - 1, 10)), LONGEST_PAUSE)


def pause_between(seen: Mapping[str, Any]) -> float:
    """How long a look is good for though nobody commits."""
    return WORKING_SECONDS if seen["at_work"] else RESTING_SECONDS


class Watcher:
    """A thread that looks, and tells what it saw."""

    def __init__(self, outlook: Outlook, clock: Clock, tell: Tell) -> None:
        self._outlook = outlook
        self._clock = clock
        self._tell = tell
        self._ended = threading.Event()
        self._pause = clock.wakeup()
        self._one = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def end(self) -> None:
        """Look no more, soon: nobody who quits waits for it."""
        self._ended.set()
        self._pause.set()

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join()

    def look_now(self) -> None:
        """One more look, from the beginning and from whatever thread."""
        if not self._ended.is_set():
            self._outlook.forget()
            self._look()

    def _run(self) -> None:
        try:
            self._watch()
        finally:
            self._outlook.forget()

    def _watch(self) -> None:
        failures = 0
        while not self._ended.is_set():
            found = self._look()
            if found is None:
                failures += 1
                self._pause.wait(pause_after(failures))
                continue
            failures = 0
            self._rest(*found)

    def _look(self) -> tuple[int, float] | None:
        """A mark, and how long this look is good for; None: it failed."""
        with self._one:
            try:
                mark = self._outlook.mark()
                seen = self._outlook.look()
            except Exception as error:
                # Whatever it is: a screen that stands still and says nothing would be worse.
                self._outlook.forget()
                self._tell(None, words_of(error))
                return None
            self._tell(seen, "")
            return mark, pause_between(seen)

    def _rest(self, mark: int, seconds: float) -> None:
        end = self._clock.monotonic() + seconds
        self._pause.wait(LEAST_SECONDS)
        while not self._ended.is_set():
            left = end - self._clock.monotonic()
            try:
                if left <= 0 or self._outlook.wait(mark, min(left, NOTICE_SECONDS)):
                    return
            except Exception:
                return  # the next look says what it is


def words_of(error: Exception) -> str:
    """Why nothing was seen."""
    if isinstance(error, HostlerError):
        return " ".join(error.lines())
    if isinstance(error, OSError) and error.strerror:
        return f"The system refused: {error.strerror}."
    return f"Hostler has a defect: {type(error).__name__}: {error}"

"""The view for logs: one line per thing that happens, without escape codes."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Protocol, Self

from hostler.cli.demo.news import Line
from hostler.cli.demo.sight import Sight
from hostler.cli.output import say


class View(Protocol):
    """Whoever shows the story."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def tell(self, elapsed: float, line: Line) -> None:
        """Something has happened."""
        ...

    def draw(self, elapsed: float, sight: Sight) -> None:
        """This is how things are."""
        ...


class Silence:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def tell(self, elapsed: float, line: Line) -> None:
        pass

    def draw(self, elapsed: float, sight: Sight) -> None:
        pass


class Plain(Silence):
    """A line for each thing, at once."""

    def tell(self, elapsed: float, line: Line) -> None:
        say(f"{elapsed:5.1f}s  {line.place:<14} {line.who:<8} {line.what}")
        sys.stdout.flush()

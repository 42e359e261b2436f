"""The live view: a table of the tasks, and the latest events below it."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from hostler.cli.demo.display import AGENT, HOSTLER, IGNORED, NEW, DemoEvent, TaskRow, build_rows
from hostler.cli.demo.observe import DemoSnapshot

_STATE_STYLES = {
    NEW: "dim",
    IGNORED: "dim",
    "queued": "cyan",
    "running": "yellow",
    "retrying": "red",
    "parked": "red",
    "blocked": "red",
    "failed": "red",
    "stopped": "red",
    "in review": "blue",
    "asks": "magenta",
    "done": "green",
}
_AUTHOR_STYLES = {HOSTLER: "cyan", AGENT: "yellow", "github": "dim"}
# Title, blank line, head of the table, rule, blank line before the ticker.
_FRAME_LINES = 5
# Minimum terminal widths for optional columns.
_WITH_HAPPENING, _WITH_FLOW, _WITH_TITLE = 48, 64, 110


class LiveView:
    """A full-screen view, which restores the terminal at its end."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._lines: deque[tuple[float, DemoEvent]] = deque(maxlen=100)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def tell(self, elapsed: float, line: DemoEvent) -> None:
        """Add an event to the list."""
        self._lines.append((elapsed, line))

    def draw(self, elapsed: float, snapshot: DemoSnapshot) -> None:
        """Draw the current state."""
        size = self._console.size
        picture = render_frame(
            elapsed, build_rows(snapshot), list(self._lines), size.width, size.height
        )
        self._live.update(picture, refresh=True)


def render_frame(
    elapsed: float,
    table: list[TaskRow],
    lines: list[tuple[float, DemoEvent]],
    width: int,
    height: int,
) -> RenderableType:
    """Render the whole frame, in at most `height` lines."""
    room = max(0, height - _FRAME_LINES - len(table) - 1)
    last = lines[len(lines) - min(room, len(lines)) :]
    return Group(
        _render_title(elapsed, width),
        Text(),
        _render_table(table, width),
        Text(),
        _render_ticker(last, width),
    )


def _render_title(elapsed: float, width: int) -> Text:
    left = Text(" Hostler demo ", style="bold reverse")
    note = "  Ctrl-C to stop" if width >= 50 else ""
    right = f"{elapsed:4.0f} s "
    gap = max(1, width - len(left.plain) - len(note) - len(right))
    title = left.append(note, style="not bold not reverse dim")
    return _one_line(title.append(" " * gap + right, style="not bold not reverse"))


def _render_table(found: list[TaskRow], width: int) -> Table:
    """Render the table; columns have fixed widths, so that nothing jumps."""
    table = Table(box=None, expand=True, pad_edge=True, header_style="dim")
    for name, least, from_width in _COLUMNS:
        if width >= from_width:
            ratio = None if least else 1
            table.add_column(_HEADINGS[name], min_width=least or None, ratio=ratio, no_wrap=True)
    for row in found:
        table.add_row(*(_render_cell(row, name) for name, _, least in _COLUMNS if width >= least))
    return table


# The attribute of a row, its width (0: what is left), and the least width of the terminal.
_COLUMNS = (
    ("issue", 13, 0),
    ("title", 30, _WITH_TITLE),
    ("flow", 9, _WITH_FLOW),
    ("state", 10, 0),
    ("happening", 0, _WITH_HAPPENING),
    ("pull", 9, 0),
)
_HEADINGS = {
    "issue": "issue",
    "title": "title",
    "flow": "flow",
    "state": "state",
    "happening": "what is happening",
    "pull": "pull",
}


def _render_cell(row: TaskRow, name: str) -> Text:
    text = str(getattr(row, name))
    if name == "state":
        return Text(text, style=_STATE_STYLES.get(text, ""))
    return Text(text, style="green" if name == "pull" and text.endswith("merged") else "")


def _render_ticker(lines: list[tuple[float, DemoEvent]], width: int) -> Group:
    label_width = max((len(line.issue) for _, line in lines), default=0)
    return Group(*(_render_tick(elapsed, line, label_width, width) for elapsed, line in lines))


def _render_tick(elapsed: float, line: DemoEvent, label_width: int, width: int) -> Text:
    text = Text(f"{elapsed:5.1f} ", style="dim")
    if width >= _WITH_HAPPENING:
        text.append(f"{line.issue:<{label_width}} ", style="not dim")
    text.append(f"{line.who:<7} ", style=f"not dim {_AUTHOR_STYLES.get(line.who, 'magenta')}")
    return _one_line(text.append(line.what, style="not dim"))


def _one_line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text

"""The Textual application, and the log lines it shows."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Key, Resize
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from hostler.clock import Clock
from hostler.tui.keys import Effect, OpenUrl, Quit, Refresh, StopTask, handle_key
from hostler.tui.renderer import ScreenFrame, draw_screen
from hostler.tui.snapshot_source import SnapshotSource, SnapshotWatcher, describe_error
from hostler.tui.state import BOUND_KEYS, ScreenData, ScreenState, UrlDialog
from hostler.tui.terminal import Terminal, open_page

MAX_LOG_LINES = 500


class LogLines:
    """The newest lines; whoever follows is told of each."""

    def __init__(self, most: int = MAX_LOG_LINES) -> None:
        self._guard = threading.Lock()
        self._lines: deque[str] = deque(maxlen=most)
        self._count = 0
        self._follower: Callable[[], object] | None = None

    def add(self, line: str) -> None:
        """One line, from whatever thread."""
        with self._guard:
            self._lines.append(line)
            self._count += 1
            follower = self._follower
        if follower is not None:
            follower()

    def follow(self, follower: Callable[[], object] | None) -> None:
        """Tell this one of each line; None: nobody any more."""
        with self._guard:
            self._follower = follower

    def lines(self) -> tuple[tuple[str, ...], int]:
        """The lines that are kept, and how many there were before them."""
        with self._guard:
            return tuple(self._lines), self._count - len(self._lines)


_STYLES = {
    "title": Style(bold=True),
    "rule": Style(dim=True),
    "focus": Style(bold=True),
    "pick": Style(reverse=True),
    "bad": Style(color="red"),
    "warn": Style(color="yellow"),
    "good": Style(color="green"),
    "dim": Style(dim=True),
}
_PLAIN = Style()
TERMINAL_CHECK_SECONDS = 5.0


def _stop_unavailable(_task: str) -> str:
    return "Tasks cannot be stopped from here."


@dataclass(frozen=True, slots=True)
class ScreenDeps:
    """What a screen acts with. `stop` says what came of it."""

    outlook: SnapshotSource
    clock: Clock
    stop: Callable[[str], str] = _stop_unavailable
    show: Callable[[str], bool] = open_page
    log: LogLines | None = None
    zone: tzinfo | None = None


class Canvas(Widget):
    """Shows a frame; only lines that changed are painted again."""

    frame = ScreenFrame(())

    def render_line(self, y: int) -> Strip:
        lines = self.frame.lines
        spans = lines[y] if y < len(lines) else ()
        parts = [Segment(span.text, _STYLES.get(span.tone, _PLAIN)) for span in spans]
        return Strip(parts).adjust_cell_length(self.size.width)

    def paint(self, frame: ScreenFrame) -> None:
        """Show this one from now on."""
        before, self.frame = self.frame.lines, frame
        if len(before) != len(frame.lines):
            self.refresh()
            return
        pairs = enumerate(zip(before, frame.lines, strict=True))
        changed = [Region(0, y, self.size.width, 1) for y, (old, new) in pairs if old != new]
        if changed:
            self.refresh(*changed)


class _SafeStream:
    """Where the screen is written to; one that was closed takes nothing."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()

    def fileno(self) -> int:
        return int(self._stream.fileno())

    def isatty(self) -> bool:
        return True


class ResilientDriver(LinuxDriver):
    """Survives its terminal: a thread that writes must not die, as others wait for it."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._file = _SafeStream(sys.__stderr__)  # type: ignore[assignment]


class SnapshotRead(Message):
    """A look is over."""

    def __init__(self, seen: Mapping[str, Any] | None, trouble: str) -> None:
        super().__init__()
        self.seen = seen
        self.trouble = trouble


class StatusText(Message):
    """Something to be read at the foot of the screen."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class NoBrowser(Message):
    """A page for which there is no browser."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url


class LogChanged(Message):
    """The service said something."""


class HostlerApp(App[None], inherit_bindings=False):
    """One screen from its opening to its end."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "Screen, Canvas { background: ansi_default; color: ansi_default; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, f"press('{key}')", show=False, priority=True) for key in BOUND_KEYS
    ]

    def __init__(self, screen: ScreenState, means: ScreenDeps) -> None:
        super().__init__(driver_class=ResilientDriver, ansi_color=True)
        self.at = screen
        self.news = ScreenData(zone=means.zone)
        self.means = means
        self._terminal = Terminal()
        self.canvas = Canvas()
        self._seen_at = means.clock.monotonic()
        self._events: asyncio.AbstractEventLoop | None = None
        self._over_soon = False
        self._tick: Timer | None = None
        self.watcher = SnapshotWatcher(means.outlook, means.clock, self._hear)

    # -- life ---------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield self.canvas

    def on_mount(self) -> None:
        self._events = asyncio.get_running_loop()
        if self._over_soon:
            self.exit()
        self._tick = self.set_interval(1.0, self.pass_time, pause=True)
        self.set_interval(TERMINAL_CHECK_SECONDS, self._mind_terminal)
        if self.means.log is not None:
            self.means.log.follow(lambda: self.post_message(LogChanged()))
        self.on_log_changed()
        self.watcher.start()

    def on_unmount(self) -> None:
        if self.means.log is not None:
            self.means.log.follow(None)
        self.watcher.end()

    def close_soon(self) -> None:
        """End the screen, from a signal or another thread; also one that has yet to open."""
        self._over_soon = True
        if self._events is not None:
            with suppress(RuntimeError):  # it has ended already
                self._events.call_soon_threadsafe(self.exit)

    def _mind_terminal(self) -> None:
        if not self.is_headless and self._terminal.is_gone():
            self.exit()

    def _fatal_error(self) -> None:
        """A defect is told as everywhere in the program: without all that is in memory."""
        self._close_messages_no_wait()

    # -- news ---------------------------------------------------------------------------------

    def _hear(self, seen: Mapping[str, Any] | None, trouble: str) -> None:
        self.post_message(SnapshotRead(seen, trouble))

    def on_snapshot_read(self, told: SnapshotRead) -> None:
        if told.seen is not None:
            self._seen_at = self.means.clock.monotonic()
            self.news = replace(self.news, seen=told.seen)
        self.news = replace(self.news, trouble=told.trouble)
        self.pass_time()

    def on_status_text(self, said: StatusText) -> None:
        self.at = replace(self.at, said=said.text)
        self.show()

    def on_no_browser(self, page: NoBrowser) -> None:
        self.at = replace(self.at, over=UrlDialog(page.url))
        self.show()

    def on_log_changed(self) -> None:
        if self.means.log is not None:
            lines, forgotten = self.means.log.lines()
            self.news = replace(self.news, log=lines, forgotten=forgotten)
        self.show()

    def pass_time(self) -> None:
        """Times on the screen go on."""
        late = max(self.means.clock.monotonic() - self._seen_at, 0.0)
        self.news = replace(self.news, late=late)
        self.show()

    # -- keys ---------------------------------------------------------------------------------

    def action_press(self, key: str) -> None:
        self.at, effects = handle_key(self.at, self.news, key, (self.size.width, self.size.height))
        for effect in effects:
            self._do(effect)
        self.show()

    def on_key(self, event: Key) -> None:
        """A key that means nothing by itself: it may still be a no, or the way back."""
        self.action_press(event.key)

    def _do(self, effect: Effect) -> None:
        match effect:
            case Quit():
                self.exit()
            case Refresh():
                self._aside(self._look_again)
            case OpenUrl(url=url):
                self.at = replace(self.at, said=f"Opening {url}")
                self._aside(lambda: self._browse(url))
            case StopTask(task=task):
                self.at = replace(self.at, said=f"Stopping {task}")
                self._aside(lambda: self._halt(task))

    def _aside(self, work: Callable[[], None]) -> None:
        """On a thread: the screen goes on meanwhile."""
        self.run_worker(work, thread=True, exit_on_error=False)

    def _look_again(self) -> None:
        self.watcher.look_now()
        self.post_message(StatusText(""))

    def _browse(self, url: str) -> None:
        self.post_message(StatusText("") if self.means.show(url) else NoBrowser(url))

    def _halt(self, task: str) -> None:
        try:
            told = self.means.stop(task)
        except Exception as error:  # to be read at once: somebody waits for it
            told = describe_error(error)
        self.post_message(StatusText(told))

    # -- the picture --------------------------------------------------------------------------

    def on_resize(self, _event: Resize) -> None:
        self.show()

    def show(self) -> None:
        """Draw what is known. Time is counted only while a time is on the screen."""
        frame = draw_screen(self.at, self.news, self.size.width, self.size.height)
        self.canvas.paint(frame)
        if self._tick is not None:
            self._tick.resume() if frame.ages else self._tick.pause()


def run_on_terminal(app: HostlerApp) -> None:
    """Show it until it is left; raise the defect that ended it."""
    app.run(mouse=False)
    if app._exception is not None:
        raise app._exception

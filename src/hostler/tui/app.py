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
    """The newest lines of the log; the follower is called for each."""

    def __init__(self, max_lines: int = MAX_LOG_LINES) -> None:
        self._guard = threading.Lock()
        self._lines: deque[str] = deque(maxlen=max_lines)
        self._count = 0
        self._follower: Callable[[], object] | None = None

    def add(self, line: str) -> None:
        """Add one line, from any thread."""
        with self._guard:
            self._lines.append(line)
            self._count += 1
            follower = self._follower
        if follower is not None:
            follower()

    def follow(self, follower: Callable[[], object] | None) -> None:
        """Set the function to call for each line; None: no function."""
        with self._guard:
            self._follower = follower

    def lines(self) -> tuple[tuple[str, ...], int]:
        """Return the kept lines, and the number of dropped lines before them."""
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
    """What a screen needs from outside. `stop` returns the text to show."""

    outlook: SnapshotSource
    clock: Clock
    stop: Callable[[str], str] = _stop_unavailable
    show: Callable[[str], bool] = open_page
    log: LogLines | None = None
    zone: tzinfo | None = None


class ScreenCanvas(Widget):
    """Shows a frame; repaints only lines that changed."""

    frame = ScreenFrame(())

    def render_line(self, y: int) -> Strip:
        lines = self.frame.lines
        spans = lines[y] if y < len(lines) else ()
        parts = [Segment(span.text, _STYLES.get(span.tone, _PLAIN)) for span in spans]
        return Strip(parts).adjust_cell_length(self.size.width)

    def paint(self, frame: ScreenFrame) -> None:
        """Show this frame."""
        before, self.frame = self.frame.lines, frame
        if len(before) != len(frame.lines):
            self.refresh()
            return
        pairs = enumerate(zip(before, frame.lines, strict=True))
        changed = [Region(0, y, self.size.width, 1) for y, (old, new) in pairs if old != new]
        if changed:
            self.refresh(*changed)


class _SafeStream:
    """The output stream of the screen; ignores writes after it was closed."""

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
    """Survives a closed terminal: its writer thread must not die, as others wait for it."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._file = _SafeStream(sys.__stderr__)  # type: ignore[assignment]


class SnapshotRead(Message):
    """A snapshot was read, or reading it failed."""

    def __init__(self, seen: Mapping[str, Any] | None, trouble: str) -> None:
        super().__init__()
        self.seen = seen
        self.trouble = trouble


class StatusText(Message):
    """A text for the footer."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


class NoBrowser(Message):
    """A page could not be opened because there is no browser."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url


class LogChanged(Message):
    """The log has new lines."""


class HostlerApp(App[None], inherit_bindings=False):
    """The application that shows the screen."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "Screen, ScreenCanvas { background: ansi_default; color: ansi_default; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, f"press('{key}')", show=False, priority=True) for key in BOUND_KEYS
    ]

    def __init__(self, screen: ScreenState, means: ScreenDeps) -> None:
        super().__init__(driver_class=ResilientDriver, ansi_color=True)
        self.at = screen
        self.news = ScreenData(zone=means.zone)
        self.means = means
        self._terminal = Terminal()
        self.canvas = ScreenCanvas()
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
        """Close the screen, from a signal or another thread, even before it has opened."""
        self._over_soon = True
        if self._events is not None:
            with suppress(RuntimeError):  # it has already ended
                self._events.call_soon_threadsafe(self.exit)

    def _mind_terminal(self) -> None:
        if not self.is_headless and self._terminal.is_gone():
            self.exit()

    def _fatal_error(self) -> None:
        """Do not print Textual's traceback with local variables; the CLI reports the error."""
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
        """Update elapsed times on the screen."""
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
        """Handle any other key, which may close or decline a dialog."""
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
        """Run the work on a thread, so that the screen stays responsive."""
        self.run_worker(work, thread=True, exit_on_error=False)

    def _look_again(self) -> None:
        self.watcher.look_now()
        self.post_message(StatusText(""))

    def _browse(self, url: str) -> None:
        self.post_message(StatusText("") if self.means.show(url) else NoBrowser(url))

    def _halt(self, task: str) -> None:
        try:
            result = self.means.stop(task)
        except Exception as error:  # shown in the footer
            result = describe_error(error)
        self.post_message(StatusText(result))

    # -- the picture --------------------------------------------------------------------------

    def on_resize(self, _event: Resize) -> None:
        self.show()

    def show(self) -> None:
        """Draw the screen. The timer runs only while an elapsed time is shown."""
        frame = draw_screen(self.at, self.news, self.size.width, self.size.height)
        self.canvas.paint(frame)
        if self._tick is not None:
            self._tick.resume() if frame.ages else self._tick.pause()


def run_on_terminal(app: HostlerApp) -> None:
    """Run the application until it is closed; raise the error that ended it."""
    app.run(mouse=False)
    if app._exception is not None:
        raise app._exception

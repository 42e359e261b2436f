"""Logging: JSON lines in one file per UTC day, readable lines on a terminal, secrets redacted."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, TextIO

import structlog

from hostler.clock import Clock
from hostler.forks import reset_after_fork
from hostler.model import format_timestamp
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import (
    FOREIGN_LOG,
    LOG_LINES,
    LOG_LINES_DROPPED,
    LOG_LINES_LOST,
    LogEvent,
    LogLevel,
)
from hostler.telemetry.redaction import redact, redact_value

_DAY_FILE = re.compile(r"^(\d{4}-\d{2}-\d{2})\.jsonl$")


@dataclass(frozen=True, slots=True)
class LogCaps:
    """Maximum size in bytes of the file of a day, and of all files together."""

    day: int = sys.maxsize
    total: int = sys.maxsize

    @classmethod
    def of_mb(cls, day: int, total: int) -> LogCaps:
        """Build caps from sizes in MB; 0 means no cap."""
        return cls(day * 1024 * 1024 or sys.maxsize, total * 1024 * 1024 or sys.maxsize)


class DailyLogFile:
    """Appends lines to `<folder>/YYYY-MM-DD.jsonl`. Any number of processes may share a folder.

    A line is one `write` on an append-only descriptor, so lines of several processes never mix.
    A line that cannot be written is counted and dropped: logging never stops the work.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        retention_days: int,
        caps: LogCaps | None = None,
    ) -> None:
        self._caps = caps or LogCaps()
        self._folder = folder
        self._clock = clock
        self._retention = timedelta(days=retention_days)
        self.after_fork()
        reset_after_fork(self)
        self._day: date | None = None
        self._descriptor = -1
        self.dropped = 0

    def after_fork(self) -> None:
        """Reset the lock; the append-only descriptor is safe to share."""
        self._lock = threading.Lock()

    def write(self, line: str) -> None:
        """Append one line, or count it as lost."""
        data = (line + "\n").encode("utf-8", "backslashreplace")
        with self._lock:
            try:
                self._turn_to_today()
                self._append(data)
            except OSError:
                self.dropped += 1
                metrics.count(LOG_LINES_LOST)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._release()

    def _append(self, data: bytes) -> None:
        if os.fstat(self._descriptor).st_size + len(data) > self._caps.day:
            raise OSError("the day's file is full")
        written = os.write(self._descriptor, data)
        if written < len(data):
            # The disk filled up within the line: truncate the torn piece, so that the next line
            # does not join it.
            size = os.fstat(self._descriptor).st_size
            os.ftruncate(self._descriptor, max(0, size - written))
            raise OSError("short write")

    def _turn_to_today(self) -> None:
        today = self._clock.now().date()
        if today == self._day and self._descriptor >= 0:
            return
        self._release()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(self._folder / f"{today.isoformat()}.jsonl", flags, 0o600)
        self._day = today
        self._remove_older_than(today - self._retention)
        self._remove_oldest(today)

    def _remove_older_than(self, oldest: date) -> None:
        for path in self._folder.iterdir():
            match = _DAY_FILE.match(path.name)
            if match and match[1] < oldest.isoformat():
                path.unlink(missing_ok=True)

    def _remove_oldest(self, today: date) -> None:
        """Delete the oldest days until the total fits the cap; keep today's file."""
        days = sorted(path for path in self._folder.iterdir() if _DAY_FILE.match(path.name))
        sizes = {path: path.stat().st_size for path in days}
        for path in days:
            if sum(sizes.values()) <= self._caps.total or path.stem >= today.isoformat():
                return
            path.unlink(missing_ok=True)
            del sizes[path]

    def _release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


LogFields = MutableMapping[str, Any]
_COLOURS = {LogLevel.DEBUG: "2", LogLevel.INFO: "0", LogLevel.WARNING: "33", LogLevel.ERROR: "31"}


class EventLog:
    """A logger with bound fields. Only declared events can be logged."""

    def __init__(self, bound: structlog.BoundLoggerBase, least: LogLevel) -> None:
        self._bound = bound
        self._least = least

    def bind(self, **fields: object) -> EventLog:
        """Return a log that adds these fields to every line."""
        return EventLog(self._bound.bind(**fields), self._least)

    def event(
        self, event: LogEvent, *, error: BaseException | None = None, **fields: object
    ) -> None:
        """Log one event at its level."""
        if event.level.rank < self._least.rank:
            return
        metrics.count(LOG_LINES, level=event.level)
        if error is not None:
            fields["error"] = str(error) or type(error).__name__
            fields["traceback"] = "".join(traceback.format_exception(error))
        self._bound._proxy_to_logger("msg", event.name, level=event.level.value, **fields)


class LogDestinations:
    """The log's destinations. Close it to close the file."""

    def __init__(
        self,
        clock: Clock,
        folder: Path | None,
        *,
        retention_days: int = 14,
        caps: LogCaps | None = None,
        least: LogLevel = LogLevel.INFO,
        terminal: TextIO | None = None,
    ) -> None:
        self._clock = clock
        self._file = DailyLogFile(folder, clock, retention_days, caps) if folder else None
        self._terminal = terminal
        bound = structlog.wrap_logger(
            _LineSink(self._write),
            processors=[self._stamped],
            wrapper_class=structlog.BoundLoggerBase,
        )
        self.log = EventLog(bound, least)
        self._foreign = _LibraryLogHandler(self.log)

    def capture_foreign(self) -> None:
        """Also log what libraries log, so that it is redacted."""
        root = logging.getLogger()
        root.handlers[:] = [self._foreign]
        root.setLevel(logging.WARNING)

    def close(self) -> None:
        """Close the file and stop capturing the libraries' logs."""
        logging.getLogger().removeHandler(self._foreign)
        if self._file:
            self._file.close()

    @property
    def complete(self) -> bool:
        """Whether every line so far has reached the file."""
        return self._file is not None and self._file.dropped == 0

    def _stamped(
        self, _logger: object, _method: str, fields: LogFields
    ) -> tuple[tuple[LogFields], Any]:
        event = {"at": format_timestamp(self._clock.now()), "level": fields.pop("level")}
        return ({**event, "event": fields.pop("event"), **fields},), {}

    def _write(self, raw: LogFields) -> None:
        fields = redact_value(raw)
        if self._file:
            self._report_dropped(self._file)
            self._file.write(redact(format_json_line(fields)))
        if self._terminal:
            self._terminal.write(
                redact(format_terminal_line(fields, colours=supports_colours(self._terminal)))
            )
            self._terminal.flush()

    def _report_dropped(self, file: DailyLogFile) -> None:
        count, file.dropped = file.dropped, 0
        if count:
            first = {
                "at": format_timestamp(self._clock.now()),
                "level": LOG_LINES_DROPPED.level.value,
            }
            gone = {"event": LOG_LINES_DROPPED.name, "count": count, "reason": "could not write"}
            file.write(format_json_line({**first, **gone}))
            # If this line was dropped too, the count is kept for the next one.
            file.dropped = file.dropped and file.dropped + count - 1


class _LineSink:
    """The last processor of structlog: passes each finished line to a function."""

    def __init__(self, write: Callable[[LogFields], None]) -> None:
        self._write = write

    def msg(self, fields: LogFields) -> None:
        """Pass on one line."""
        self._write(fields)


class _LibraryLogHandler(logging.Handler):
    """Brings the standard library's log records into our log."""

    def __init__(self, log: EventLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        event = replace(FOREIGN_LOG, level=_level_from_stdlib(record.levelno))
        error = record.exc_info[1] if record.exc_info else None
        try:
            self._log.event(event, error=error, logger=record.name, message=record.getMessage())
        except Exception:  # an error in a library's log call must not reach its caller
            self.handleError(record)


def _level_from_stdlib(number: int) -> LogLevel:
    """Return our level for a level of the standard library."""
    if number >= logging.ERROR:
        return LogLevel.ERROR
    if number >= logging.WARNING:
        return LogLevel.WARNING
    return LogLevel.INFO if number >= logging.INFO else LogLevel.DEBUG


def format_json_line(fields: LogFields) -> str:
    """Format an event as one line of JSON."""
    return json.dumps(fields, ensure_ascii=False)


def format_terminal_line(fields: LogFields, *, colours: bool) -> str:
    """Format an event as `21:03:57 warning  log_lines_dropped  count=3`, traceback below."""
    rest = {k: v for k, v in fields.items() if k not in {"at", "level", "event", "traceback"}}
    pairs = " ".join(f"{key}={_format_value(value)}" for key, value in rest.items())
    line = f"{fields['at'][11:19]} {fields['level']:<7}  {fields['event']}  {pairs}".rstrip()
    if colours:
        line = f"\x1b[{_COLOURS[LogLevel(fields['level'])]}m{line}\x1b[0m"
    trace = "".join(f"    {row}\n" for row in str(fields.get("traceback", "")).splitlines())
    return f"{line}\n{trace}"


def _format_value(value: object) -> str:
    text = str(value)
    # Control characters could move the cursor or hide text.
    plain = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    return json.dumps(plain, ensure_ascii=False) if " " in plain or not plain else plain


def supports_colours(stream: TextIO) -> bool:
    """Return whether to use colours: only on a terminal, and not with NO_COLOR."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"

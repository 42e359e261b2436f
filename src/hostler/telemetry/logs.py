"""Logging: JSON lines in a file per day, lines for people on a terminal, no secret in either."""

from __future__ import annotations

import json
import logging
import os
import traceback
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import structlog

from hostler.clock import Clock
from hostler.model import stamp
from hostler.telemetry.logfile import Caps, DailyFile
from hostler.telemetry.metrics import metrics
from hostler.telemetry.names import FOREIGN_LOG, LOG_LINES, LOG_LINES_DROPPED, Event, Level
from hostler.telemetry.redact import clean, redact

Fields = MutableMapping[str, Any]
_COLOURS = {Level.DEBUG: "2", Level.INFO: "0", Level.WARNING: "33", Level.ERROR: "31"}


class Log:
    """A logger with bound fields. Only declared events can be logged."""

    def __init__(self, bound: structlog.BoundLoggerBase, least: Level) -> None:
        self._bound = bound
        self._least = least

    def bind(self, **fields: object) -> Log:
        """The same log with these fields on every line."""
        return Log(self._bound.bind(**fields), self._least)

    def event(self, event: Event, *, error: BaseException | None = None, **fields: object) -> None:
        """Log one event, at its own level."""
        if event.level.rank < self._least.rank:
            return
        metrics.count(LOG_LINES, level=event.level)
        if error is not None:
            fields["error"] = str(error) or type(error).__name__
            fields["traceback"] = "".join(traceback.format_exception(error))
        self._bound._proxy_to_logger("msg", event.name, level=event.level.value, **fields)


class Logging:
    """The log's destinations. Close it to let go of the file."""

    def __init__(
        self,
        clock: Clock,
        folder: Path | None,
        *,
        retention_days: int = 14,
        caps: Caps | None = None,
        least: Level = Level.INFO,
        terminal: TextIO | None = None,
    ) -> None:
        self._clock = clock
        self._file = DailyFile(folder, clock, retention_days, caps) if folder else None
        self._terminal = terminal
        bound = structlog.wrap_logger(
            _Sink(self._write), processors=[self._stamped], wrapper_class=structlog.BoundLoggerBase
        )
        self.log = Log(bound, least)
        self._foreign = _ForeignHandler(self.log)

    def capture_foreign(self) -> None:
        """Send what libraries log through here too, so that redaction covers them."""
        root = logging.getLogger()
        root.handlers[:] = [self._foreign]
        root.setLevel(logging.WARNING)

    def close(self) -> None:
        """Let go of the file and of the libraries' logs."""
        logging.getLogger().removeHandler(self._foreign)
        if self._file:
            self._file.close()

    @property
    def complete(self) -> bool:
        """Whether every line so far has reached the file."""
        return self._file is not None and self._file.dropped == 0

    def _stamped(self, _logger: object, _method: str, fields: Fields) -> tuple[tuple[Fields], Any]:
        event = {"at": stamp(self._clock.now()), "level": fields.pop("level")}
        return ({**event, "event": fields.pop("event"), **fields},), {}

    def _write(self, raw: Fields) -> None:
        fields = clean(raw)
        if self._file:
            self._report_dropped(self._file)
            self._file.write(redact(as_json(fields)))
        if self._terminal:
            self._terminal.write(redact(for_people(fields, colours=wants_colours(self._terminal))))
            self._terminal.flush()

    def _report_dropped(self, file: DailyFile) -> None:
        count, file.dropped = file.dropped, 0
        if count:
            first = {"at": stamp(self._clock.now()), "level": LOG_LINES_DROPPED.level.value}
            gone = {"event": LOG_LINES_DROPPED.name, "count": count, "reason": "could not write"}
            file.write(as_json({**first, **gone}))
            # If even this line was dropped, the ones before it still count.
            file.dropped = file.dropped and file.dropped + count - 1


class _Sink:
    """The end of structlog's chain: hands each finished line to one function."""

    def __init__(self, write: Callable[[Fields], None]) -> None:
        self._write = write

    def msg(self, fields: Fields) -> None:
        """Take one line."""
        self._write(fields)


class _ForeignHandler(logging.Handler):
    """Brings the standard library's log records into our log."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        event = replace(FOREIGN_LOG, level=_level(record.levelno))
        error = record.exc_info[1] if record.exc_info else None
        try:
            self._log.event(event, error=error, logger=record.name, message=record.getMessage())
        except Exception:  # a library's mistake in its own log line must not reach its caller
            self.handleError(record)


def _level(number: int) -> Level:
    """Our level for one of the standard library's."""
    if number >= logging.ERROR:
        return Level.ERROR
    if number >= logging.WARNING:
        return Level.WARNING
    return Level.INFO if number >= logging.INFO else Level.DEBUG


def as_json(fields: Fields) -> str:
    """One line of JSON."""
    return json.dumps(fields, ensure_ascii=False)


def for_people(fields: Fields, *, colours: bool) -> str:
    """`21:03:57 warning  log_lines_dropped  count=3`, tracebacks indented below."""
    rest = {k: v for k, v in fields.items() if k not in {"at", "level", "event", "traceback"}}
    pairs = " ".join(f"{key}={_shown(value)}" for key, value in rest.items())
    line = f"{fields['at'][11:19]} {fields['level']:<7}  {fields['event']}  {pairs}".rstrip()
    if colours:
        line = f"\x1b[{_COLOURS[Level(fields['level'])]}m{line}\x1b[0m"
    trace = "".join(f"    {row}\n" for row in str(fields.get("traceback", "")).splitlines())
    return f"{line}\n{trace}"


def _shown(value: object) -> str:
    text = str(value)
    # Control characters could move the cursor or hide text on a person's terminal.
    plain = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    return json.dumps(plain, ensure_ascii=False) if " " in plain or not plain else plain


def wants_colours(stream: TextIO) -> bool:
    """Colours only on a terminal, and not where the person said no."""
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"

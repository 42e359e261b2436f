"""What commands leave behind: log lines in the home, and traces where they are wanted."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hostler.cli.state import Globals, default_home

if TYPE_CHECKING:
    from hostler.config import Settings
    from hostler.telemetry.logs import Log


@contextmanager
def logbook(given: Globals, settings: Settings, command: str) -> Iterator[Log]:
    """The log of one command, with `--debug` on the terminal too; and its trace."""
    from hostler.clock import SystemClock
    from hostler.telemetry import tracing
    from hostler.telemetry.logfile import Caps
    from hostler.telemetry.logs import Logging
    from hostler.telemetry.names import Level

    runtime = settings.runtime
    if runtime.otel:
        tracing.start_tracing()
    logging = Logging(
        SystemClock(),
        given.home_folder / "logs",
        retention_days=runtime.log_retention_days,
        caps=Caps.of_mb(runtime.log_max_mb_per_day, runtime.log_max_mb),
        least=Level(runtime.log_level),
        terminal=sys.stderr if given.debug else None,
    )
    logging.capture_foreign()
    try:
        with tracing.span(f"hostler {command}"):
            yield logging.log
    finally:
        logging.close()
        tracing.stop_tracing()


def keep_traceback(error: Exception) -> Path | None:
    """Write a defect's traceback to the home's log; None where that cannot be done."""
    from hostler.clock import SystemClock
    from hostler.telemetry.logs import Logging
    from hostler.telemetry.names import COMMAND_FAILED

    try:
        folder, clock = default_home() / "logs", SystemClock()
        logging = Logging(clock, folder)
        logging.log.event(COMMAND_FAILED, error=error, command=" ".join(sys.argv[1:3]))
        logging.close()
    except Exception:  # we are telling of a defect already
        return None
    return folder / f"{clock.now().date().isoformat()}.jsonl" if logging.complete else None

"""Logs of commands: in the home's `logs/`, as the settings say."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hostler.cli.state import Globals, default_home

if TYPE_CHECKING:
    from hostler.telemetry.logs import Log


@contextmanager
def logbook(given: Globals) -> Iterator[Log]:
    """The log for one command."""
    from hostler.clock import SystemClock
    from hostler.config import load
    from hostler.telemetry.logs import Logging
    from hostler.telemetry.names import Level

    runtime = load(given.home_folder, given.config).settings.runtime
    logging = Logging(
        SystemClock(),
        given.home_folder / "logs",
        retention_days=runtime.log_retention_days,
        least=Level(runtime.log_level),
    )
    logging.capture_foreign()
    try:
        yield logging.log
    finally:
        logging.close()


def keep_traceback(error: Exception) -> Path | None:
    """Write a defect's traceback to the home's log; None where that cannot be done."""
    from hostler.clock import SystemClock
    from hostler.telemetry.logs import Logging
    from hostler.telemetry.names import COMMAND_FAILED

    folder = default_home() / "logs"
    clock = SystemClock()
    logging = Logging(clock, folder)
    logging.log.event(COMMAND_FAILED, error=error, command=" ".join(sys.argv[1:3]))
    logging.close()
    path = folder / f"{clock.now().date().isoformat()}.jsonl"
    return path if os.access(path, os.R_OK) else None

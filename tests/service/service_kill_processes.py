"""The process table: finding processes by their words, and kill -9."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path

from hostler.shim import processes

# A test that waits in vain must fail with a message, not hang.
PATIENCE = 60.0


def kill(process: processes.Process) -> None:
    """kill -9, and wait until it is gone."""
    pidfd = os.pidfd_open(process.pid)
    try:
        assert processes.send_signal(process, signal.SIGKILL), f"{process.name} was gone"
        assert select.select([pidfd], [], [], PATIENCE)[0], f"{process.name} does not end"
    finally:
        os.close(pidfd)


def gone(process: processes.Process) -> bool:
    """Whether that very process has ended."""
    now = processes.read_process(process.pid)
    return now is None or now.key != process.key or now.zombie


def exit_status(process: processes.Process) -> str:
    """How a process ended that nobody has waited for yet, for messages."""
    fields = _read(process, "stat").rpartition(b")")[2].split()
    return f"wait status {int(fields[-1])}" if fields else "an unknown status"


def _read(process: processes.Process, file: str) -> bytes:
    try:
        return Path(f"/proc/{process.pid}/{file}").read_bytes()
    except OSError:
        return b""

"""A process that runs rounds of housekeeping, and kills itself after a certain step.

Reads lines `HOME COUNT MOMENT` and answers each with `killed` or `through`: the round in that home,
by a clock that stands at that moment, ends with SIGKILL right after so many steps.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import datetime
from pathlib import Path

from hostler.clock import FakeClock
from hostler.config.settings import Settings
from hostler.service.gc.collector import collect_garbage
from hostler.service.gc.context import build_gc_context
from hostler.store import open_store


def sweep(home: Path, count: int, moment: datetime) -> None:
    """One round, that ends after so many steps."""
    left = count

    def observe(_step: str, _about: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    store = open_store(home, clock=FakeClock(moment))
    for _ in collect_garbage(build_gc_context(home, Settings(), store, 30, observe)):
        pass
    store.close()


def main() -> None:
    for line in sys.stdin:
        home, count, moment = line.split()
        child = os.fork()
        if child == 0:
            try:
                sweep(Path(home), int(count), datetime.fromisoformat(moment))
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        through = os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0
        print("killed" if killed else "through" if through else f"broken {status}", flush=True)


if __name__ == "__main__":
    main()

"""A service in a process of its own, which stops at a step until it is told to go on, or killed."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from runs_house import PATIENCE, Service

from hostler.runs.states import FenceLost
from loaded_children import CONTEXT

# The exit code of a child whose run was taken over by another one.
FENCE_LOST = 3


class Child:
    """One process that supervises one run, and a pipe to it."""

    def __init__(self, home: Path, place: Path, token: str, step: str, how: str = "wait") -> None:
        self._pipe, theirs = CONTEXT.Pipe()
        arguments = (theirs, home, place, token, step, how)
        self.process = CONTEXT.Process(target=serve, args=arguments, daemon=True)
        self.process.start()
        theirs.close()

    def hear(self) -> Any:
        assert self._pipe.poll(PATIENCE), "the service says nothing"
        return self._pipe.recv()

    def go_on(self) -> None:
        self._pipe.send("go on")

    def kill(self) -> None:
        """End it as a power cut of the process would."""
        self.process.kill()
        self.join()

    def join(self) -> None:
        self.process.join(PATIENCE)
        assert self.process.exitcode is not None, "the service does not end"


def serve(pipe: Connection, home: Path, place: Path, token: str, stop_at: str, how: str) -> None:
    """Admit a run and see it through; stop at the first time that a step was done."""
    waiting = {stop_at}

    def observer(step: str, run: str) -> None:
        if step in waiting:
            waiting.clear()
            pipe.send(run)
            pipe.recv()

    service = Service(home, place, token, observer=observer, how=how)
    run = service.admit_run()
    if stop_at == "admitted":
        observer("admitted", run.run)
    try:
        service.boss.supervise(run)
    except FenceLost:
        raise SystemExit(FENCE_LOST) from None
    service.close()
    pipe.send("over")

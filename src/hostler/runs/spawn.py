"""The edge: start a shim, hear that it has its run, give it the go byte."""

from __future__ import annotations

import json
import os
import select
import signal
from collections.abc import Mapping
from typing import Any

from hostler.runs.errors import ShimRefused
from hostler.runs.watcher import reap
from hostler.shim import command

# A machine under load starts a shim within seconds; one that says nothing for this long hangs.
PATIENCE_SECONDS = 60.0
LONGEST_SAYING = 65_536
# In the place of an exit code: the system would not even start it.
NOT_SPAWNED = -1
# What the dynamic loader may need to find Python's own libraries.
LOADER = ("LD_LIBRARY_PATH",)


class Spawned:
    """A shim of ours, to be left by `hand_over` and `go`, or else by `discard`."""

    def __init__(self, run: str, pid: int, go: int, said: int, complaint: int) -> None:
        self.run = run
        self.pid = pid
        # Nobody else waits for our children, so the pid is still ours here.
        self._pidfd = os.pidfd_open(pid)
        self._pipes: tuple[int, ...] = (go, said, complaint)

    def ready(self) -> dict[str, Any]:
        """Wait until it has the lock; its identity. `ShimRefused`: it left, and was reaped."""
        line = self._hear(self._pipes[1])
        if line.endswith(b"\n"):
            found: dict[str, Any] = json.loads(line)
            return found
        sentence = self._hear(self._pipes[2]).decode("utf-8", "replace").strip()
        raise ShimRefused(self.run, self.discard(), sentence)

    def hand_over(self) -> int:
        """The descriptor of its process, for whoever watches and reaps it from now on."""
        pidfd, self._pidfd = self._pidfd, -1
        return pidfd

    def go(self) -> None:
        """Let it start its agent. If it is gone, that is found out where its end is looked for."""
        try:
            os.write(self._pipes[0], b"g")
        except BrokenPipeError:
            pass
        finally:
            self._close_pipes()

    def discard(self) -> int | None:
        """Let go of it: before go, it leaves without an agent. Its code, where we saw it leave."""
        self._close_pipes()
        if self._pidfd < 0:
            return None
        if not _readable(self._pidfd):
            # It hangs, and has no agent yet.
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        code = reap(self._pidfd)
        os.close(self.hand_over())
        return code

    def _close_pipes(self) -> None:
        for descriptor in self._pipes:
            os.close(descriptor)
        self._pipes = ()

    def _hear(self, descriptor: int) -> bytes:
        """One line; less at the end of the pipe, or when nothing comes."""
        heard = b""
        while not heard.endswith(b"\n") and len(heard) < LONGEST_SAYING and _readable(descriptor):
            if not (more := os.read(descriptor, LONGEST_SAYING)):
                break
            heard += more
        return heard


def spawn(run: str, folder: str, environment: Mapping[str, str]) -> Spawned:
    """Start a shim in a session of its own, with no descriptor of ours but three pipes."""
    (heard_go, go), (said, say), (complaint, complain) = os.pipe(), os.pipe(), os.pipe()
    theirs = (heard_go, say, complain)
    argv = command(folder)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(theirs)]
        pid = os.posix_spawn(argv[0], argv, environment, file_actions=actions, setsid=True)
    except OSError as error:
        for descriptor in (go, said, complaint):
            os.close(descriptor)
        raise ShimRefused(run, NOT_SPAWNED, f"it cannot be started: {error.strerror}.") from error
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    return Spawned(run, pid, go, said, complaint)


def shim_environment(ours: Mapping[str, str], inherit: object) -> dict[str, str]:
    """What a shim gets of our environment: the values that it hands on, and no other."""
    names = [*LOADER, *(inherit if isinstance(inherit, list) else ())]
    return {name: ours[name] for name in names if name in ours}


def _readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(PATIENCE_SECONDS * 1000))

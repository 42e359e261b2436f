"""The shim's own life, from the lock to the last word."""
# ruff: noqa: PTH116, PTH208
# (Importing pathlib would cost more than all of the shim.)

from __future__ import annotations

import os
import sys
import time

from . import files, identity, kernel, lock, signals
from .run import Run
from .spec import BadSpec, Spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SAID, LEFT, TAKEN, BAD_SPEC, CANNOT_WRITE, UNSAID, UNFIT, USED = 0, 3, 4, 5, 6, 7, 8, 9
WAITING, STARTED = "waiting", "started"
# The last word is tried for this long on a disk that refuses it, in spite of the reserved room.
LAST_WORD_SECONDS = 60.0


class Refused(Exception):
    """No agent is started: the exit code and a sentence for people."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def main(arguments: Sequence[str]) -> int:
    """One run; the shim's exit code."""
    try:
        shim = _prepare(arguments)
    except Refused as refused:
        _tell(2, f"shim: {refused}\n")
        return refused.code
    if not _go():
        files.remove(files.SHIM, f"{files.EXIT}.new")
        return LEFT
    _let_go_of(0, 2)
    return SAID if _say(shim.live()) else UNSAID


class Shim:
    """A shim that has its run and waits for go."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._mark = os.urandom(16).hex()
        self._state = {"run": spec.run, "mark": self._mark, **identity.mine()}

    def note(self, state: str) -> None:
        """Tell in shim.json how far we are."""
        self._state |= {"state": state, "at": files.stamp(time.time())}
        files.write(files.SHIM, self._state)

    def announce(self) -> None:
        """Tell whoever started us that the run is ours; nobody has to listen."""
        _tell(1, files.text(self._state))
        _let_go_of(1)

    def live(self) -> dict[str, object]:
        """Run the agent; the last word about it."""
        run = Run(self._spec, self._spec.environment(os.environ, self._mark))
        try:
            # Before the agent is started, so that "waiting" proves that there never was one.
            self.note(STARTED)
        except OSError as error:
            return run.without_agent(f"cannot write {files.SHIM}: {error.strerror}")
        return run.live()


def _prepare(arguments: Sequence[str]) -> Shim:
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        raise Refused(UNFIT, "agents run on Linux 5.3 or newer only")
    if len(arguments) != 1:
        raise Refused(BAD_SPEC, "usage: python -I -S <shim> <run folder>")
    signals.hold()
    _only_standard_descriptors()
    spec = _spec(arguments[0])
    _own()
    try:
        kernel.become_subreaper()
        shim = Shim(spec)
    except OSError as error:
        raise Refused(UNFIT, f"this system lacks what is needed: {error}") from None
    try:
        files.reserve(files.EXIT)
        shim.note(WAITING)
    except OSError as error:
        files.remove(f"{files.EXIT}.new", f"{files.SHIM}.new")
        raise Refused(CANNOT_WRITE, f"cannot write to the run's folder: {error}") from None
    shim.announce()
    return shim


def _spec(folder: str) -> Spec:
    try:
        # All paths are relative from here on: the folder may be moved.
        os.chdir(folder)
        asked = files.read(files.SPEC)
        if asked is None:
            raise BadSpec(f"{files.SPEC} is missing")
        return Spec(asked)
    except OSError as error:
        raise Refused(CANNOT_WRITE, f"cannot enter {folder}: {error.strerror}") from None
    except (BadSpec, files.Unreadable) as error:
        raise Refused(BAD_SPEC, f"bad spec in {folder}: {error}") from None


def _own() -> None:
    """Take the run, if it is free and has never had an agent."""
    try:
        lock.take()
    except lock.Taken:
        raise Refused(TAKEN, "another shim has this run") from None
    except OSError as error:
        raise Refused(CANNOT_WRITE, f"cannot lock the run: {error}") from None
    try:
        before = files.read(files.SHIM)
        fresh = before is None or before.get("state") == WAITING
    except files.Unreadable:
        fresh = False
    if not fresh or os.path.lexists(files.EXIT):
        raise Refused(USED, "this run has had its agent already")


def _go() -> bool:
    """One byte means go; the end of the pipe means that whoever started us is gone."""
    try:
        return os.read(0, 1) != b""
    except OSError:
        return False


def _say(word: dict[str, object]) -> bool:
    """Write the last word: whoever waits for this run waits for this file."""
    until = time.monotonic() + LAST_WORD_SECONDS
    while True:
        try:
            files.write(files.EXIT, word)
            return True
        except OSError:
            if time.monotonic() >= until or os.stat(".").st_nlink == 0:
                return False
        signals.wait(0.2)


def _tell(descriptor: int, text: str) -> None:
    try:
        os.write(descriptor, text.encode("utf-8", "replace"))
    except OSError:
        return  # nobody listens


def _only_standard_descriptors() -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                continue  # the listing's own
    # A missing one would be given to the next file that is opened.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def _let_go_of(*standard: int) -> None:
    """Whoever started us may wait for the ends of its pipes."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in standard:
        os.dup2(nothing, descriptor)
    os.close(nothing)

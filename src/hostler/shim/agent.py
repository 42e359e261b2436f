"""Start the agent: its files, its environment, its place; and what can be seen of it."""
# ruff: noqa: PTH123
# (Importing pathlib would cost more than all of the shim.)

from __future__ import annotations

import os
import resource

from . import kernel, signals, tree
from .watch import Sight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .spec import Spec

STDOUT, STDERR = "stdout", "stderr"


class NotStarted(Exception):
    """The agent could not be started; the message says why."""


class Agent:
    """The agent's process, and the files that it writes.

    Its program may stand below `wrappers` processes of a sandbox, each the first child of the last.
    """

    def __init__(self, pid: int, outputs: tuple[int, int], spec: Spec) -> None:
        self.pid = pid
        self._outputs = outputs
        self._tools_apart = spec.tools_apart
        self._wrappers = spec.wrappers
        self._program = pid

    def written(self) -> tuple[int, int]:
        """Bytes on stdout and stderr so far; also after somebody removed the files."""
        stdout, stderr = (os.fstat(descriptor).st_size for descriptor in self._outputs)
        return stdout, stderr

    def sight(self, before: Sight) -> Sight:
        """Look at the agent; who writes is not searched for tools."""
        written = sum(self.written())
        self._find_program()
        process = tree.look(self._program)
        reaped = process.reaped if process else 0
        silent = written == before.written
        return Sight(written, reaped, tool_runs=silent and self._tool_runs(process))

    def _tool_runs(self, program: tree.Process | None) -> bool:
        """Whether anything below the program is no part of it."""
        own = program.session if program and self._tools_apart else None
        return any(process.session != own for process in tree.living(self._program))

    def _find_program(self) -> None:
        """Once it is there, it stays the same."""
        while self._wrappers:
            child = tree.first_child(self._program)
            if child is None:
                return
            self._program = child.pid
            self._wrappers -= 1


def start(spec: Spec, environment: Mapping[str, str]) -> Agent:
    """Fork and execute the agent."""
    stdin = _open(spec.stdin or os.devnull, os.O_RDONLY)
    outputs = (_output(STDOUT), _output(STDERR))
    parent = os.getpid()
    try:
        heard, said = os.pipe()
        pid = os.fork()
    except OSError as error:
        raise NotStarted(f"cannot fork: {error.strerror}") from None
    if pid == 0:
        _child(spec, environment, (stdin, *outputs), said, parent)
    os.close(stdin)
    os.close(said)
    # The pipe closes by itself when the agent's program takes over.
    with os.fdopen(heard, "rb") as file:
        problem = file.read().decode("utf-8", "replace")
    if problem:
        os.waitpid(pid, 0)
        raise NotStarted(problem)
    return Agent(pid, outputs, spec)


def _output(path: str) -> int:
    return _open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)


def _open(path: str, flags: int) -> int:
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        raise NotStarted(f"cannot open {path}: {error.strerror}") from None


def _child(
    spec: Spec, environment: Mapping[str, str], files: tuple[int, ...], said: int, parent: int
) -> None:
    """The way from our fork to the agent's program. Never returns."""
    try:
        # First of all: a child that outlives the shim here would carry no mark.
        kernel.die_with_parent(parent)
        os.setsid()
        for descriptor, standard in zip(files, (0, 1, 2), strict=True):
            os.dup2(descriptor, standard)
        os.nice(spec.nice)
        _limit_memory(spec.memory)
        _prefer_for_oom(spec.oom_score_adj)
        _enter(spec.cwd)
        signals.release()
        _execute(spec.argv, environment)
    except BaseException as error:
        os.write(said, str(error).encode("utf-8", "replace")[:4000])
    finally:
        os._exit(127)


def _enter(cwd: str) -> None:
    try:
        os.chdir(cwd)
    except OSError as error:
        raise NotStarted(f"cannot enter {cwd}: {error.strerror}") from None


def _execute(argv: list[str], environment: Mapping[str, str]) -> None:
    try:
        os.execvpe(argv[0], argv, environment)  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise NotStarted(f"cannot start {argv[0]}: {error.strerror}") from None


def _limit_memory(size: int) -> None:
    """What each process may write to of its own; addresses that are only reserved do not count."""
    if size:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = size if hard == resource.RLIM_INFINITY else min(size, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _prefer_for_oom(score: int) -> None:
    if score:
        try:
            with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
                file.write(str(score))
        except OSError:
            return  # a wish: a container may forbid it

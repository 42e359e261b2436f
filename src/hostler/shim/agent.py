"""Start the agent's process, handle signals, and decide when its limits are exceeded."""
# ruff: noqa: PTH123
# pathlib and typing are not imported: they would take longer to load than all of the shim.

from __future__ import annotations

import ctypes
import os
import resource
import signal

from . import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .spec import RunSpec


PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

_LIBC = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """From now on, whoever below us loses its parent becomes our child."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Be killed when the parent dies; raises if it has died already."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise ProcessLookupError("the shim is gone")


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


WAKE_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
# A fault of the program itself must stay visible, and cannot be put off.
FAULT_SIGNALS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
UNBLOCKABLE_SIGNALS = {signal.SIGKILL, signal.SIGSTOP}


def block_signals() -> None:
    """Block all signals, and undo what whoever started us chose to ignore."""
    signals = signal.valid_signals() - UNBLOCKABLE_SIGNALS
    signal.pthread_sigmask(signal.SIG_BLOCK, signals - FAULT_SIGNALS)
    for number in signals:
        signal.signal(number, signal.SIG_DFL)


def wait_for_signal(seconds: float) -> int:
    """Until a signal wakes us, which is returned, or the time is over."""
    info = signal.sigtimedwait(WAKE_SIGNALS, max(0.0, seconds))
    return info.si_signo if info else 0


def unblock_signals() -> None:
    """Let all signals through: for the agent."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


ENDED_BY_STOP, ENDED_BY_WALL_TIMEOUT, ENDED_BY_STALL = "stop", "wall_timeout", "stall"
# Without a signal, a request to stop is noticed this late at most.
MAX_CHECK_SECONDS = 60.0
MAX_SILENT_CHECK_SECONDS = 30.0
MIN_CHECK_SECONDS = 0.01


class ShimLimits:
    """How long a run may last, and how long it may be silent; 0 is without end."""

    __slots__ = ("silence", "wall")

    def __init__(self, wall: float, silence: float) -> None:
        self.wall = wall
        self.silence = silence


class AgentActivity:
    """What was seen of the agent: bytes written, its account of ended children, a tool at work."""

    __slots__ = ("reaped", "tool_runs", "written")

    def __init__(self, written: int, reaped: int = 0, *, tool_runs: bool = False) -> None:
        self.written = written
        self.reaped = reaped
        self.tool_runs = tool_runs


class SupervisionState:
    """When the run began, and since when the agent has been silent."""

    __slots__ = ("began", "quiet_since", "sight")

    def __init__(self, began: float, quiet_since: float, sight: AgentActivity) -> None:
        self.began = began
        self.quiet_since = quiet_since
        self.sight = sight


def start_supervision(now: float) -> SupervisionState:
    """The watch over an agent that starts now."""
    return SupervisionState(now, now, AgentActivity(0))


def update_supervision(
    watch: SupervisionState, sight: AgentActivity, now: float
) -> SupervisionState:
    """After a look: output, a tool at work or one that has ended break the silence."""
    before = watch.sight
    same = sight.written == before.written and sight.reaped == before.reaped
    quiet = same and not sight.tool_runs
    return SupervisionState(watch.began, watch.quiet_since if quiet else now, sight)


def find_end_reason(
    watch: SupervisionState, limits: ShimLimits, now: float, *, stop_asked: bool
) -> str | None:
    """Why the run has to end now, if it has to."""
    if stop_asked:
        return ENDED_BY_STOP
    if limits.wall and now - watch.began >= limits.wall:
        return ENDED_BY_WALL_TIMEOUT
    if limits.silence and now - watch.quiet_since >= limits.silence:
        return ENDED_BY_STALL
    return None


def next_check_seconds(watch: SupervisionState, limits: ShimLimits, now: float) -> float:
    """Seconds until the next look at the agent."""
    looks = [MAX_CHECK_SECONDS]
    if limits.wall:
        looks.append(watch.began + limits.wall - now)
    if limits.silence:
        # Ten looks per limit: late by a tenth at most, as silence counts from look to look.
        looks.append(min(limits.silence / 10, MAX_SILENT_CHECK_SECONDS))
        looks.append(watch.quiet_since + limits.silence - now)
    return max(MIN_CHECK_SECONDS, min(looks))


STDOUT_FILE, STDERR_FILE = "stdout", "stderr"


class AgentNotStarted(Exception):
    """The agent could not be started; the message says why."""


class AgentProcess:
    """The agent's process, and the files that it writes.

    Its program may stand below `wrappers` processes of a sandbox, each the first child of the last.
    """

    def __init__(self, pid: int, outputs: tuple[int, int], spec: RunSpec) -> None:
        self.pid = pid
        self._outputs = outputs
        self._tools_apart = spec.tools_apart
        self._wrappers = spec.wrappers
        self._program = pid

    def written(self) -> tuple[int, int]:
        """Bytes on stdout and stderr so far; also after somebody removed the files."""
        stdout, stderr = (os.fstat(descriptor).st_size for descriptor in self._outputs)
        return stdout, stderr

    def sight(self, before: AgentActivity) -> AgentActivity:
        """Look at the agent; who writes is not searched for tools."""
        written = sum(self.written())
        self._find_program()
        process = processes.read_process(self._program)
        reaped = process.reaped if process else 0
        silent = written == before.written
        return AgentActivity(written, reaped, tool_runs=silent and self._tool_runs(process))

    def _tool_runs(self, program: processes.Process | None) -> bool:
        """Whether anything below the program is no part of it."""
        own = program.session if program and self._tools_apart else None
        return any(
            process.session != own for process in processes.list_living_descendants(self._program)
        )

    def _find_program(self) -> None:
        """Once it is there, it stays the same."""
        while self._wrappers:
            child = processes.find_first_child(self._program)
            if child is None:
                return
            self._program = child.pid
            self._wrappers -= 1


def start_agent(spec: RunSpec, environment: Mapping[str, str]) -> AgentProcess:
    """Fork and execute the agent."""
    stdin = _open_file(spec.stdin or os.devnull, os.O_RDONLY)
    outputs = (_open_output(STDOUT_FILE), _open_output(STDERR_FILE))
    parent = os.getpid()
    try:
        heard, said = os.pipe()
        pid = os.fork()
    except OSError as error:
        raise AgentNotStarted(f"cannot fork: {error.strerror}") from None
    if pid == 0:
        _run_child(spec, environment, (stdin, *outputs), said, parent)
    os.close(stdin)
    os.close(said)
    # The pipe closes by itself when the agent's program takes over.
    with os.fdopen(heard, "rb") as file:
        problem = file.read().decode("utf-8", "replace")
    if problem:
        os.waitpid(pid, 0)
        raise AgentNotStarted(problem)
    return AgentProcess(pid, outputs, spec)


def _open_output(path: str) -> int:
    return _open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW)


def _open_file(path: str, flags: int) -> int:
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        raise AgentNotStarted(f"cannot open {path}: {error.strerror}") from None


def _run_child(
    spec: RunSpec, environment: Mapping[str, str], files: tuple[int, ...], said: int, parent: int
) -> None:
    """The way from our fork to the agent's program. Never returns."""
    try:
        # First of all: a child that outlives the shim here would carry no mark.
        die_with_parent(parent)
        os.setsid()
        for descriptor, standard in zip(files, (0, 1, 2), strict=True):
            os.dup2(descriptor, standard)
        os.nice(spec.nice)
        _limit_memory(spec.memory)
        _prefer_for_oom(spec.oom_score_adj)
        _change_folder(spec.cwd)
        unblock_signals()
        _exec_program(spec.argv, environment)
    except BaseException as error:
        os.write(said, str(error).encode("utf-8", "replace")[:4000])
    finally:
        os._exit(127)


def _change_folder(cwd: str) -> None:
    try:
        os.chdir(cwd)
    except OSError as error:
        raise AgentNotStarted(f"cannot enter {cwd}: {error.strerror}") from None


def _exec_program(argv: list[str], environment: Mapping[str, str]) -> None:
    try:
        os.execvpe(argv[0], argv, environment)  # noqa: S606 - no shell is wanted
    except OSError as error:
        raise AgentNotStarted(f"cannot start {argv[0]}: {error.strerror}") from None


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

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
    """Make orphaned descendants our children."""
    _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(parent: int) -> None:
    """Be killed when the parent dies. Raise if it has died already."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise ProcessLookupError("the shim is gone")


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


WAKE_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
# Signals for faults of the program itself cannot be blocked.
FAULT_SIGNALS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
UNBLOCKABLE_SIGNALS = {signal.SIGKILL, signal.SIGSTOP}


def block_signals() -> None:
    """Block all signals, and reset ignored ones to their default."""
    signals = signal.valid_signals() - UNBLOCKABLE_SIGNALS
    signal.pthread_sigmask(signal.SIG_BLOCK, signals - FAULT_SIGNALS)
    for number in signals:
        signal.signal(number, signal.SIG_DFL)


def wait_for_signal(seconds: float) -> int:
    """Wait for a signal and return it, or return None on timeout."""
    info = signal.sigtimedwait(WAKE_SIGNALS, max(0.0, seconds))
    return info.si_signo if info else 0


def unblock_signals() -> None:
    """Unblock all signals, for the agent."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


ENDED_BY_STOP, ENDED_BY_WALL_TIMEOUT, ENDED_BY_STALL = "stop", "wall_timeout", "stall"
# Without a signal, a stop request is noticed after this time at most.
MAX_CHECK_SECONDS = 60.0
MAX_SILENT_CHECK_SECONDS = 30.0
MIN_CHECK_SECONDS = 0.01


class ShimLimits:
    """How long a run may last, and how long it may be silent; 0: no limit."""

    __slots__ = ("silence", "wall")

    def __init__(self, wall: float, silence: float) -> None:
        self.wall = wall
        self.silence = silence


class AgentActivity:
    """Bytes written, CPU of ended children, and whether a tool is running."""

    __slots__ = ("reaped", "tool_runs", "written")

    def __init__(self, written: int, reaped: int = 0, *, tool_runs: bool = False) -> None:
        self.written = written
        self.reaped = reaped
        self.tool_runs = tool_runs


class SupervisionState:
    """When the run started, and since when the agent has been silent."""

    __slots__ = ("activity", "began", "quiet_since")

    def __init__(self, began: float, quiet_since: float, activity: AgentActivity) -> None:
        self.began = began
        self.quiet_since = quiet_since
        self.activity = activity


def start_supervision(now: float) -> SupervisionState:
    """Return the state for an agent that starts now."""
    return SupervisionState(now, now, AgentActivity(0))


def update_supervision(
    watch: SupervisionState, activity: AgentActivity, now: float
) -> SupervisionState:
    """Update the state: output, a running tool or one that has ended ends the silence."""
    before = watch.activity
    same = activity.written == before.written and activity.reaped == before.reaped
    quiet = same and not activity.tool_runs
    return SupervisionState(watch.began, watch.quiet_since if quiet else now, activity)


def find_end_reason(
    watch: SupervisionState, limits: ShimLimits, now: float, *, stop_asked: bool
) -> str | None:
    """Return why the run must end now, or None."""
    if stop_asked:
        return ENDED_BY_STOP
    if limits.wall and now - watch.began >= limits.wall:
        return ENDED_BY_WALL_TIMEOUT
    if limits.silence and now - watch.quiet_since >= limits.silence:
        return ENDED_BY_STALL
    return None


def next_check_seconds(watch: SupervisionState, limits: ShimLimits, now: float) -> float:
    """Return the seconds until the next check of the agent."""
    delays = [MAX_CHECK_SECONDS]
    if limits.wall:
        delays.append(watch.began + limits.wall - now)
    if limits.silence:
        # Ten checks per limit: at most a tenth late, as silence is counted from check to check.
        delays.append(min(limits.silence / 10, MAX_SILENT_CHECK_SECONDS))
        delays.append(watch.quiet_since + limits.silence - now)
    return max(MIN_CHECK_SECONDS, min(delays))


STDOUT_FILE, STDERR_FILE = "stdout", "stderr"


class AgentNotStarted(Exception):
    """The agent could not be started; the message says why."""


class AgentProcess:
    """The agent's process and its output files.

    Its program may run below `wrappers` sandbox processes, each the first child of the one above.
    """

    def __init__(self, pid: int, outputs: tuple[int, int], spec: RunSpec) -> None:
        self.pid = pid
        self._outputs = outputs
        self._tools_apart = spec.tools_apart
        self._wrappers = spec.wrappers
        self._program = pid

    def written(self) -> tuple[int, int]:
        """Return the bytes on stdout and stderr so far, even if the files were deleted."""
        stdout, stderr = (os.fstat(descriptor).st_size for descriptor in self._outputs)
        return stdout, stderr

    def read_activity(self, before: AgentActivity) -> AgentActivity:
        """Return the agent's activity. Tools are searched only if nothing was written."""
        written = sum(self.written())
        self._find_program()
        process = processes.read_process(self._program)
        reaped = process.reaped if process else 0
        silent = written == before.written
        return AgentActivity(written, reaped, tool_runs=silent and self._tool_runs(process))

    def _tool_runs(self, program: processes.Process | None) -> bool:
        """Return whether a process below the program is a tool and not part of it."""
        own = program.session if program and self._tools_apart else None
        return any(
            process.session != own for process in processes.list_living_descendants(self._program)
        )

    def _find_program(self) -> None:
        """Return the pid of the program. Once found, it does not change."""
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
        read_end, write_end = os.pipe()
        pid = os.fork()
    except OSError as error:
        raise AgentNotStarted(f"cannot fork: {error.strerror}") from None
    if pid == 0:
        _run_child(spec, environment, (stdin, *outputs), write_end, parent)
    os.close(stdin)
    os.close(write_end)
    # The pipe closes by itself when the program is executed.
    with os.fdopen(read_end, "rb") as file:
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
    spec: RunSpec,
    environment: Mapping[str, str],
    files: tuple[int, ...],
    write_end: int,
    parent: int,
) -> None:
    """Run in the forked child until the program is executed. Never returns."""
    try:
        # First of all: a child that outlives the shim would carry no mark.
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
        os.write(write_end, str(error).encode("utf-8", "replace")[:4000])
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
    """Limit the writable private memory of each process; reserved address space does not count."""
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
            return  # best effort: a container may forbid it

"""The shim's main function: claim the run, supervise the agent, end its tree, write `exit.json`."""
# ruff: noqa: PTH116, PTH208
# pathlib and typing are not imported: they would take longer to load than all of the shim.

from __future__ import annotations

import os
import signal
import sys
import time

from . import agent, processes, run_files
from .processes import Termination
from .spec import InvalidSpec, RunSpec, StopFile, read_stop_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


ENDED_BY_EXIT, ENDED_BY_FAILED_START, ENDED_BY_SHIM_FAILURE = "exit", "not_started", "shim_failed"


class SupervisedRun:
    """One run after the go signal. `exit_record` collects the content of `exit.json`."""

    def __init__(self, spec: RunSpec, environment: dict[str, str]) -> None:
        self._spec = spec
        self._environment = environment
        self._agent: agent.AgentProcess | None = None
        self._began = time.monotonic()
        self._cpu = 0.0
        self._rss = 0
        self.exit_record: dict[str, object] = {
            "run": spec.run,
            "ended_by": None,
            "exit_code": None,
            "signal": None,
            "reason": None,
            "started_at": None,
            "exited_at": None,
            "ended_at": None,
            "seconds": 0.0,
            "cpu_seconds": 0.0,
            "max_rss_kb": 0,
            "left_over": 0,
            "killed": 0,
            "stdout_bytes": 0,
            "stderr_bytes": 0,
        }

    def live(self) -> dict[str, object]:
        """Run the agent to its end; return when no process of its tree is left."""
        try:
            self._live()
        except agent.AgentNotStarted as error:
            self._because(ENDED_BY_FAILED_START, str(error))
        except Exception as error:
            # Even after a defect of the shim: leave no process behind, and record the reason.
            self._because(ENDED_BY_SHIM_FAILURE, f"{type(error).__name__}: {error}")
            self._end_tree(grace=0.0)
        self._sum_up()
        return self.exit_record

    def without_agent(self, reason: str) -> dict[str, object]:
        """Return the exit record of a run whose agent could not be started."""
        self._because(ENDED_BY_FAILED_START, reason)
        self._sum_up()
        return self.exit_record

    def _live(self) -> None:
        stop = read_stop_file()
        if stop:
            self._because(agent.ENDED_BY_STOP, stop.why)
            return
        self._agent = agent.start_agent(self._spec, self._environment)
        self.exit_record["started_at"] = run_files.format_timestamp(time.time())
        self._because(self._until_over(self._agent), None)
        stop = read_stop_file()
        if self.exit_record["ended_by"] == agent.ENDED_BY_STOP:
            self.exit_record["reason"] = stop.why if stop else "the run's folder is gone"
        self._end_tree(_effective_grace(self._spec.grace, stop))

    def _until_over(self, agent_process: agent.AgentProcess) -> str:
        limits = agent.ShimLimits(self._spec.wall, self._spec.silence)
        now = time.monotonic()
        state = agent.start_supervision(now)
        while not self._exits_within(agent.next_check_seconds(state, limits, now)):
            activity = (
                agent_process.read_activity(state.activity) if limits.silence else state.activity
            )
            now = time.monotonic()
            state = agent.update_supervision(state, activity, now)
            why = agent.find_end_reason(state, limits, now, stop_asked=_is_stop_requested())
            if why:
                return why
        return ENDED_BY_EXIT

    def _exits_within(self, seconds: float) -> bool:
        """Wait for the agent to exit, or until a signal requires a check.

        Exits of other processes do not end the wait: a tree may have many short-lived ones.
        """
        until = time.monotonic() + seconds
        self._reap()
        while not self.exit_record["exited_at"]:
            left = until - time.monotonic()
            if left <= 0 or agent.wait_for_signal(left) != signal.SIGCHLD:
                break
            self._reap()
        return self.exit_record["exited_at"] is not None

    def _end_tree(self, grace: float) -> None:
        # Killing the outermost process of a sandbox would kill everything in it at once.
        wrapper = self._agent.pid if self._agent and self._spec.wrappers else 0
        ending = Termination(time.monotonic(), grace, spared=wrapper)
        while self._reap():
            alive = processes.list_living_descendants(os.getpid())
            agent.wait_for_signal(ending.signal_next(alive, time.monotonic()))
            ending.shorten_grace(_effective_grace(grace, read_stop_file()))
        self.exit_record["killed"] = ending.killed
        if self.exit_record["ended_by"] == ENDED_BY_EXIT:
            self.exit_record["left_over"] = ending.found_count

    def _reap(self) -> bool:
        """Reap ended children. Return whether any child is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self._cpu += usage.ru_utime + usage.ru_stime
            self._rss = max(self._rss, usage.ru_maxrss)
            if self._agent and pid == self._agent.pid and not self.exit_record["exited_at"]:
                self._exited(os.waitstatus_to_exitcode(status))

    def _exited(self, code: int) -> None:
        self.exit_record["exited_at"] = run_files.format_timestamp(time.time())
        if code >= 0:
            self.exit_record["exit_code"] = code
        else:
            self.exit_record["signal"] = _signal_name(-code)

    def _because(self, ended_by: str, reason: str | None) -> None:
        self.exit_record["ended_by"] = ended_by
        self.exit_record["reason"] = reason[: run_files.MAX_TEXT_LENGTH] if reason else None

    def _sum_up(self) -> None:
        self.exit_record["ended_at"] = run_files.format_timestamp(time.time())
        self.exit_record["seconds"] = round(time.monotonic() - self._began, 3)
        self.exit_record["cpu_seconds"] = round(self._cpu, 3)
        self.exit_record["max_rss_kb"] = self._rss
        if self._agent:
            self.exit_record["stdout_bytes"], self.exit_record["stderr_bytes"] = (
                self._agent.written()
            )


def _is_stop_requested() -> bool:
    # A deleted folder cannot receive a stop request any more.
    return os.path.lexists(run_files.STOP_FILE) or os.stat(".").st_nlink == 0


def _effective_grace(grace: float, stop: StopFile | None) -> float:
    return grace if stop is None or stop.grace is None else stop.grace


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


(
    EXIT_DONE,
    EXIT_ABANDONED,
    EXIT_TAKEN,
    EXIT_BAD_SPEC,
    EXIT_CANNOT_WRITE,
    EXIT_NOT_REPORTED,
    EXIT_UNSUPPORTED,
    EXIT_USED,
) = 0, 3, 4, 5, 6, 7, 8, 9
STATE_WAITING, STATE_STARTED = "waiting", "started"
# Retry `exit.json` for this long on a full disk, in spite of the reserved space.
EXIT_FILE_TIMEOUT_SECONDS = 60.0


class StartRefused(Exception):
    """The agent is not started: the exit code and a sentence for the user."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


def main(arguments: Sequence[str]) -> int:
    """Run one agent; return the shim's exit code."""
    try:
        shim = _prepare(arguments)
    except StartRefused as refused:
        _write_message(2, f"shim: {refused}\n")
        return refused.code
    if not _wait_for_go():
        run_files.remove_files(run_files.SHIM_FILE, f"{run_files.EXIT_FILE}.new")
        return EXIT_ABANDONED
    _close_standard(0, 2)
    return EXIT_DONE if _write_exit_file(shim.live()) else EXIT_NOT_REPORTED


class Shim:
    """A shim that owns its run and waits for go."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._mark = os.urandom(16).hex()
        self._state = {"run": spec.run, "mark": self._mark, **processes.current_identity()}

    def note(self, state: str) -> None:
        """Write the state to shim.json."""
        self._state |= {"state": state, "at": run_files.format_timestamp(time.time())}
        run_files.write_json(run_files.SHIM_FILE, self._state)

    def announce(self) -> None:
        """Report to the starter that this shim owns the run; ignore a closed pipe."""
        _write_message(1, run_files.format_json(self._state))
        _close_standard(1)

    def live(self) -> dict[str, object]:
        """Run the agent and return its exit record."""
        run = SupervisedRun(self._spec, self._spec.environment(os.environ, self._mark))
        try:
            # Before the agent is started: "waiting" then proves that no agent was started.
            self.note(STATE_STARTED)
        except OSError as error:
            return run.without_agent(f"cannot write {run_files.SHIM_FILE}: {error.strerror}")
        return run.live()


def _prepare(arguments: Sequence[str]) -> Shim:
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        raise StartRefused(EXIT_UNSUPPORTED, "agents run on Linux 5.3 or newer only")
    if len(arguments) != 1:
        raise StartRefused(EXIT_BAD_SPEC, "usage: python -I -S <shim> <run folder>")
    agent.block_signals()
    _close_extra_descriptors()
    spec = _read_spec(arguments[0])
    _claim_run()
    try:
        agent.become_subreaper()
        shim = Shim(spec)
    except OSError as error:
        raise StartRefused(EXIT_UNSUPPORTED, f"this system is not supported: {error}") from None
    try:
        run_files.reserve_space(run_files.EXIT_FILE)
        shim.note(STATE_WAITING)
    except OSError as error:
        run_files.remove_files(f"{run_files.EXIT_FILE}.new", f"{run_files.SHIM_FILE}.new")
        raise StartRefused(
            EXIT_CANNOT_WRITE, f"cannot write to the run's folder: {error}"
        ) from None
    shim.announce()
    return shim


def _read_spec(folder: str) -> RunSpec:
    try:
        # Paths are relative from here on: the folder may be moved.
        os.chdir(folder)
        requested = run_files.read_json(run_files.SPEC_FILE)
        if requested is None:
            raise InvalidSpec(f"{run_files.SPEC_FILE} is missing")
        return RunSpec(requested)
    except OSError as error:
        raise StartRefused(EXIT_CANNOT_WRITE, f"cannot enter {folder}: {error.strerror}") from None
    except (InvalidSpec, run_files.UnreadableRunFile) as error:
        raise StartRefused(EXIT_BAD_SPEC, f"invalid spec in {folder}: {error}") from None


def _claim_run() -> None:
    """Take the run if it is free and never had an agent."""
    try:
        run_files.acquire_lock()
    except run_files.RunTaken:
        raise StartRefused(EXIT_TAKEN, "another shim has this run") from None
    except OSError as error:
        raise StartRefused(EXIT_CANNOT_WRITE, f"cannot lock the run: {error}") from None
    try:
        before = run_files.read_json(run_files.SHIM_FILE)
        fresh = before is None or before.get("state") == STATE_WAITING
    except run_files.UnreadableRunFile:
        fresh = False
    if not fresh or os.path.lexists(run_files.EXIT_FILE):
        raise StartRefused(EXIT_USED, "this run already had its agent")


def _wait_for_go() -> bool:
    """Wait for go: one byte means go, end of the pipe means that the starter is gone."""
    try:
        return os.read(0, 1) != b""
    except OSError:
        return False


def _write_exit_file(exit_record: dict[str, object]) -> bool:
    """Write `exit.json`, which the service waits for."""
    until = time.monotonic() + EXIT_FILE_TIMEOUT_SECONDS
    while True:
        try:
            run_files.write_json(run_files.EXIT_FILE, exit_record)
            return True
        except OSError:
            if time.monotonic() >= until or os.stat(".").st_nlink == 0:
                return False
        agent.wait_for_signal(0.2)


def _write_message(descriptor: int, text: str) -> None:
    try:
        os.write(descriptor, text.encode("utf-8", "replace"))
    except OSError:
        return  # the reader is gone


def _close_extra_descriptors() -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                continue  # the descriptor of the listing itself
    # A missing one would be given to the next file that is opened.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def _close_standard(*standard: int) -> None:
    """Close the standard streams: the starter may wait for the ends of its pipes."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in standard:
        os.dup2(nothing, descriptor)
    os.close(nothing)

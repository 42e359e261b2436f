"""The agent's life under the shim: start it, look after it, end its whole tree."""
# ruff: noqa: PTH116
# (Importing pathlib would cost more than all of the shim.)

from __future__ import annotations

import os
import signal
import time

from . import agent, files, request, signals, tree, watch
from .ending import Ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .spec import Spec

EXIT, NOT_STARTED, SHIM_FAILED = "exit", "not_started", "shim_failed"


class Run:
    """One run after go. `word` collects what there is to say about it."""

    def __init__(self, spec: Spec, environment: dict[str, str]) -> None:
        self._spec = spec
        self._environment = environment
        self._agent: agent.Agent | None = None
        self._began = time.monotonic()
        self._cpu = 0.0
        self._rss = 0
        self.word: dict[str, object] = {
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
        """All of it, whatever happens; returns when nothing of the tree is left."""
        try:
            self._live()
        except agent.NotStarted as error:
            self._because(NOT_STARTED, str(error))
        except Exception as error:
            # Whatever we did wrong: no tree stays behind, and somebody reads why.
            self._because(SHIM_FAILED, f"{type(error).__name__}: {error}")
            self._end_tree(grace=0.0)
        self._sum_up()
        return self.word

    def without_agent(self, reason: str) -> dict[str, object]:
        """The word about a run whose agent cannot be started."""
        self._because(NOT_STARTED, reason)
        self._sum_up()
        return self.word

    def _live(self) -> None:
        stop = request.read()
        if stop:
            self._because(watch.STOP, stop.why)
            return
        self._agent = agent.start(self._spec, self._environment)
        self.word["started_at"] = files.stamp(time.time())
        self._because(self._until_over(self._agent), None)
        stop = request.read()
        if self.word["ended_by"] == watch.STOP:
            self.word["reason"] = stop.why if stop else "the run's folder is gone"
        self._end_tree(_grace(self._spec.grace, stop))

    def _until_over(self, looked_after: agent.Agent) -> str:
        limits = watch.Limits(self._spec.wall, self._spec.silence)
        now = time.monotonic()
        state = watch.begin(now)
        while not self._exits_within(watch.next_look(state, limits, now)):
            sight = looked_after.sight(state.sight) if limits.silence else state.sight
            now = time.monotonic()
            state = watch.seen(state, sight, now)
            why = watch.verdict(state, limits, now, stop_asked=_stop_asked())
            if why:
                return why
        return EXIT

    def _exits_within(self, seconds: float) -> bool:
        """Wait for the agent's end; less if a signal asks us to look.

        The end of others is no reason to look: a tree may be full of short lives.
        """
        until = time.monotonic() + seconds
        self._reap()
        while not self.word["exited_at"]:
            left = until - time.monotonic()
            if left <= 0 or signals.wait(left) != signal.SIGCHLD:
                break
            self._reap()
        return self.word["exited_at"] is not None

    def _end_tree(self, grace: float) -> None:
        # With the outermost process of a sandbox, everything in it would be killed at once.
        wrapper = self._agent.pid if self._agent and self._spec.wrappers else 0
        ending = Ending(time.monotonic(), grace, spared=wrapper)
        while self._reap():
            alive = tree.living(os.getpid())
            signals.wait(ending.strike(alive, time.monotonic()))
            ending.hurry(_grace(grace, request.read()))
        self.word["killed"] = ending.killed
        if self.word["ended_by"] == EXIT:
            self.word["left_over"] = ending.met

    def _reap(self) -> bool:
        """Take note of those that ended; whether anybody is left below us."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self._cpu += usage.ru_utime + usage.ru_stime
            self._rss = max(self._rss, usage.ru_maxrss)
            if self._agent and pid == self._agent.pid and not self.word["exited_at"]:
                self._exited(os.waitstatus_to_exitcode(status))

    def _exited(self, code: int) -> None:
        self.word["exited_at"] = files.stamp(time.time())
        if code >= 0:
            self.word["exit_code"] = code
        else:
            self.word["signal"] = _signal_name(-code)

    def _because(self, ended_by: str, reason: str | None) -> None:
        self.word["ended_by"] = ended_by
        self.word["reason"] = reason[: files.LONGEST_TEXT] if reason else None

    def _sum_up(self) -> None:
        self.word["ended_at"] = files.stamp(time.time())
        self.word["seconds"] = round(time.monotonic() - self._began, 3)
        self.word["cpu_seconds"] = round(self._cpu, 3)
        self.word["max_rss_kb"] = self._rss
        if self._agent:
            self.word["stdout_bytes"], self.word["stderr_bytes"] = self._agent.written()


def _stop_asked() -> bool:
    # A folder without a name is out of everybody's reach: nobody could ask any more.
    return os.path.lexists(files.STOP) or os.stat(".").st_nlink == 0


def _grace(grace: float, stop: request.Stop | None) -> float:
    return grace if stop is None or stop.grace is None else stop.grace


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"

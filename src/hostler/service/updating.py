"""An update: what the operator named, the check of the new program, and the way back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hostler.checkouts.process import Child, Tail, run
from hostler.config.settings import Runtime
from hostler.store.operator import Step

# Whoever needs longer than this to find nothing broken is broken.
CHECK_SECONDS = 60.0
KEPT_OUTPUT = 16_384
# `doctor` says with this exit code, or a higher one, that something is broken.
BROKEN = 2
# Where we stand ourselves, and where the program that takes over will stand.
HERE = Path()
NOT_SOUND = "`hostler doctor --quick` finds something broken: the old program goes on."
# Runs a command to its end; its exit code, None if its time ran out.
Runs = Callable[[Child, Tail], int | None]
# A command, its exit code (None: its time ran out), and the end of what it printed.
Told = Callable[[str, int | None, str], None]


@dataclass(frozen=True, slots=True)
class Updated:
    """What became of an update. `failed` says why there is none; `replace`: start the new one."""

    failed: str = ""
    replace: bool = True


@dataclass(frozen=True, slots=True)
class Updater:
    """Runs what the operator named, then asks the new program how it is.

    `env` is for his commands, without secrets of ours; `own` is for our own program. `begins`
    hears of each step before it is begun.
    """

    runtime: Runtime
    check: Sequence[str]
    home: Path
    env: Mapping[str, str]
    own: Mapping[str, str]
    begins: Callable[[Step], None]
    told: Told
    run: Runs = run

    def update(self) -> Updated:
        """Update, or go back. Without an update to make, the program is only looked at.

        Settings that were broken while we worked, for one, would let no program start.
        """
        command = self.runtime.restart_command
        self.begins(Step.UPDATE if command else Step.LOOK)
        if command and not self._run("update", command):
            return self._back("The update failed.")
        if self._check():
            self.begins(Step.UPDATED if command else Step.READY)
            return Updated()
        if command:
            return self._back("The new version does not pass `hostler doctor --quick`.")
        return Updated(NOT_SOUND, False)

    def undo(self) -> bool:
        """Run the operator's way back; whether there is one, and it leads to a sound program."""
        command = self.runtime.restart_rollback_command
        return bool(command) and self._run("rollback", command) and self._check()

    def _back(self, why: str) -> Updated:
        if not self.runtime.restart_rollback_command:
            return Updated(
                f"{why} No `restart_rollback_command` is set: the old program goes on.", False
            )
        self.begins(Step.ROLLBACK)
        if self.undo():
            return Updated(f"{why} It was rolled back.")
        return Updated(f"{why} Rolling it back failed too: the old program goes on.", False)

    def _check(self) -> bool:
        """Whether the program that is there now finds nothing broken."""
        child = Child(list(self.check), HERE, self.own, CHECK_SECONDS, mark="restart-check")
        code = self._go("check", child)
        return code is not None and 0 <= code < BROKEN

    def _run(self, step: str, command: Sequence[str]) -> bool:
        seconds = float(self.runtime.restart_command_timeout_seconds)
        child = Child(list(command), self.home, self.env, seconds, mark=f"restart-{step}")
        return self._go(step, child) == 0

    def _go(self, step: str, child: Child) -> int | None:
        out = Tail(KEPT_OUTPUT)
        code: int | None
        try:
            code = self.run(child, out)
        except OSError as error:
            code = 127
            out.feed(str(error).encode())
        self.told(step, code, out.text())
        return code


def longest_seconds(runtime: Runtime) -> float:
    """How long an update and its way back may take, each with its check."""
    return 2 * (runtime.restart_command_timeout_seconds + CHECK_SECONDS)

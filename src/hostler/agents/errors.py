"""Errors of this package.

HostlerError
└── AgentError            an agent cannot be launched, or its result cannot be accepted
    ├── SecretRefused     its environment would contain a secret of Hostler
    ├── SandboxMissing    it requires a sandbox, and bubblewrap does not work here
    ├── SandboxIneffective its working folder contains what the sandbox must hide
    ├── UnknownKind       there is no adapter for this kind of agent
    ├── RunFilesFailed    the files of a run could not be written
    ├── ScriptError       a script of the scripted agent has mistakes (all of them, at once)
    ├── NotInRun          a command for agents was called outside of a run
    ├── InvalidResult     a result breaks the contract
    └── RecordingUnreadable   a recorded stream cannot be read
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hostler.errors import HostlerError, Problem


class AgentError(HostlerError):
    """An agent cannot be launched, or its result cannot be accepted."""


class SecretRefused(AgentError):
    """The agent's environment would contain a secret of Hostler."""

    exit_code = 2

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(sorted(names))
        super().__init__(
            f"An agent may not see {', '.join(self.names)}: that is a secret of Hostler's own.",
            safe="No agent was started.",
            remedy="Take the name out of the agent's `env`, or give that variable another value.",
        )


class SandboxMissing(AgentError):
    """The agent requires a sandbox, and bubblewrap does not work here."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"bubblewrap does not work here: {why}",
            safe="No agent was started.",
            remedy="Install bubblewrap (bwrap), allow user namespaces, or set "
            'sandbox = "none" in the agent\'s settings.',
        )


class SandboxIneffective(AgentError):
    """The working folder contains what the sandbox must hide."""

    def __init__(self, workplace: object, hidden: object) -> None:
        super().__init__(
            f"An agent in {workplace} would see all of {hidden}, which its sandbox must hide.",
            safe="No agent was started.",
            remedy="Use a working folder further inside, or no sandbox.",
        )


class UnknownKind(AgentError):
    """There is no adapter for this kind of agent."""

    exit_code = 2

    def __init__(self, kind: str, known: Iterable[str]) -> None:
        super().__init__(
            f"Agents of kind {kind} cannot be run yet.",
            safe="No agent was started.",
            remedy=f"There are: {', '.join(sorted(known))}.",
        )
        self.kind = kind


class RunFilesFailed(AgentError):
    """The files of a run could not be written."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"{path} could not be written: {error.strerror or error}.",
            safe="No agent was started.",
            remedy="Free some disk space, or make the home writable.",
        )
        self.path = path


class ScriptError(AgentError):
    """A script has mistakes; all are listed."""

    exit_code = 2

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        self.path = path
        self.problems = tuple(problems)
        count = len(self.problems)
        super().__init__(
            f"{path} has {count} mistake{'s' if count != 1 else ''}:",
            remedy="docs/internals/agents.md lists every step of a script.",
        )

    def lines(self) -> list[str]:
        return [self.what, *(problem.sentence() for problem in self.problems), self.remedy]


class NotInRun(AgentError):
    """A command for agents was called outside of a run."""

    exit_code = 2

    def __init__(self, found: str) -> None:
        super().__init__(
            f"This command works only inside a run: {found}.",
            safe="Nothing was written.",
            remedy="It is meant for agents, which Hostler starts with HOSTLER_RUN_DIR set.",
        )


class InvalidResult(AgentError):
    """A result breaks the contract; all mistakes are listed."""

    exit_code = 2

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("This cannot be said:", safe="Nothing was written.")

    def lines(self) -> list[str]:
        return [self.what, *self.problems, self.safe]


class RecordingUnreadable(AgentError):
    """A recorded stream cannot be read."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(
            f"{path} cannot be read: {error.strerror or error}.",
            safe="Nothing was changed.",
            remedy="Pass the files `stdout` and `stderr` of a run's folder.",
        )
        self.exit_code = 2

"""A run as data: what an agent is asked to do, and how its process is started."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

PROMPT_FILE, CONTEXT_FILE, RESULT_FILE, DONE_FILE = (
    "prompt.md",
    "context.json",
    "result.json",
    "DONE",
)


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How long a run may take, be silent, and take to exit after a stop; 0: no limit."""

    wall_seconds: float = 0.0
    silence_seconds: float = 0.0
    grace_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Assignment:
    """One run, as described to its agent.

    `session` is the conversation to resume, if the kind supports that. `context` is what a workflow
    passes to programs, in addition to the prompt: the issue, the comments to answer. `shared` is
    what the checkout needs to read outside of its folder; `private` are files that must be hidden
    from agents where possible.
    """

    run: str
    task: str
    project: str
    attempt: int
    home: Path
    task_dir: Path
    run_dir: Path
    checkout: Path
    prompt: str
    limits: RunLimits = field(default_factory=RunLimits)
    session: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)
    shared: tuple[Path, ...] = ()
    private: tuple[Path, ...] = ()

    @property
    def prompt_file(self) -> Path:
        return self.run_dir / PROMPT_FILE

    @property
    def context_file(self) -> Path:
        return self.run_dir / CONTEXT_FILE

    @property
    def result_file(self) -> Path:
        return self.run_dir / RESULT_FILE

    @property
    def done_file(self) -> Path:
        return self.task_dir / DONE_FILE

    def variables(self) -> dict[str, str]:
        """Return the variables that describe the run to the agent and the programs it starts."""
        return {
            "HOSTLER_RUN": self.run,
            "HOSTLER_TASK": self.task,
            "HOSTLER_PROJECT": self.project,
            "HOSTLER_ATTEMPT": str(self.attempt),
            "HOSTLER_HOME": str(self.home),
            "HOSTLER_TASK_DIR": str(self.task_dir),
            "HOSTLER_RUN_DIR": str(self.run_dir),
            "HOSTLER_CHECKOUT": str(self.checkout),
            "HOSTLER_PROMPT": str(self.prompt_file),
            "HOSTLER_CONTEXT": str(self.context_file),
            "HOSTLER_RESULT": str(self.result_file),
            "HOSTLER_DONE": str(self.done_file),
        }


@dataclass(frozen=True, slots=True)
class Launch:
    """How the agent's process is started. An empty `stdin` is /dev/null.

    `inherit` names variables that the supervisor passes on from its own environment: they may
    contain the provider's key, and a key must not be written to a file. `wrappers`: how many
    processes of a sandbox are above the program. `tools_apart`: its tools run in their own
    sessions, and processes in the program's session are part of it.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    stdin: str = ""
    inherit: tuple[str, ...] = ()
    nice: int = 0
    memory_mb: int = 0
    wrappers: int = 0
    tools_apart: bool = False
    wall_seconds: float = 0.0
    silence_seconds: float = 0.0
    grace_seconds: float = 10.0

    def spec(self, run: str) -> dict[str, Any]:
        """Return the content of `spec.json` for the supervisor."""
        spec = {"run": run, **asdict(self), "argv": list(self.argv), "inherit": list(self.inherit)}
        return spec if self.stdin else {**spec, "stdin": None}

    def with_inherited(self, names: Collection[str]) -> Launch:
        """Return a copy with these variables inherited instead of written to the file."""
        remaining = {name: value for name, value in self.env.items() if name not in names}
        inherited = tuple(sorted(name for name in names if name in self.env))
        return replace(self, env=remaining, inherit=inherited)

    def limited(self, limits: RunLimits, nice: int, memory_mb: int) -> Launch:
        """Return a copy with these limits."""
        return replace(self, nice=nice, memory_mb=memory_mb, **asdict(limits))

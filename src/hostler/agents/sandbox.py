"""Agents in a sandbox of bubblewrap: how they are started there, and whether that works here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from hostler.agents.asking import ask
from hostler.agents.errors import SandboxMissing
from hostler.agents.launch import Launch
from hostler.agents.view import View, outermost
from hostler.health import Finding, Status

PROGRAM, FINDING = "bwrap", "sandbox"
# It starts a first process of a new process table, and that one starts the agent.
WRAPPERS = 2
# Nobody outside is seen, reached or outlived. Even root keeps no right to undo the mounts.
WALLS = (
    *("--die-with-parent", "--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"),
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
)
_PROBE_SECONDS = 20.0


def enclosed(launch: Launch, view: View, ours: Mapping[str, str]) -> Launch:
    """The same launch, inside. Pure, but for the place of the program."""
    argv = [found(ours) or PROGRAM, *WALLS]
    for path in outermost(view.hidden):
        argv += ["--tmpfs", str(path)]
    for path in view.readable:
        argv += ["--ro-bind", str(path), str(path)]
    for path in view.writable:
        argv += ["--bind", str(path), str(path)]
    for path in view.fixed:
        argv += ["--ro-bind", str(path), str(path)]
    for path in view.veiled:
        argv += ["--ro-bind", os.devnull, str(path)]
    argv += ["--chdir", launch.cwd, "--", *launch.argv]
    return replace(launch, argv=tuple(argv), wrappers=WRAPPERS)


def found(ours: Mapping[str, str]) -> str | None:
    """Where the program is."""
    return shutil.which(PROGRAM, path=ours.get("PATH", os.defpath))


def trouble(ours: Mapping[str, str]) -> str:
    """Why it does not work here; empty if it does. Tries it."""
    program = found(ours)
    if program is None:
        return f"there is no {PROGRAM} on PATH."
    env = {"PATH": ours.get("PATH", os.defpath)}
    answer = ask([program, *WALLS, "--", "true"], env, Path("/"), _PROBE_SECONDS)
    if answer.code == 0:
        return ""
    said = " ".join(answer.err.split())[:300]
    return answer.problem or said or f"it ended with code {answer.code}."


def require_sandbox(ours: Mapping[str, str]) -> None:
    """Raise where there is none. What worked once is not tried again."""
    program = found(ours)
    if program is not None and program in _works:
        return
    if why := trouble(ours):
        raise SandboxMissing(why)
    _works.add(str(program))


_works: set[str] = set()


def sandbox(wanted: str, ours: Mapping[str, str]) -> list[Finding]:
    """What there is to say about an agent's sandbox."""
    if wanted == "none":
        return []
    try:
        require_sandbox(ours)
    except SandboxMissing as missing:
        return [Finding(FINDING, Status.FAILED, missing.what, missing.remedy)]
    return [Finding(FINDING, Status.OK, f"{found(ours)} works here")]

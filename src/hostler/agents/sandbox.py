"""Agents in a sandbox of bubblewrap: what they see of the machine, and what they may write."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import hostler
from hostler.agents.asking import ask
from hostler.agents.errors import SandboxMissing, SandboxVoid
from hostler.agents.launch import Assignment, Launch
from hostler.config.settings import Agent
from hostler.health import Finding, Status

PROGRAM, FINDING = "bwrap", "sandbox"
# It starts a first process of a new process table, and that one starts the agent.
WRAPPERS = 2
# Nobody outside is seen, reached or outlived. Even root keeps no right to undo the mounts.
WALLS = (
    *("--die-with-parent", "--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"),
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
)
# Where sockets of a user's session are, such as that of a keyring.
SESSIONS = Path("/run/user")
PRIVATE = Path("/tmp")  # noqa: S108 - the sandbox has one of its own
_MODULES = "node_modules"
_PROBE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class View:
    """What is hidden, what of that can be read or written in spite of it, and empty files."""

    hidden: tuple[Path, ...]
    readable: tuple[Path, ...]
    writable: tuple[Path, ...]
    veiled: tuple[Path, ...] = ()


def enclosed(launch: Launch, view: View, ours: Mapping[str, str]) -> Launch:
    """The same launch, inside. Pure, but for the place of the program."""
    argv = [found(ours) or PROGRAM, *WALLS]
    for path in outermost(view.hidden):
        argv += ["--tmpfs", str(path)]
    for path in view.readable:
        argv += ["--ro-bind", str(path), str(path)]
    for path in view.writable:
        argv += ["--bind", str(path), str(path)]
    for path in view.veiled:
        argv += ["--ro-bind", os.devnull, str(path)]
    argv += ["--chdir", launch.cwd, "--", *launch.argv]
    return replace(launch, argv=tuple(argv), wrappers=WRAPPERS)


def outermost(paths: Iterable[Path]) -> list[Path]:
    """Those that lie in no other of them. Pure."""
    every = set(paths)
    return sorted(path for path in every if not any(above in every for above in path.parents))


def view_of(agent: Agent, work: Assignment, launch: Launch, ours: Mapping[str, str]) -> View:
    """What an agent at this work sees. Looks for its program, and writes nothing."""
    hidden = [path for path in (*_homes(ours), work.home, PRIVATE, SESSIONS) if path.is_dir()]
    for path in hidden:
        require_apart(work.checkout, path)
    needed = {*_named(agent, launch), *_our_own(), *work.shared}
    readable = outermost(path for path in needed if _is_below(path, hidden) and path.exists())
    # Whatever way leads to them, so not by the names of links.
    veiled = sorted({path.resolve() for path in work.private if path.is_file()})
    return View(
        tuple(hidden), tuple(readable), (work.task_dir, work.checkout), veiled=tuple(veiled)
    )


def require_apart(workplace: Path, hidden: Path) -> None:
    """Raise where work in a folder would bring back what is hidden: it is, or lies, inside."""
    inside, around = hidden.resolve(), workplace.resolve()
    if around == inside or around in inside.parents:
        raise SandboxVoid(workplace, hidden)


def _homes(ours: Mapping[str, str]) -> Iterator[Path]:
    """The user's home, by either name. The root of everything is no home."""
    with suppress(KeyError):
        yield from _unless_root(pwd.getpwuid(os.geteuid()).pw_dir)
    yield from _unless_root(ours.get("HOME", ""))


def _unless_root(path: str) -> Iterator[Path]:
    if path.startswith("/") and Path(path) != Path("/"):
        yield Path(path)


def _is_below(path: Path, hidden: Iterable[Path]) -> bool:
    # A folder that holds a hidden one would bring it back.
    return any(above in path.parents for above in hidden)


def _named(agent: Agent, launch: Launch) -> Iterator[Path]:
    """Folders of programs, and what the settings name.

    Only what the operator wrote: other arguments may come from what an agent said earlier.
    """
    path = launch.env.get("PATH", "")
    yield from (Path(folder) for folder in path.split(":") if folder.startswith("/"))
    for word in (launch.argv[0], *agent.command):
        for file in _files(word, path):
            yield file
            yield _package(file.resolve())
    for word in (agent.script, *agent.extra_args):
        yield from _files(word, path)


def _files(word: str, path: str) -> Iterator[Path]:
    """The file that a word names: a program, or a whole path."""
    place = word if "/" in word else shutil.which(word, path=path)
    if place and place.startswith("/") and Path(place).is_file():
        yield Path(place)


def _package(file: Path) -> Path:
    """What a program needs beside it: all modules of Node, else its own folder."""
    inside = [folder for folder in file.parents if folder.name == _MODULES]
    return inside[-1] if inside else file.parent


def _our_own() -> set[Path]:
    """Python and Hostler, for `hostler done`."""
    code = Path(hostler.__path__[0]).resolve().parent
    return {Path(sys.prefix), Path(sys.base_prefix), code}


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

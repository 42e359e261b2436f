"""What an agent in a sandbox sees of the machine, and what it may write."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import hostler
from hostler.agents.errors import SandboxVoid
from hostler.agents.launch import Assignment, Launch
from hostler.agents.lines import Stream
from hostler.config.settings import Agent

# Where sockets are: of the machine's services (docker, dbus, databases), and of users' sessions.
SOCKETS = (Path("/run"), Path("/var/run"))
# How names of hosts are found; on many machines a link to a file beside those sockets.
RESOLVER = Path("/etc/resolv.conf")
# Variables of ours that name a socket, wherever it is.
SOCKET_NAMES = ("SSH_AUTH_SOCK", "DOCKER_HOST", "DBUS_SESSION_BUS_ADDRESS")
PRIVATE = Path("/tmp")  # noqa: S108 - the sandbox has one of its own
_MODULES = "node_modules"
# Stands at the top of an environment of Python.
_ENVIRONMENT = "pyvenv.cfg"


@dataclass(frozen=True, slots=True)
class View:
    """What is hidden, what of that can be read or written in spite of it, and empty files.

    `fixed`: files inside of what can be written that are nevertheless only read.
    """

    hidden: tuple[Path, ...]
    readable: tuple[Path, ...]
    writable: tuple[Path, ...]
    veiled: tuple[Path, ...] = ()
    fixed: tuple[Path, ...] = ()


def outermost(paths: Iterable[Path]) -> list[Path]:
    """Those that lie in no other of them. Pure."""
    every = set(paths)
    return sorted(path for path in every if not any(above in every for above in path.parents))


def view_of(agent: Agent, work: Assignment, launch: Launch, ours: Mapping[str, str]) -> View:
    """What an agent at this work sees. Looks for its program, and writes nothing."""
    hidden = _hidden(work, ours)
    for path in hidden:
        require_apart(work.checkout, path)
    needed = {*_named(agent, launch), *_our_own(), *work.shared, RESOLVER}
    readable = {
        name
        for path in needed
        if path.exists() and not _holds(path.resolve(), hidden)
        for name in names_of(path, hidden)
        if _is_below(name, hidden)
    }
    runs = tuple(_run_folders(work, hidden))
    # Whatever way leads to them, so not by the names of links.
    veiled = {path.resolve() for path in work.private if path.is_file()}
    veiled |= {path for path in _sockets(ours) if not _is_below(path, hidden)}
    return View(
        hidden=hidden,
        readable=tuple(outermost(readable)),
        writable=(*runs, *names_of(work.checkout, hidden)),
        veiled=tuple(sorted(veiled)),
        fixed=tuple(_streams(work, runs)),
    )


def names_of(path: Path, hidden: Collection[Path]) -> list[Path]:
    """Where a path has to be mounted so that it is found: at its real place, and by the name that
    is used where a link on the way is hidden with the folder that it is in.
    """
    found, place = [path.resolve()], Path("/")
    for count, part in enumerate(path.parts[1:], start=2):
        here = place / part
        if here.is_symlink() and _is_below(here, hidden):
            return [*found, here.joinpath(*path.parts[count:])]
        place = here.resolve()
    return found


def _hidden(work: Assignment, ours: Mapping[str, str]) -> tuple[Path, ...]:
    """By their real places: a mount on a link would hide nothing, or fail."""
    session = Path(ours.get("XDG_RUNTIME_DIR", ""))
    places = [*_homes(ours), work.home, PRIVATE, *SOCKETS]
    places += [session] if session.is_absolute() else []
    real = {path.resolve() for path in places if path.is_dir()}
    return tuple(sorted(real - {Path("/")}))


def _run_folders(work: Assignment, hidden: Collection[Path]) -> Iterator[Path]:
    """The task's folder and those on the way to its run's.

    Each is mounted by itself, as what is mounted cannot be renamed: nobody puts another folder
    into the place of the run's.
    """
    inside = work.run_dir.relative_to(work.task_dir).parts
    for name in names_of(work.task_dir, hidden):
        yield from (name.joinpath(*inside[:count]) for count in range(len(inside) + 1))


def _streams(work: Assignment, folders: Iterable[Path]) -> Iterator[Path]:
    """What the agent says is added by its own descriptors, and not by whoever finds the files."""
    for folder in folders:
        if folder.resolve() == work.run_dir.resolve():
            yield from (folder / stream for stream in Stream)


def _sockets(ours: Mapping[str, str]) -> Iterator[Path]:
    """Those that our environment names. Agents do not see the names, but could know them."""
    for name in SOCKET_NAMES:
        place = ours.get(name, "").removeprefix("unix:").removeprefix("path=").partition(",")[0]
        path = Path("/" + place.lstrip("/")) if place.startswith("/") else None
        if path is not None and path.is_socket():
            yield path.resolve()


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
    return any(above in path.parents for above in hidden)


def _holds(path: Path, hidden: Iterable[Path]) -> bool:
    """A folder that is, or holds, a hidden one would bring it back."""
    return any(path == one or path in one.parents for one in hidden)


def _named(agent: Agent, launch: Launch) -> Iterator[Path]:
    """Folders of programs, and what the settings name.

    Only what the operator wrote: other arguments may come from what an agent said earlier.
    """
    path = launch.env.get("PATH", "")
    yield from (Path(folder) for folder in path.split(":") if folder.startswith("/"))
    for word in (launch.argv[0], *agent.command):
        for file in _files(word, path):
            yield file
            yield from (*_package(file), *_package(file.resolve()))
    for word in (agent.script, *agent.extra_args):
        yield from _files(word, path)


def _files(word: str, path: str) -> Iterator[Path]:
    """The file that a word names: a program, or a whole path."""
    place = word if "/" in word else shutil.which(word, path=path)
    if place and place.startswith("/") and Path(place).is_file():
        yield Path(place)


def _package(file: Path) -> Iterator[Path]:
    """What belongs to a program: all modules of Node, or the environment of Python that it is in.

    Not whatever lies beside it: that may be anybody's.
    """
    modules = [folder for folder in file.parents if folder.name == _MODULES]
    environments = [folder for folder in file.parents if (folder / _ENVIRONMENT).is_file()]
    yield from (*modules[-1:], *environments[:1])


def _our_own() -> set[Path]:
    """Python and Hostler, for `hostler done`."""
    code = Path(hostler.__path__[0]).resolve().parent
    return {Path(sys.prefix), Path(sys.base_prefix), code}

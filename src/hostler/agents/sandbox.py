"""Start agents in a bubblewrap sandbox: which paths are mounted, and whether it works here."""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import hostler
from hostler.agents.agent_files import OutputStream
from hostler.agents.assignment import Assignment, Launch
from hostler.agents.errors import SandboxMissing, SandboxVoid
from hostler.agents.program_query import query_program
from hostler.config.settings import Agent
from hostler.health import CheckStatus, Finding

# Where sockets are: of the machine's services (docker, dbus, databases), and of users' sessions.
SOCKET_FOLDERS = (Path("/run"), Path("/var/run"))
# How names of hosts are found; on many machines a link to a file beside those sockets.
RESOLV_CONF = Path("/etc/resolv.conf")
# Variables of ours that name a socket, wherever it is.
SOCKET_VARIABLES = ("SSH_AUTH_SOCK", "DOCKER_HOST", "DBUS_SESSION_BUS_ADDRESS")
TEMPORARY_FOLDER = Path("/tmp")  # noqa: S108 - the sandbox has one of its own
_NODE_MODULES = "node_modules"
# Stands at the top of an environment of Python.
_PYTHON_ENVIRONMENT = "pyvenv.cfg"


@dataclass(frozen=True, slots=True)
class SandboxMounts:
    """What is hidden, what of that can be read or written in spite of it, and empty files.

    `fixed`: files inside of what can be written that are nevertheless only read.
    """

    hidden: tuple[Path, ...]
    readable: tuple[Path, ...]
    writable: tuple[Path, ...]
    masked: tuple[Path, ...] = ()
    fixed: tuple[Path, ...] = ()


def outermost_paths(paths: Iterable[Path]) -> list[Path]:
    """Those that lie in no other of them. Pure."""
    every = set(paths)
    return sorted(path for path in every if not any(above in every for above in path.parents))


def plan_mounts(
    agent: Agent, work: Assignment, launch: Launch, ours: Mapping[str, str]
) -> SandboxMounts:
    """What an agent at this work sees. Looks for its program, and writes nothing."""
    hidden = _hidden_folders(work, ours)
    for path in hidden:
        require_outside_hidden(work.checkout, path)
    needed = {*_paths_from_settings(agent, launch), *_hostler_folders(), *work.shared, RESOLV_CONF}
    readable = {
        name
        for path in needed
        if _test_path(path, Path.exists) and not _contains_hidden(path.resolve(), hidden)
        for name in mount_points(path, hidden)
        if _is_below(name, hidden)
    }
    runs = tuple(_run_folders(work, hidden))
    # Whatever way leads to them, so not by the names of links.
    masked = {path.resolve() for path in work.private if _test_path(path, Path.is_file)}
    masked |= {path for path in _socket_files(ours) if not _is_below(path, hidden)}
    return SandboxMounts(
        hidden=hidden,
        readable=tuple(outermost_paths(readable)),
        writable=(*runs, *mount_points(work.checkout, hidden)),
        masked=tuple(sorted(masked)),
        fixed=tuple(_stream_files(work, runs)),
    )


def mount_points(path: Path, hidden: Collection[Path]) -> list[Path]:
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


def _test_path(path: Path, question: Callable[[Path], bool]) -> bool:
    """Ask a path something; one that may not be looked at, or cannot exist, is not there."""
    try:
        return question(path)
    except OSError:
        return False


def _hidden_folders(work: Assignment, ours: Mapping[str, str]) -> tuple[Path, ...]:
    """By their real places: a mount on a link would hide nothing, or fail."""
    session = Path(ours.get("XDG_RUNTIME_DIR", ""))
    places = [*_home_folders(ours), work.home, TEMPORARY_FOLDER, *SOCKET_FOLDERS]
    places += [session] if session.is_absolute() else []
    real = {path.resolve() for path in places if _test_path(path, Path.is_dir)}
    return tuple(sorted(real - {Path("/")}))


def _run_folders(work: Assignment, hidden: Collection[Path]) -> Iterator[Path]:
    """The task's folder and those on the way to its run's.

    Each is mounted by itself, as what is mounted cannot be renamed: nobody puts another folder
    into the place of the run's.
    """
    inside = work.run_dir.relative_to(work.task_dir).parts
    for name in mount_points(work.task_dir, hidden):
        yield from (name.joinpath(*inside[:count]) for count in range(len(inside) + 1))


def _stream_files(work: Assignment, folders: Iterable[Path]) -> Iterator[Path]:
    """What the agent says is added by its own descriptors, and not by whoever finds the files."""
    for folder in folders:
        if folder.resolve() == work.run_dir.resolve():
            yield from (folder / stream for stream in OutputStream)


def _socket_files(ours: Mapping[str, str]) -> Iterator[Path]:
    """Those that our environment names. Agents do not see the names, but could know them."""
    for name in SOCKET_VARIABLES:
        place = ours.get(name, "").removeprefix("unix:").removeprefix("path=").partition(",")[0]
        path = Path("/" + place.lstrip("/")) if place.startswith("/") else None
        if path is not None and path.is_socket():
            yield path.resolve()


def require_outside_hidden(workplace: Path, hidden: Path) -> None:
    """Raise where work in a folder would bring back what is hidden: it is, or lies, inside."""
    inside, around = hidden.resolve(), workplace.resolve()
    if around == inside or around in inside.parents:
        raise SandboxVoid(workplace, hidden)


def _home_folders(ours: Mapping[str, str]) -> Iterator[Path]:
    """The user's home, by either name. The root of everything is no home."""
    with suppress(KeyError):
        yield from _unless_root(pwd.getpwuid(os.geteuid()).pw_dir)
    yield from _unless_root(ours.get("HOME", ""))


def _unless_root(path: str) -> Iterator[Path]:
    if path.startswith("/") and Path(path) != Path("/"):
        yield Path(path)


def _is_below(path: Path, hidden: Iterable[Path]) -> bool:
    return any(above in path.parents for above in hidden)


def _contains_hidden(path: Path, hidden: Iterable[Path]) -> bool:
    """A folder that is, or holds, a hidden one would bring it back."""
    return any(path == one or path in one.parents for one in hidden)


def _paths_from_settings(agent: Agent, launch: Launch) -> Iterator[Path]:
    """Folders of programs, and what the settings name.

    Only what the operator wrote: other arguments may come from what an agent said earlier.
    """
    path = launch.env.get("PATH", "")
    yield from (Path(folder) for folder in path.split(":") if folder.startswith("/"))
    for word in (launch.argv[0], *agent.command):
        for file in _find_file(word, path):
            yield file
            yield from (*_package_folders(file), *_package_folders(file.resolve()))
    for word in (agent.script, *agent.extra_args):
        yield from _find_file(word, path)


def _find_file(word: str, path: str) -> Iterator[Path]:
    """The file that a word names: a program, or a whole path."""
    place = word if "/" in word else shutil.which(word, path=path)
    if place and place.startswith("/") and _test_path(Path(place), Path.is_file):
        yield Path(place)


def _package_folders(file: Path) -> Iterator[Path]:
    """What belongs to a program: all modules of Node, or the environment of Python that it is in.

    Not whatever lies beside it: that may be anybody's.
    """
    modules = [folder for folder in file.parents if folder.name == _NODE_MODULES]
    environments = [
        folder for folder in file.parents if _test_path(folder / _PYTHON_ENVIRONMENT, Path.is_file)
    ]
    yield from (*modules[-1:], *environments[:1])


def _hostler_folders() -> set[Path]:
    """Python and Hostler, for `hostler done`."""
    code = Path(hostler.__path__[0]).resolve().parent
    return {Path(sys.prefix), Path(sys.base_prefix), code}


BWRAP, SANDBOX_FINDING = "bwrap", "sandbox"
# It starts a first process of a new process table, and that one starts the agent.
WRAPPER_PROCESSES = 2
# Nobody outside is seen, reached or outlived. Even root keeps no right to undo the mounts.
BWRAP_OPTIONS = (
    *("--die-with-parent", "--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"),
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
)
_PROBE_SECONDS = 20.0


def wrap_launch(launch: Launch, view: SandboxMounts, ours: Mapping[str, str]) -> Launch:
    """The same launch, inside. Pure, but for the place of the program."""
    argv = [_find_bwrap(ours) or BWRAP, *BWRAP_OPTIONS]
    for path in outermost_paths(view.hidden):
        argv += ["--tmpfs", str(path)]
    for path in view.readable:
        argv += ["--ro-bind", str(path), str(path)]
    for path in view.writable:
        argv += ["--bind", str(path), str(path)]
    for path in view.fixed:
        argv += ["--ro-bind", str(path), str(path)]
    for path in view.masked:
        argv += ["--ro-bind", os.devnull, str(path)]
    argv += ["--chdir", launch.cwd, "--", *launch.argv]
    return replace(launch, argv=tuple(argv), wrappers=WRAPPER_PROCESSES)


def _find_bwrap(ours: Mapping[str, str]) -> str | None:
    """Where the program is."""
    return shutil.which(BWRAP, path=ours.get("PATH", os.defpath))


def find_sandbox_problem(ours: Mapping[str, str]) -> str:
    """Why it does not work here; empty if it does. Tries it."""
    program = _find_bwrap(ours)
    if program is None:
        return f"there is no {BWRAP} on PATH."
    env = {"PATH": ours.get("PATH", os.defpath)}
    answer = query_program([program, *BWRAP_OPTIONS, "--", "true"], env, Path("/"), _PROBE_SECONDS)
    if answer.code == 0:
        return ""
    said = " ".join(answer.err.split())[:300]
    return answer.problem or said or f"it ended with code {answer.code}."


def require_sandbox(ours: Mapping[str, str]) -> None:
    """Raise where there is none. What worked once is not tried again."""
    program = _find_bwrap(ours)
    if program is not None and program in _working_programs:
        return
    if why := find_sandbox_problem(ours):
        raise SandboxMissing(why)
    _working_programs.add(str(program))


_working_programs: set[str] = set()


def check_sandbox(wanted: str, ours: Mapping[str, str]) -> list[Finding]:
    """What there is to say about an agent's sandbox."""
    if wanted == "none":
        return []
    try:
        require_sandbox(ours)
    except SandboxMissing as missing:
        return [Finding(SANDBOX_FINDING, CheckStatus.FAILED, missing.what, missing.remedy)]
    return [Finding(SANDBOX_FINDING, CheckStatus.OK, f"{_find_bwrap(ours)} works here")]

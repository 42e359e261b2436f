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
from hostler.agents.errors import SandboxIneffective, SandboxMissing
from hostler.agents.program_query import query_program
from hostler.config.settings import Agent
from hostler.health import CheckStatus, Finding

# Sockets of system services (docker, dbus, databases) and of users' sessions.
SOCKET_FOLDERS = (Path("/run"), Path("/var/run"))
# For resolving host names; on many machines a link to a file beside those sockets.
RESOLV_CONF = Path("/etc/resolv.conf")
# Variables that may name a socket anywhere.
SOCKET_VARIABLES = ("SSH_AUTH_SOCK", "DOCKER_HOST", "DBUS_SESSION_BUS_ADDRESS")
TEMPORARY_FOLDER = Path("/tmp")  # noqa: S108 - the sandbox has one of its own
_NODE_MODULES = "node_modules"
# At the root of a Python virtual environment.
_PYTHON_ENVIRONMENT = "pyvenv.cfg"


@dataclass(frozen=True, slots=True)
class SandboxMounts:
    """Hidden paths, paths below them that are readable or writable, and masked files.

    `fixed`: files inside writable folders that are read-only.
    """

    hidden: tuple[Path, ...]
    readable: tuple[Path, ...]
    writable: tuple[Path, ...]
    masked: tuple[Path, ...] = ()
    fixed: tuple[Path, ...] = ()


def outermost_paths(paths: Iterable[Path]) -> list[Path]:
    """Return paths that are not inside any other of them. Pure."""
    every = set(paths)
    return sorted(path for path in every if not any(above in every for above in path.parents))


def plan_mounts(
    agent: Agent, work: Assignment, launch: Launch, own_environment: Mapping[str, str]
) -> SandboxMounts:
    """Plan what an agent can access. Locates its program, and writes nothing."""
    hidden = _hidden_folders(work, own_environment)
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
    # Compare real paths, whatever links lead to them.
    masked = {path.resolve() for path in work.private if _test_path(path, Path.is_file)}
    masked |= {path for path in _socket_files(own_environment) if not _is_below(path, hidden)}
    return SandboxMounts(
        hidden=hidden,
        readable=tuple(outermost_paths(readable)),
        writable=(*runs, *mount_points(work.checkout, hidden)),
        masked=tuple(sorted(masked)),
        fixed=tuple(_stream_files(work, runs)),
    )


def mount_points(path: Path, hidden: Collection[Path]) -> list[Path]:
    """Return where to mount a path so that it is found: at its real path, and at the name in use
    if a link to it is in a hidden folder.
    """
    found, place = [path.resolve()], Path("/")
    for count, part in enumerate(path.parts[1:], start=2):
        here = place / part
        if here.is_symlink() and _is_below(here, hidden):
            return [*found, here.joinpath(*path.parts[count:])]
        place = here.resolve()
    return found


def _test_path(path: Path, question: Callable[[Path], bool]) -> bool:
    """Test a path; False if it may not be accessed or is invalid."""
    try:
        return question(path)
    except OSError:
        return False


def _hidden_folders(work: Assignment, own_environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Return real paths: a mount on a link would hide nothing, or fail."""
    session = Path(own_environment.get("XDG_RUNTIME_DIR", ""))
    places = [*_home_folders(own_environment), work.home, TEMPORARY_FOLDER, *SOCKET_FOLDERS]
    places += [session] if session.is_absolute() else []
    real = {path.resolve() for path in places if _test_path(path, Path.is_dir)}
    return tuple(sorted(real - {Path("/")}))


def _run_folders(work: Assignment, hidden: Collection[Path]) -> Iterator[Path]:
    """Return the task's folder and those down to its run's.

    Each is mounted separately, as a mount point cannot be renamed: no process can replace
    a parent of the run's folder.
    """
    inside = work.run_dir.relative_to(work.task_dir).parts
    for name in mount_points(work.task_dir, hidden):
        yield from (name.joinpath(*inside[:count]) for count in range(len(inside) + 1))


def _stream_files(work: Assignment, folders: Iterable[Path]) -> Iterator[Path]:
    """The output files are written through inherited descriptors, so hide them from the agent."""
    for folder in folders:
        if folder.resolve() == work.run_dir.resolve():
            yield from (folder / stream for stream in OutputStream)


def _socket_files(own_environment: Mapping[str, str]) -> Iterator[Path]:
    """Return sockets named in our environment. Agents do not get the names, but could know them."""
    for name in SOCKET_VARIABLES:
        place = (
            own_environment.get(name, "")
            .removeprefix("unix:")
            .removeprefix("path=")
            .partition(",")[0]
        )
        path = Path("/" + place.lstrip("/")) if place.startswith("/") else None
        if path is not None and path.is_socket():
            yield path.resolve()


def require_outside_hidden(workplace: Path, hidden: Path) -> None:
    """Raise if the working folder is or contains a hidden folder, or is inside one."""
    inside, around = hidden.resolve(), workplace.resolve()
    if around == inside or around in inside.parents:
        raise SandboxIneffective(workplace, hidden)


def _home_folders(own_environment: Mapping[str, str]) -> Iterator[Path]:
    """Return the user's home, under both names. The root folder does not count as a home."""
    with suppress(KeyError):
        yield from _unless_root(pwd.getpwuid(os.geteuid()).pw_dir)
    yield from _unless_root(own_environment.get("HOME", ""))


def _unless_root(path: str) -> Iterator[Path]:
    if path.startswith("/") and Path(path) != Path("/"):
        yield Path(path)


def _is_below(path: Path, hidden: Iterable[Path]) -> bool:
    return any(above in path.parents for above in hidden)


def _contains_hidden(path: Path, hidden: Iterable[Path]) -> bool:
    """Return whether a folder is or contains a hidden one."""
    return any(path == one or path in one.parents for one in hidden)


def _paths_from_settings(agent: Agent, launch: Launch) -> Iterator[Path]:
    """Return folders of programs and paths named in the settings.

    Only what the operator wrote: other arguments may come from an agent's earlier output.
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
    """Return the file that an argument names: a program on PATH, or an absolute path."""
    place = word if "/" in word else shutil.which(word, path=path)
    if place and place.startswith("/") and _test_path(Path(place), Path.is_file):
        yield Path(place)


def _package_folders(file: Path) -> Iterator[Path]:
    """Return what belongs to a program: Node's modules, or its Python environment.

    Not other files beside it, which may be private.
    """
    modules = [folder for folder in file.parents if folder.name == _NODE_MODULES]
    environments = [
        folder for folder in file.parents if _test_path(folder / _PYTHON_ENVIRONMENT, Path.is_file)
    ]
    yield from (*modules[-1:], *environments[:1])


def _hostler_folders() -> set[Path]:
    """Return Python and Hostler, for `hostler done`."""
    code = Path(hostler.__path__[0]).resolve().parent
    return {Path(sys.prefix), Path(sys.base_prefix), code}


BWRAP, SANDBOX_FINDING = "bwrap", "sandbox"
# bwrap starts a first process in a new pid namespace, which starts the agent.
WRAPPER_PROCESSES = 2
# No outside process is visible or reachable. Even root has no capability to undo the mounts.
BWRAP_OPTIONS = (
    *("--die-with-parent", "--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"),
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
)
_PROBE_SECONDS = 20.0


def wrap_launch(launch: Launch, view: SandboxMounts, own_environment: Mapping[str, str]) -> Launch:
    """Return the same launch inside of the sandbox. Pure, but for finding bwrap."""
    argv = [_find_bwrap(own_environment) or BWRAP, *BWRAP_OPTIONS]
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


def _find_bwrap(own_environment: Mapping[str, str]) -> str | None:
    """Return the path of bwrap."""
    return shutil.which(BWRAP, path=own_environment.get("PATH", os.defpath))


def find_sandbox_problem(own_environment: Mapping[str, str]) -> str:
    """Return why the sandbox does not work here; empty if it does. Starts it once."""
    program = _find_bwrap(own_environment)
    if program is None:
        return f"there is no {BWRAP} on PATH."
    env = {"PATH": own_environment.get("PATH", os.defpath)}
    answer = query_program([program, *BWRAP_OPTIONS, "--", "true"], env, Path("/"), _PROBE_SECONDS)
    if answer.code == 0:
        return ""
    error_text = " ".join(answer.err.split())[:300]
    return answer.problem or error_text or f"it ended with code {answer.code}."


def require_sandbox(own_environment: Mapping[str, str]) -> None:
    """Raise if the sandbox does not work. A success is remembered."""
    program = _find_bwrap(own_environment)
    if program is not None and program in _working_programs:
        return
    if why := find_sandbox_problem(own_environment):
        raise SandboxMissing(why)
    _working_programs.add(str(program))


_working_programs: set[str] = set()


def check_sandbox(wanted: str, own_environment: Mapping[str, str]) -> list[Finding]:
    """Return the findings about an agent's sandbox."""
    if wanted == "none":
        return []
    try:
        require_sandbox(own_environment)
    except SandboxMissing as missing:
        return [Finding(SANDBOX_FINDING, CheckStatus.FAILED, missing.what, missing.remedy)]
    return [Finding(SANDBOX_FINDING, CheckStatus.OK, f"{_find_bwrap(own_environment)} works here")]

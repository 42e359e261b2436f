"""A process that has the program imported and forks once for each command that a test runs.

Importing takes longer than most commands. Everything else is as in a process of its own:
arguments, environment, folder, standard streams, signals and exit code.

Why the fork is safe: a forked child may hang only on a lock that another thread held, or share a
descriptor that it does not know of. So before each fork this process checks with the kernel that
it has one thread and no descriptor but its standard streams and its control socket, and refuses
otherwise. State that a child must not share (database connections, event loops, random numbers)
does not exist before the fork: nothing but imports has run.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path

LENGTH = struct.Struct("!I")
STREAMS = 3


def import_everything() -> None:
    """Import every module that a command may need."""
    import hostler

    for module in pkgutil.walk_packages(hostler.__path__, "hostler."):
        if not module.name.startswith("hostler.shim") and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def require_forkable(control: int) -> None:
    """Exit with a message unless this process has one thread and no unknown descriptor."""
    threads = os.listdir("/proc/self/task")  # noqa: PTH208
    with os.scandir("/proc/self/fd") as entries:
        descriptors = {int(entry.name) for entry in entries}
    # One of them is the open folder itself, which is closed by now.
    unknown = {one for one in descriptors - {0, 1, 2, control} if _is_open(one)}
    if len(threads) != 1 or unknown:
        names = [thread.name for thread in threading.enumerate()]
        places = [str(Path(f"/proc/self/fd/{one}").readlink()) for one in unknown]
        print(
            f"preloaded program: not safe to fork: {len(threads)} threads ({names}), "
            f"unknown descriptors: {places}",
            file=sys.stderr,
            flush=True,
        )
        os._exit(70)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def serve(control: socket.socket) -> dict[str, object]:
    """Fork for each request; return the request in the process that becomes the command."""
    while True:
        require_forkable(control.fileno())
        request, descriptors = receive_request(control)
        if request is None:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            return report_command(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def receive_request(control: socket.socket) -> tuple[dict[str, object] | None, list[int]]:
    """Return a request, its three streams and the socket on which its end is reported."""
    room = socket.CMSG_LEN((STREAMS + 1) * array.array("i").itemsize)
    try:
        head, ancillary, _, _ = control.recvmsg(LENGTH.size, room)
    except ConnectionResetError:
        # The tests ended with requests on their way.
        return None, []
    if len(head) < LENGTH.size:
        return None, []
    descriptors = array.array("i")
    for _level, _kind, data in ancillary:
        descriptors.frombytes(data)
    (left,) = LENGTH.unpack(head)
    text = b""
    while len(text) < left:
        text += control.recv(left - len(text))
    return json.loads(text), list(descriptors)


def report_command(request: dict[str, object], descriptors: list[int]) -> dict[str, object]:
    """Fork the command and report its pid and exit code; return in the command itself."""
    *streams, report = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(report)
        for place, descriptor in enumerate(streams):
            os.dup2(descriptor, place)
            os.close(descriptor)
        reopen_streams()
        return request
    for descriptor in streams:
        os.close(descriptor)
    os.write(report, LENGTH.pack(pid))
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    os.write(report, struct.pack("!i", code))
    os._exit(0)


def reopen_streams() -> None:
    """Open the standard streams again, so that they know whether they are a terminal."""
    errors = sys.stderr.errors
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, errors=errors, closefd=False)


def run_command(request: dict[str, object]) -> None:
    """Take on the environment, folder and arguments of a command, and run it."""
    environment, argv = request["env"], request["argv"]
    assert isinstance(environment, dict) and isinstance(argv, list)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(str(request["cwd"]))
    # A service that replaces itself starts the next one as it was started.
    sys.argv, sys.orig_argv = argv, [sys.executable, *argv]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from hostler.__main__ import main

    exit_process(exit_code_of(main))


def exit_code_of(main: Callable[[], None]) -> int:
    """Run a program and return its exit code by the rules of the interpreter."""
    try:
        main()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def exit_process(code: int) -> None:
    """End as an interpreter does, except for freeing all modules, which takes longest."""
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        code = 120
    os._exit(code)


def reset_inherited_state() -> None:
    """Make commands independent of the test that happened to be the first to run one."""
    os.umask(0o022)
    os.chdir("/")
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)
    # Nothing waits for the processes that report commands.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


if __name__ == "__main__":
    import_everything()
    reset_inherited_state()
    control = socket.socket(fileno=int(sys.argv[1]))
    control.sendall(b"!")
    run_command(serve(control))

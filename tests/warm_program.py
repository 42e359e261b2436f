"""A process in which the program is loaded already, and which forks once for each command.

Loading takes longer than most commands; everything else is as in a process of its own: arguments,
environment, folder, standard streams and exit code.
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

LENGTH = struct.Struct("!I")
STREAMS = 3


def load() -> None:
    """Everything that a command may want."""
    import hostler

    for module in pkgutil.walk_packages(hostler.__path__, "hostler."):
        if not module.name.startswith("hostler.shim") and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.collect()
    gc.freeze()


def serve(control: socket.socket) -> dict[str, object]:
    """Fork for each request; returns in the process that is to be the command."""
    while True:
        request, descriptors = receive(control)
        if request is None:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            return keep(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def receive(control: socket.socket) -> tuple[dict[str, object] | None, list[int]]:
    """A request, with its three streams and the line on which its end is told."""
    room = socket.CMSG_LEN((STREAMS + 1) * array.array("i").itemsize)
    head, found, _, _ = control.recvmsg(LENGTH.size, room)
    if len(head) < LENGTH.size:
        return None, []
    descriptors = array.array("i")
    for _level, _kind, data in found:
        descriptors.frombytes(data)
    (left,) = LENGTH.unpack(head)
    text = b""
    while len(text) < left:
        text += control.recv(left - len(text))
    return json.loads(text), list(descriptors)


def keep(request: dict[str, object], descriptors: list[int]) -> dict[str, object]:
    """Tell who the command is, and how it ends; returns in the command itself."""
    *streams, line = descriptors
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        os.close(line)
        for place, descriptor in enumerate(streams):
            os.dup2(descriptor, place)
            os.close(descriptor)
        reopen()
        return request
    for descriptor in streams:
        os.close(descriptor)
    os.write(line, LENGTH.pack(pid))
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    os.write(line, struct.pack("!i", code))
    os._exit(0)


def reopen() -> None:
    """Standard streams that know what they are now: a file, a pipe or a terminal."""
    told = sys.stderr.errors
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, errors=told, closefd=False)


def become(request: dict[str, object]) -> None:
    """Take on a command's circumstances, and do it."""
    environment, argv = request["env"], request["argv"]
    assert isinstance(environment, dict) and isinstance(argv, list)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(str(request["cwd"]))
    # A service that is replaced starts the next one as it was started itself.
    sys.argv, sys.orig_argv = argv, [sys.executable, *argv]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from hostler.__main__ import main

    leave(told_by(main))


def told_by(main: Callable[[], None]) -> int:
    """The exit code of a program, by the rules of the interpreter."""
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


def leave(code: int) -> None:
    """End as an interpreter does, but for taking everything loaded apart, which takes longest."""
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        code = 120
    os._exit(code)


if __name__ == "__main__":
    load()
    # Nobody waits for those who wait for commands.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[1]))
    control.sendall(b"!")
    become(serve(control))

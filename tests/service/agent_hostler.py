"""A quick `hostler` for agents: a small client that has its command forked from a loaded process.

An agent that runs the installed program pays for loading it, which takes longer than the command.
The client hands its arguments, environment, folder and standard streams to the process of the
tests, waits, and exits with the command's exit code. A command whose client is killed is killed.
"""

from __future__ import annotations

import array
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hostler_program import HOSTLER, _request

_LENGTH, _CODE = struct.Struct("!I"), struct.Struct("!i")
_STREAMS = 3

# Without the `socket` module, whose imports take longer than everything else here. If the socket
# cannot be reached (from a sandbox), the client becomes the installed program.
_CLIENT = """#!{python} -IS
import _socket, os, sys
def main():
    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        line.connect({address!r})
        cwd = os.getcwd()
    except OSError:
        os.execv({hostler!r}, [{hostler!r}, *sys.argv[1:]])
    parts = [cwd, str(len(sys.argv) - 1), *sys.argv[1:]]
    for pair in os.environ.items():
        parts += pair
    text = "\\0".join(parts).encode("utf-8", "surrogateescape")
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
    head = len(text).to_bytes(4, "big")
    line.sendmsg([head], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    while text:
        text = text[line.send(text):]
    told = line.recv(4)
    code = int.from_bytes(told, "big", signed=True) if len(told) == 4 else 70
    if code < 0:
        import signal
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
main()
"""


@contextmanager
def agent_hostler(folder: Path) -> Iterator[Path]:
    """Serve the client in this folder; put it first on the PATH of a service to use it."""
    # Not in that folder, whose path may be longer than the address of a socket can be.
    place = tempfile.TemporaryDirectory(prefix="hostler-", dir="/tmp")
    address = Path(place.name) / "line"
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(address))
    server.listen(64)
    program = folder / "bin" / "hostler"
    program.parent.mkdir()
    program.write_text(_CLIENT.format(python=sys.executable, address=str(address), hostler=HOSTLER))
    program.chmod(0o755)
    thread = threading.Thread(target=_accept, args=(server,), name="agent-hostler", daemon=True)
    thread.start()
    try:
        yield program.parent
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        place.cleanup()
        thread.join()


def _accept(server: socket.socket) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(client,), daemon=True).start()


def _serve(client: socket.socket) -> None:
    """Run one command; a client that is gone has killed it."""
    with client:
        received = _receive(client)
        if received is None:
            return
        words, cwd, env, streams = received
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                _request([HOSTLER, *words], Path(cwd), env, [*streams, theirs.fileno()])
            for stream in streams:
                os.close(stream)
            (pid,) = _LENGTH.unpack(ours.recv(_LENGTH.size))
            ready, _, _ = select.select([ours, client], [], [])
            if ours not in ready:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            code = ours.recv(_CODE.size)
            with suppress(OSError):
                client.sendall(code)


def _receive(
    client: socket.socket,
) -> tuple[list[str], str, dict[str, str], list[int]] | None:
    streams = array.array("i")
    head, found, _, _ = client.recvmsg(_LENGTH.size, socket.CMSG_LEN(_STREAMS * streams.itemsize))
    for _level, _kind, data in found:
        streams.frombytes(data)
    if len(head) < _LENGTH.size or len(streams) < _STREAMS:
        return None
    (left,) = _LENGTH.unpack(head)
    text = b""
    while len(text) < left:
        part = client.recv(left - len(text))
        if not part:
            return None
        text += part
    cwd, count, *rest = text.decode("utf-8", "surrogateescape").split("\0")
    words, pairs = rest[: int(count)], rest[int(count) :]
    return words, cwd, dict(zip(pairs[::2], pairs[1::2], strict=True)), list(streams)

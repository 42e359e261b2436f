"""`hostler` commands of agents in tests, forked from the preloaded process of the tests.

An agent that starts the program by itself spends most of its time on imports. `CLIENT` is the
agent's side: a function that connects to `listening()`, which hands the request on.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
from functools import cache
from pathlib import Path
from threading import Thread

from hostler_program import HOSTLER, _request

CLIENT = """
import json, os, socket, struct, subprocess, tempfile

def hostler(*words):
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line,
        open(os.devnull) as nothing,
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
    ):
        line.connect({address!r})
        request = json.dumps({{"words": words, "cwd": os.getcwd(), "env": dict(os.environ)}})
        streams = [one.fileno() for one in (nothing, out, err)]
        socket.send_fds(line, [request.encode()], streams)
        line.recv(4)
        (code,) = struct.unpack("!i", line.recv(4))
        texts = [one.seek(0) or one.read() for one in (out, err)]
    return subprocess.CompletedProcess(words, code, *texts)
"""


def client() -> str:
    """Return the text of a function `hostler` for agents of this process's tests."""
    return CLIENT.format(address=listening())


@cache
def listening() -> str:
    """Start to take requests of agents; return the address."""
    folder = tempfile.TemporaryDirectory(prefix="hostler-agents-")
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.bind(str(Path(folder.name) / "line"))
    server.listen()
    Thread(target=_serve, args=(server, folder), daemon=True).start()
    return str(Path(folder.name) / "line")


def _serve(server: socket.socket, _folder: object) -> None:
    """Hand requests on; the preloaded process reports on the agent's own connection."""
    while True:
        line, _ = server.accept()
        with line:
            text, descriptors, _, _ = socket.recv_fds(line, 1 << 20, 3)
            try:
                request = json.loads(text)
                argv = [HOSTLER, *request["words"]]
                given = [*descriptors, line.fileno()]
                _request(argv, Path(request["cwd"]), request["env"], given)
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)

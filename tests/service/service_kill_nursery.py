"""Where services are born: a process that has imported everything, and forks one on request.

The test's own process has threads, and must not fork; importing anew takes as long as a walk.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
from multiprocessing.connection import Connection, Pipe
from typing import Any

from hostler.shim import processes

LARGEST = 65536


class Nursery:
    """The test's side: births of services, as processes that nobody here has to wait for."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        argv = [sys.executable, __file__, str(theirs.fileno())]
        self._process = subprocess.Popen(argv, pass_fds=[theirs.fileno()])
        theirs.close()

    def birth(self, orders: Any) -> tuple[processes.Process, Connection]:
        """A new service, and a pipe to it."""
        ours, theirs = Pipe()
        with theirs:
            socket.send_fds(self._socket, [pickle.dumps(orders)], [theirs.fileno()])
            born = processes.read_process(int(self._socket.recv(LARGEST)))
        assert born is not None
        return born, ours

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


def tend(requests: socket.socket) -> None:
    """Fork a service for each request, until nobody is there to ask."""
    from service_kill_child import serve

    # Nobody asks how they ended: it is seen that they did.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        orders, descriptors, _, _ = socket.recv_fds(requests, LARGEST, 1)
        if not orders:
            return
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            requests.close()
            serve(Connection(descriptors[0]), pickle.loads(orders))
        os.close(descriptors[0])
        requests.send(str(pid).encode())


if __name__ == "__main__":
    tend(socket.socket(fileno=int(sys.argv[1])))

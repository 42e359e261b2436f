"""A sandbox that is killed takes its git children with it."""

from __future__ import annotations

import base64
import os
import select
import signal
import socket
import time
from pathlib import Path

import pytest
from test_sandbox_program import program

PATIENCE = 20
DEAD = ("Z", "X")


def stat_of(pid: int) -> tuple[str, int, int] | None:
    """State, parent and session of a process; None where there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0], int(fields[1]), int(fields[3])


def living() -> dict[int, tuple[str, int, int]]:
    """Every process that is not dead."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    found = {pid: stat_of(pid) for pid in pids}
    return {pid: stat for pid, stat in found.items() if stat and stat[0] not in DEAD}


def in_session(session: int) -> list[int]:
    return [pid for pid, stat in living().items() if stat[2] == session]


def wait_until_empty(session: int) -> list[int]:
    """Wait for the end of each process of a session; those left after the timeout."""
    deadline = time.monotonic() + PATIENCE
    while (left := in_session(session)) and time.monotonic() < deadline:
        try:
            handle = os.pidfd_open(left[0])
        except ProcessLookupError:
            continue
        try:
            select.select([handle], [], [], deadline - time.monotonic())
        finally:
            os.close(handle)
    return left


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs pidfd and /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_a_sandbox_that_dies_during_a_push_leaves_no_git_behind(tmp_path, monkeypatch, number):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with program() as (child, told):
        port = int(told["url"].rsplit(":", 1)[1])
        secret = base64.b64encode(f"alice:{told['tokens']['alice']}".encode()).decode()
        head = (
            "POST /alice/demo.git/git-receive-pack HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Basic {secret}\r\nContent-Length: 100000\r\n"
            "Content-Type: application/x-git-receive-pack-request\r\nExpect: 100-continue\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
            client.sendall(head.encode())
            # The body is asked for only once git is there to read it.
            assert b" 100 " in client.recv(1000)
            client.sendall(b"00a0")
            sessions = [pid for pid, stat in living().items() if stat[1] == child.pid]
            assert sessions
            child.send_signal(number)
            child.wait(PATIENCE)
            left = {session: wait_until_empty(session) for session in sessions}
    for session, pids in left.items():
        if pids:
            os.killpg(session, signal.SIGKILL)
    assert not any(left.values())

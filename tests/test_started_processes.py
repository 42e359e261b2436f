"""Processes that tests have started are found, and those of others are not asked."""

from __future__ import annotations

import os
import subprocess
import sys

from started_processes import started_with

# A child in a session of its own, whose parent ends at once; it waits for its standard input.
LEAVES_ONE = """
import os, sys
if os.fork() == 0:
    os.setsid()
    os.write(1, str(os.getpid()).encode())
    os.close(1)
    os.read(0, 1)
"""


def test_an_orphan_in_another_session_is_found_and_only_while_it_lives():
    mark = f"MARK=orphan-{os.getpid()}"
    name, value = mark.split("=")
    reading, writing = os.pipe()
    parent = subprocess.Popen(
        [sys.executable, "-ISc", LEAVES_ONE],
        stdin=reading,
        stdout=subprocess.PIPE,
        env={**os.environ, name: value},
    )
    os.close(reading)
    orphan = int(parent.communicate()[0])
    handle = os.pidfd_open(orphan)
    assert [process.pid for process in started_with(mark)] == [orphan]
    os.close(writing)
    os.waitid(os.P_PIDFD, handle, os.WEXITED)
    os.close(handle)
    assert started_with(mark) == []


def test_a_process_of_somebody_else_is_not_asked():
    assert os.getppid() not in {process.pid for process in started_with("", "environ")}

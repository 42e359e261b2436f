"""The processes that this test process has started, wherever they went."""

from __future__ import annotations

import os
from pathlib import Path

from hostler.shim import processes
from hostler.shim.agent import become_subreaper

# Orphans of ours become our children, so that they are found without a look at the processes
# of others, whose environments are none of our business.
adopt_orphans = become_subreaper


def started_with(word: str, *files: str) -> list[processes.Process]:
    """Living processes below this one that have a word in one of their files in `/proc`.

    `files` are such as `cmdline` and `environ`; without any, it is the environment.
    """
    wanted = word.encode()
    return [
        process
        for process in processes.list_living_descendants(os.getpid())
        if any(wanted in read(process.pid, file) for file in files or ("environ",))
    ]


def read(pid: int, file: str) -> bytes:
    """A file of a process in `/proc`; empty when the process has ended."""
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""

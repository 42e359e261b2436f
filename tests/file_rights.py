"""A process in which the modes of files hold, also where the tests run as root."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable

_CAPABILITY_VERSION_3 = 0x20080522


def holds_without_rights(question: Callable[[], bool]) -> bool:
    """Ask a question in a forked process that has none of root's rights; return its answer.

    It stays the same user, so it can enter the folders of the tests.
    """
    child = os.fork()
    if child == 0:
        code = 2
        try:
            give_up_rights()
            code = 0 if question() else 1
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 1), f"the question failed with {code}"
    return code == 0


def give_up_rights() -> None:
    """Drop all capabilities of this process for good. Nothing changes for an ordinary user."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.capset(header, bytes(24)) != 0:
        raise OSError(ctypes.get_errno(), "capset")

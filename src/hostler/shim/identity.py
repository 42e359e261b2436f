"""Who a process is, beyond doubt, and whether it lives."""
# ruff: noqa: PTH115, PTH123
# (Importing pathlib would cost more than all of the shim.)

from __future__ import annotations

import os

from . import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def mine() -> dict[str, object]:
    """This process's identity."""
    me = tree.look(os.getpid())
    if me is None:
        raise OSError("/proc does not know this process")
    return {**_here(), "pid": me.pid, "start_ticks": me.ticks}


def is_alive(identity: Mapping[str, object]) -> bool | None:
    """Whether that very process lives; None where it cannot be known from here."""
    reach = within_reach(identity)
    if not reach:
        return reach
    pid = identity.get("pid")
    process = tree.look(pid) if isinstance(pid, int) else None
    return process is not None and not process.zombie and is_same(identity, process)


def is_same(identity: Mapping[str, object], process: tree.Process) -> bool:
    """Whether a row of our own process table is that process."""
    return (identity.get("pid"), identity.get("start_ticks")) == process.key


def within_reach(identity: Mapping[str, object]) -> bool | None:
    """Whether our process table could show it; False: its machine has been started anew."""
    here = _here()
    if identity.get("boot_id") != here["boot_id"]:
        return False if identity.get("host") == here["host"] else None
    return True if identity.get("pid_namespace") == here["pid_namespace"] else None


def _here() -> dict[str, object]:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    return {
        "host": os.uname().nodename,
        "boot_id": boot,
        "pid_namespace": os.readlink("/proc/self/ns/pid"),
    }

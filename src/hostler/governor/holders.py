"""The edge: which process this is, whether another one lives, and how much memory is free."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from hostler.shim import identity, tree
from hostler.store.governor import Holder

# Whether that very process lives; None where it cannot be known from here.
Alive = Callable[[Holder], bool | None]
MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True)
class Here:
    """What can only be seen from outside a transaction: who asks, and how this machine is.

    `roll` throws a number in [0, 1) for each start, so that machines do not start in step.
    """

    holder: Holder
    free_mb: int | None
    alive: Alive
    roll: Callable[[], float] = random.random


def look_around() -> Here:
    """This process and this machine, now."""
    return Here(myself(), free_memory_mb(), is_alive)


def myself() -> Holder:
    """This process. Where it has no identity, its leases end with their TTL."""
    try:
        return holder_of(identity.mine()) or Holder()
    except OSError:
        return Holder(host=os.uname().nodename, pid=os.getpid())


def holder_of(known: Mapping[str, object]) -> Holder | None:
    """The process that an identity names; None where it names none."""
    host, boot, space = (known.get(name) for name in ("host", "boot_id", "pid_namespace"))
    pid, ticks = known.get("pid"), known.get("start_ticks")
    if not (isinstance(host, str) and isinstance(boot, str) and isinstance(space, str)):
        return None
    if not (isinstance(pid, int) and isinstance(ticks, int) and pid > 0):
        return None
    return Holder(host, boot, space, pid, ticks)


def is_alive(holder: Holder) -> bool | None:
    """Whether that very process lives; None where it cannot be known from here."""
    try:
        reach = _reach(holder.host, holder.boot_id, holder.pid_namespace)
    except OSError:
        return True  # asked again next time
    if not reach:
        return reach
    process = tree.look(holder.pid)
    if process is not None:
        return not process.zombie and process.key == (holder.pid, holder.start_ticks)
    # Without a free descriptor nobody can be seen. A signal of number 0 needs none.
    return _answers(holder.pid)


def free_memory_mb() -> int | None:
    """Memory that a new program could use, without swapping; None where nobody says."""
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
        found = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(found.split()[1]) // 1024
    except (OSError, StopIteration, ValueError, IndexError):
        return _asked_elsewhere()


def _asked_elsewhere() -> int | None:
    import psutil  # type: ignore[import-untyped]

    try:
        return int(psutil.virtual_memory().available) // (1024 * 1024)
    except (OSError, RuntimeError, ValueError):
        return None


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@lru_cache(maxsize=64)
def _reach(host: str, boot_id: str, pid_namespace: str) -> bool | None:
    """Whether our process table could show it; asked once per place, which never changes."""
    if not host or not boot_id:
        return None
    return identity.within_reach({"host": host, "boot_id": boot_id, "pid_namespace": pid_namespace})


# A child may be the first of another namespace.
os.register_at_fork(after_in_child=_reach.cache_clear)

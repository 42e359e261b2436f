"""Many real processes that take places, hand them on and are killed, watched from outside.

Who has a lease locks a file of its pool and one of the machine. There are as many files as places,
and the kernel drops the locks of the dead: whoever finds none to lock has a place too many.
"""

from __future__ import annotations

import fcntl
import os
import random
import select
import signal
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from children import PATIENCE, Child
from database import Database
from governor_yard import a_run

from hostler.governor.gates import LeaseGranted, LeaseRequest
from hostler.governor.holders import current_holder, prune, read_host
from hostler.governor.leases import acquire, attach, drop_demand, publish_demand, release_lease
from hostler.governor.policy import Policy
from hostler.shim import processes
from hostler.store import Store
from hostler.store.governor import all_demand, all_leases

POLICY = Policy(caps={"anthropic": 5, "openai": 4}, machine_max_agents=7, memory_floor_mb=0)
PROJECTS = ("ant", "bee", "cat", "dog")
OVER = "over"


def make_places(folder: Path) -> None:
    folder.mkdir()
    for pool, cap in POLICY.caps.items():
        for number in range(cap):
            (folder / f"{pool}-{number}").touch()
    for number in range(POLICY.machine_max_agents):
        (folder / f"machine-{number}").touch()


def lock_one(folder: Path, kind: str) -> int | None:
    """Lock the first free file of a kind; None: there is none."""
    for path in sorted(folder.glob(f"{kind}-*")):
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            continue
        return file
    return None


class Actor:
    """One process of the crowd, on its own side."""

    def __init__(self, pipe, database: Database, places: Path, pool: str, project: str) -> None:
        self.pipe, self.places, self.pool, self.project = pipe, places, pool, project
        self.store = database.open()
        self.names = (f"{project}-{os.getpid()}-{number}" for number in count())
        self.lease = ""
        self.locks: list[int] = []

    def play(self) -> None:
        while True:
            getattr(self, self.pipe.recv())()

    def request(self) -> None:
        request, host = LeaseRequest(next(self.names), self.project, self.pool), read_host()
        with self.store.write("admission", relaxed=True) as tx:
            publish_demand(tx, self.pool, self.project, host, wanted=1)
            answer = acquire(tx, request, POLICY, host)
        if not isinstance(answer, LeaseGranted):
            self.pipe.send(answer.gate.value)
            return
        self.lease = request.lease
        locks = [lock_one(self.places, kind) for kind in (self.pool, "machine")]
        self.locks = [lock for lock in locks if lock is not None]
        self.pipe.send(OVER if None in locks else request.lease)

    def release(self) -> None:
        # The locks first: whoever gets the place next must find one.
        for lock in self.locks:
            os.close(lock)
        with self.store.write("admission", relaxed=True) as tx:
            assert release_lease(tx, self.lease)
            drop_demand(tx, self.pool, self.project, read_host())
        self.pipe.send("released")

    def hand_over(self) -> None:
        """As a service hands a lease to a shim: another process goes on with it, and we leave."""
        wait, go = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(go)
            if os.read(wait, 1):
                self.pipe.send(os.getpid())
                self.play()
            os._exit(0)
        shim = replace(current_holder(), pid=pid, start_ticks=processes.read_process(pid).ticks)
        with self.store.write() as tx:
            attach(tx, a_run(self.lease, self.project, self.pool, shim=shim))
        os.write(go, b"g")
        os._exit(0)


def act(pipe, *arguments) -> None:
    """The whole life of a process of the crowd."""
    Actor(pipe, *arguments).play()


@dataclass
class Member:
    """One process of the crowd, seen from outside."""

    child: Child
    pid: int
    lease: str = ""

    def kill(self) -> None:
        """End it in the middle of whatever it does, and wait until nothing of it is left."""
        try:
            pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        assert poll.poll(PATIENCE * 1000), "it does not die"
        os.close(pidfd)


def last_words(member: Member) -> list[str]:
    """What a killed one said, if it came to that."""
    try:
        return member.child.everything_heard()
    except ConnectionResetError:
        return []  # it never heard what it was asked


class Crowd:
    """All of them, and a place to look on from."""

    def __init__(self, database: Database, places: Path, size: int, seed: int) -> None:
        make_places(places)
        self.database, self.places = database, places
        self.chance = random.Random(seed)
        self.store: Store = database.open()
        self.granted = 0
        self.members = [self.newcomer() for _ in range(size)]

    def newcomer(self) -> Member:
        pool, project = self.chance.choice(sorted(POLICY.caps)), self.chance.choice(PROJECTS)
        child = Child(act, self.database, self.places, pool, project)
        return Member(child, child.process.pid)

    def some(self, members: list[Member], most: int) -> list[Member]:
        return self.chance.sample(members, min(len(members), self.chance.randint(0, most)))

    def round(self) -> None:
        """Ask, be killed meanwhile, give back, hand on; then look whether all is well."""
        idle = [member for member in self.members if not member.lease]
        asking = self.some(idle, len(idle))
        for member in asking:
            member.child.tell("request")
        killed = self.some(self.members, 4)
        for member in killed:
            member.kill()
        for member in asking:
            self.hear(member, killed)
        self.members = [member for member in self.members if member not in killed]
        self.move_on()
        self.look()
        self.members += [self.newcomer() for _ in killed]

    def hear(self, member: Member, killed: list[Member]) -> None:
        said = last_words(member) if member in killed else [member.child.hear()]
        assert OVER not in said, "more than there are places for"
        if said and "-" in said[0]:
            member.lease = said[0]
            self.granted += 1

    def move_on(self) -> None:
        holders = [member for member in self.members if member.lease]
        leaving = self.some(holders, 3)
        for member in leaving:
            member.child.tell("release")
        for member in leaving:
            assert member.child.hear() == "released"
            member.lease = ""
        for member in self.some([member for member in holders if member.lease], 2):
            member.child.tell("hand_over")
            member.pid = member.child.hear()

    def look(self) -> None:
        """Every living holder has its lease, and as many places are locked as there are holders."""
        with self.store.read() as tx:
            leases = {lease.lease: lease.holder.pid for lease in all_leases(tx)}
        holders = {member.lease: member.pid for member in self.members if member.lease}
        assert holders.items() <= leases.items(), "a living process lost its lease"
        locked = sum(is_locked(path) for path in self.places.glob("machine-*"))
        assert locked == len(holders)

    def end(self) -> None:
        """Kill them all; nothing may be left."""
        for member in self.members:
            member.kill()
        with self.store.write("admission", relaxed=True) as tx:
            prune(tx, POLICY, read_host())
            assert all_leases(tx) == []
            assert all_demand(tx) == []
        self.store.close()
        for member in self.members:
            member.child.pipe.close()


def is_locked(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False

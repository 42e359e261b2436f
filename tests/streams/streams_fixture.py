"""A stage for streams: the host lives here, the service in children that are killed."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from copy import deepcopy
from datetime import timedelta
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from streams_host import Eyes, Host, new_host
from streams_life import Life, live
from streams_oracle import Oracle
from streams_people import People
from streams_script import PLANS, Move, Stream, meanwhile_of

from hostler.errors import NotFound
from hostler.forge.github.client import pagination

SKEWS = (0, 20, -20, 10_800, -10_800, 400_000)
# Steps after which a life ends: some in the middle of a poll, some after many.
FEW, MANY = 60, 600
OPEN_WRITES = "SELECT count(*) FROM outbox WHERE state IN ('queued', 'sending', 'unclear')"
PENDING = "SELECT count(*) FROM inbox WHERE consumed_at IS NULL"
BUSY = "SELECT count(*) FROM tasks WHERE state IN ('queued', 'running', 'retrying', 'blocked')"
KILLS = (-signal.SIGKILL, -signal.SIGALRM)


class Broken(Exception):
    """A life ended by itself."""


class Stage:
    """One stream on its way."""

    def __init__(self, home: Path, plan: str, host: Host | None = None) -> None:
        self.home, self.plan = home, PLANS[plan]
        self.host = host or new_host()
        self.people = People(self.host)
        self.oracle = Oracle(self.host, self.plan.feeds == "threads", pagination.PAGE_SIZE)
        self.skew = 0
        self.tally: Counter[str] = Counter()
        self.pipe: Connection | None = None
        self.child = 0

    def play(self, move: Move) -> None:
        name, which, how = move
        self.tally[name] += 1
        actor = self.people if hasattr(self.people, name) else self
        getattr(actor, name)(which, how)

    # -- what the service does ----------------------------------------------------------------

    def poll(self, _which: int = 0, _how: int = 0) -> None:
        eyes = self.host.watch()
        self.command("poll", eyes=eyes)
        self.oracle.seen(eyes)

    def drift(self, which: int, how: int) -> None:
        """A poll during which people go on."""
        left = meanwhile_of(which, how)

        def meanwhile() -> None:
            for name, first, second in left.pop() if left else ():
                getattr(self.people, name)(first, second)

        self.host.meanwhile = meanwhile
        self.poll()
        self.host.meanwhile = None

    def die(self, which: int, how: int) -> None:
        """At some step from now on."""
        self.command("arm", 1 + which % (FEW if how % 3 else MANY), 0.0)

    def die_anywhere(self, which: int, how: int) -> None:
        self.command("arm", 0, 0.0002 + which * how / 1e8)

    def restart(self, _which: int = 0, _how: int = 0) -> None:
        """In peace."""
        if self.pipe is not None:
            self.pipe.close()
            self._ended()

    def work(self, _which: int = 0, _how: int = 0) -> None:
        self.command("work")
        self.command("send")

    def block(self, which: int, _how: int) -> None:
        self.command("block", which)

    def unblock(self, which: int, _how: int) -> None:
        self.command("unblock", which)

    def resume(self, which: int, how: int) -> None:
        """Opened again, and taken up by the operator."""
        if self.host.pulls:
            numbers = sorted(self.host.pulls)
            number = numbers[which % len(numbers)]
            if how % 2:
                self.people.reopen(which, how)
            self.command("resume", number)

    def away(self, which: int, _how: int) -> None:
        """A day without a service, and life goes on; not before it has begun to follow."""
        if self.oracle.polls:
            self.restart()
            self.host.pass_time(80_000 + which * 20)

    def jump(self, which: int, _how: int) -> None:
        """Our own clock is wrong from now on."""
        self.skew = SKEWS[which % len(SKEWS)]

    # -- the child ----------------------------------------------------------------------------

    def command(self, name: str, *given: Any, eyes: Eyes | None = None) -> bool:
        """Let the service do something; whether it lived to say that it is done."""
        pipe = self._alive()
        try:
            pipe.send((name, self.host.clock.now() + timedelta(seconds=self.skew), given))
            while (said := pipe.recv())[0] != "done":
                self._hear(pipe, said, eyes)
            return True
        except (EOFError, OSError):
            self._ended()
            return False

    def _hear(self, pipe: Connection, said: tuple[Any, ...], eyes: Eyes | None) -> None:
        if said[0] == "ask":
            _, name, given, named = said
            try:
                answer = (True, getattr(self.host, name)(*given, **named))
            except NotFound:
                answer = (False, None)
            pipe.send(answer)
        elif said[0] == "polled":
            assert eyes is not None
            self.oracle.polled(eyes, said[1])
            self.tally["polled"] += 1
        else:
            raise Broken(said[1])

    def _alive(self) -> Connection:
        if self.pipe is None:
            self.pipe, theirs = Pipe()
            self.child = os.fork()
            if not self.child:
                self.pipe.close()
                live(theirs, self.home, self.host.name, self.plan)
            theirs.close()
            self.tally["lives"] += 1
        return self.pipe

    def _ended(self) -> None:
        assert self.pipe is not None
        self.pipe.close()
        self.pipe = None
        _, status = os.waitpid(self.child, 0)
        code = os.waitstatus_to_exitcode(status)
        self.tally["killed" if code in KILLS else "ended"] += 1
        if code and code not in KILLS:
            raise Broken(f"a life ended with {code}")

    def close(self) -> None:
        if self.pipe is not None:
            self.pipe.close()
            self.pipe = None
            os.waitpid(self.child, 0)

    # -- the end ------------------------------------------------------------------------------

    def finish(self) -> None:
        """Nothing happens any more; everything is shown, unblocked, read, sent and answered."""
        self.command("arm", 0, 0.0)
        self.host.askew = self.host.date_askew = 0
        self.host.pass_time(400)
        self._rest()
        # Nothing tells of this but the slow sweep.
        self.people.edit_review(0, 0)
        self._rest()
        self.restart()

    def _rest(self) -> None:
        for place in range(self._most_rounds()):
            self.command("catch_up")
            self.host.pass_time(60)
            self.poll()
            if place and self._is_done():
                return

    def _most_rounds(self) -> int:
        """Until the slow sweep has come round, and writes that were cut off were looked for."""
        pages = [len(rows) // pagination.PAGE_SIZE + 2 for rows in self.host.verdicts.values()]
        return 2 * sum(pages) + 4 * len(self.host.pulls) + 40

    def _is_done(self) -> bool:
        with closing(sqlite3.connect(self.home / "hostler.db")) as database:
            busy = any(database.execute(sql).fetchone()[0] for sql in (OPEN_WRITES, PENDING, BUSY))
            return not busy and not self.oracle.missing(database)


def copy_home(source: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for path in source.glob("hostler.db*"):
        if not path.name.endswith("-shm"):
            shutil.copy(path, target)


class Rehearsal(Stage):
    """A service in this very process, so that what it has learnt is known to all forks."""

    def __init__(self, home: Path, plan: str) -> None:
        super().__init__(home, plan)
        self.ours, theirs = Pipe()
        self.life = Life(theirs, home, self.host.name, self.plan, self.host)

    def command(self, name: str, *given: Any, eyes: Eyes | None = None) -> bool:
        self.life.set(self.host.clock.now())
        getattr(self.life, name)(*given)
        while self.ours.poll():
            self.ours.recv()
        return True

    def close(self) -> None:
        self.life.store.close()
        self.ours.close()
        self.life.pipe.close()


def well_on_its_way(home: Path, plan: str) -> Host:
    """A host with three pull requests of ours, followed and settled; the database is in `home`."""
    stage = Rehearsal(home, plan)
    for place in range(3):
        stage.host.file_issue(f"Work {place}", by="ann", labels=("agent:bugfix",))
    for _ in range(12):
        stage.host.pass_time(10)
        stage.poll()
        stage.work()
    stage.close()
    assert len(stage.host.pulls) == 3
    return stage.host


def in_the_middle() -> Host:
    """A host whose people have talked for an hour when the service begins."""
    host = new_host()
    people = People(host)
    for place in range(12):
        name = ("file", "say", "burst", "edit")[place % 4]
        getattr(people, name)(place, 9 * place + 4)
        host.pass_time(300)
    return host


def played(stream: Stream, folder: Path, bases: dict[str, tuple[Path, Host]]) -> Stage:
    """Play a stream to its end, in a copy of what is kept for its beginning."""
    home, host = bases["fresh" if stream.fresh else stream.plan]
    copy_home(home, folder)
    stage = Stage(folder, stream.plan, deepcopy(host))
    try:
        for move in stream.moves:
            stage.play(move)
        stage.finish()
    finally:
        stage.close()
    stage.oracle.judge(folder / "hostler.db")
    return stage

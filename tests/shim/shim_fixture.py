"""Runs for tests: real shims, agents written on the spot, and events that they send us."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from hostler.shim import command, processes, run_files
from started_processes import started_with

# A test that waits in vain must fail with a message, not hang.
PATIENCE = 60.0
TOKEN = "SHIM_TEST_TOKEN"

# What agents in tests can do; `tell` sends one line to the test.
PRELUDE = """
import os, sys, signal, time

def tell(*words):
    pipe = os.open(os.environ["EVENTS"], os.O_WRONLY)
    os.write(pipe, (" ".join(map(str, words)) + "\\n").encode())
    os.close(pipe)

def child(action):
    pid = os.fork()
    if pid == 0:
        try:
            action()
        finally:
            os._exit(0)
    return pid

def here(name):
    tell(name, os.getpid())
    while True:
        signal.pause()

def deaf(name):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    here(name)
"""


def python(code: str) -> list[str]:
    """The argv of an agent that runs this code."""
    return [sys.executable, "-I", "-S", "-c", PRELUDE + code]


class Events:
    """Lines that agents send, in the order in which they were sent."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        # Open for both: the end never comes, and no agent waits for a reader.
        self._pipe = os.open(path, os.O_RDWR)
        self._rest = b""

    def next(self) -> list[str]:
        """The words of the next line."""
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._pipe], [], [], PATIENCE)
            assert ready, f"no event within {PATIENCE} s"
            self._rest += os.read(self._pipe, 65536)
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode().split()

    def people(self, *names: str) -> dict[str, processes.Process]:
        """Wait until all of these have said their name and pid; who they are."""
        found: dict[str, processes.Process] = {}
        while set(names) - set(found):
            name, pid = self.next()
            process = processes.read_process(int(pid))
            assert process, f"{name} is gone already"
            found[name] = process
        return found

    def close(self) -> None:
        os.close(self._pipe)


class Shim:
    """A real shim on a folder of its own."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self._environment = environment
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **options: Any) -> Shim:
        self.process = subprocess.Popen(
            command(str(self.folder)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environment,
            **options,
        )
        return self

    def ready(self) -> dict[str, Any]:
        """Wait until the run is locked; what the shim says of itself."""
        assert self.process and self.process.stdout
        line = self.process.stdout.readline()
        assert line, self.process.communicate(timeout=PATIENCE)
        return json.loads(line)

    def go(self) -> Shim:
        assert self.process and self.process.stdin
        self.process.stdin.write(b"g")
        self.process.stdin.flush()
        return self

    def run(self) -> Shim:
        self.start().ready()
        return self.go()

    def signal(self, number: int) -> None:
        assert self.process
        self.process.send_signal(number)

    def stop(self, why: str = "asked", grace: float = 30.0) -> None:
        run_files.write_json(str(self.folder / "stop.json"), {"why": why, "grace_seconds": grace})
        self.signal(signal.SIGUSR1)

    def wait(self) -> int:
        """Until the shim has left; its exit code."""
        assert self.process
        return self.process.wait(PATIENCE)

    def exit_record(self) -> dict[str, Any]:
        """Wait for the end and read the last word."""
        code = self.wait()
        assert code == 0, (code, self.complaint())
        return json.loads((self.folder / "exit.json").read_text())

    def complaint(self) -> str:
        assert self.process and self.process.stderr
        return self.process.stderr.read().decode()

    def output(self) -> str:
        return (self.folder / "stdout").read_text()

    def until_free(self) -> None:
        """Wait in the kernel's queue for the run's lock."""
        with (self.folder / "run.lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_SH)

    def close(self) -> None:
        if self.process:
            if self.process.poll() is None:
                self.process.kill()
            self.process.wait()
            for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                if stream:
                    stream.close()


class ShimRuns:
    """Makes runs, and knows every process that came from them."""

    def __init__(self, folder: Path, token: str) -> None:
        self.folder = folder
        self.token = token
        self.events = Events(folder / "events")
        self._shims: list[Shim] = []

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "EVENTS": str(self.events.path),
            TOKEN: self.token,
        }

    def run(self, code: str = "", name: str = "r1", **spec: Any) -> Shim:
        """A run that is ready to be started."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        asked = {
            "run": name,
            "argv": python(code),
            "cwd": str(self.folder),
            "env": self.environment(),
            **spec,
        }
        run_files.write_json(str(folder / "spec.json"), asked)
        return self.again(folder)

    def again(self, folder: Path) -> Shim:
        """One more shim for a folder."""
        shim = Shim(folder, self.environment())
        self._shims.append(shim)
        return shim

    def left(self) -> list[processes.Process]:
        """Living processes that come from this test, found independently of marks."""
        return started_with(f"{TOKEN}={self.token}")

    def close(self) -> list[processes.Process]:
        """End everything; who was left that should not have been."""
        for shim in self._shims:
            shim.close()
        left = self.left()
        for process in left:
            processes.send_signal(process, signal.SIGKILL)
        self.events.close()
        return left


def gone(process: processes.Process) -> bool:
    """Whether that very process has ended."""
    now = processes.read_process(process.pid)
    return now is None or now.key != process.key or now.zombie

"""Restarts of the real program: the lock across `exec`, kills in every stage, updates that fail."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from service_program import PATIENCE, Program

from hostler.clock import SystemClock
from hostler.errors import HomeLocked
from hostler.store import open_store
from hostler.store.engine.locks import HomeLock, who_works
from hostler.store.operator import RESTART, Operation, find_operation
from hostler_program import HOSTLER

# Works until its folder has a file `go`, then says that it is done.
AGENT = """
import os, pathlib, time
while not pathlib.Path("go").exists():
    time.sleep(0.02)
pathlib.Path(os.environ["HOSTLER_TASK_DIR"], "DONE").touch()
"""


class Lone(Program):
    """A service without repositories: only tasks by hand."""

    more = ""
    relative = False

    def argv(self, *words: str) -> list[str]:
        if not self.relative:
            return super().argv(*words)
        home, config = self.home.name, self.config.name
        return [HOSTLER, "--home", home, "--config", config, *words]

    def settings(self) -> str:
        return f"""
[runtime]
stop_grace_seconds = 2
memory_floor_mb = 0
{self.more}
[agent.helper]
kind = "command"
command = ["{sys.executable}", "{self.root}/agent.py"]
pool = "p"
"""

    def rewrite(self, more: str) -> None:
        self.more = more
        self.config.write_text(self.settings())

    def submit(self) -> None:
        (self.root / "work").mkdir(exist_ok=True)
        said = self.call("task", "submit", "Tidy up.", "--cwd", str(self.root / "work"))
        assert said.returncode == 0, said.stderr

    def let_go(self) -> None:
        (self.root / "work" / "go").touch()

    def operation(self) -> Operation | None:
        store = open_store(self.home)
        try:
            with store.read() as tx:
                return find_operation(tx, RESTART)
        finally:
            store.close()

    def where(self) -> tuple[str, str]:
        found = self.operation()
        assert found is not None
        return found.status.value, found.detail

    def events(self, name: str) -> list[dict[str, object]]:
        lines = [
            json.loads(line)
            for file in sorted((self.home / "logs").glob("*.jsonl"))
            for line in file.read_text().splitlines()
        ]
        return [line for line in lines if line["event"] == name]

    def running(self) -> bool:
        return any(run.state == "running" for run in self.live())


@pytest.fixture
def lone(tmp_path: Path, environment: dict[str, str]) -> Iterator[Lone]:
    (tmp_path / "agent.py").write_text(AGENT)
    made = Lone(None, tmp_path, "", environment)  # type: ignore[arg-type]
    yield made
    made.let_go() if (tmp_path / "work").exists() else None
    made.clean()


class Intruder:
    """Tries to get the lock of a home, again and again."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._over = threading.Event()
        self.tries = self.got = 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Intruder:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            self.tries += 1
            try:
                HomeLock.take(self._home, SystemClock()).release()
                self.got += 1
            except HomeLocked:
                self._over.wait(0.002)


def test_a_restart_replaces_the_program_and_nobody_gets_in_between(lone: Lone):
    # Paths that are not whole ones mean the same after it.
    lone.relative = True
    service = lone.start()
    lone.heard(service, "Watching")
    with Intruder(lone.home) as intruder:
        said = lone.call("service", "restart", "--wait", "--json")
        assert said.returncode == 0, said.stderr
        lone.heard(service, "Restarted: Hostler")
    assert (intruder.got, intruder.tries > 0) == (0, True)
    answer = json.loads(said.stdout)
    assert (answer["status"], answer["asked"]) == ("done", True)
    # The same process, another program, and the lock says what it is held for.
    assert len(lone.events("service_started")) == 2
    holder = who_works(lone.home)
    assert holder is not None and (holder.pid, holder.purpose) == (service.pid, "service")
    assert service.poll() is None
    words = Path(f"/proc/{service.pid}/cmdline").read_bytes().split(b"\0")
    assert str(lone.config).encode() in words and str(lone.home).encode() in words
    # What it starts must not believe that a lock was handed to it.
    names = Path(f"/proc/{service.pid}/environ").read_bytes()
    assert b"HOSTLER_INHERITED_LOCK" in names
    lone.submit()
    lone.until(lone.running, "an agent")
    (run,) = lone.live()
    shim = json.loads(run.shim or "{}")["pid"]
    assert b"HOSTLER_INHERITED_LOCK" not in Path(f"/proc/{shim}/environ").read_bytes()
    lone.end(service)
    assert service.returncode == 0 and who_works(lone.home) is None


@pytest.mark.long
def test_a_service_killed_while_it_drains_drains_on_and_its_agent_is_adopted(lone: Lone):
    service = lone.start()
    lone.heard(service, "Watching")
    lone.submit()
    lone.until(lone.running, "an agent")
    (before,) = lone.live()
    assert lone.call("service", "restart").returncode == 0
    second = lone.call("service", "restart", "--json")
    assert second.returncode == 0 and json.loads(second.stdout)["asked"] is False
    assert "already in progress" in second.stderr
    lone.until(lambda: lone.events("service_restart_drain_started"), "the drain")
    service.kill()
    service.wait()
    again = lone.start()
    lone.heard(again, "no new work starts, 1 task running")
    assert [run.run for run in lone.live()] == [before.run]
    lone.let_go()
    lone.heard(again, "Restarted: Hostler")
    operation = lone.operation()
    assert operation is not None and operation.status == "done"
    assert [task.state for task in lone.tasks()] == ["done"]
    lone.end(again)


def test_a_service_asked_to_leave_in_the_middle_of_its_update_leaves_and_the_next_tells(lone: Lone):
    lone.rewrite(f'restart_command = ["sh", "-c", "touch {lone.root}/begun; sleep 600"]\n')
    service = lone.start()
    lone.heard(service, "Watching")
    assert lone.call("service", "restart").returncode == 0
    lone.until(lambda: (lone.root / "begun").exists(), "the update")
    assert "Stopped." in lone.end(service)
    assert service.returncode == 0 and len(lone.events("service_started")) == 1
    # How far it came is known, and nobody has said that it was restarted.
    assert lone.where() == ("running", "update")
    again = lone.start()
    lone.heard(again, "The restart failed. The service ended before the update was made")
    assert lone.where()[0] == "failed"
    lone.end(again)
    assert not lone.events("service_restarted")


KILL = ["sh", "-c", "kill -9 $PPID"]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("commands", "failed"),
    [
        ({"restart_command": KILL}, "before the update was made"),
        (
            {"restart_command": ["false"], "restart_rollback_command": KILL},
            "before it was rolled back",
        ),
    ],
)
def test_a_service_that_its_own_commands_kill_comes_back_and_says_so(lone: Lone, commands, failed):
    lone.rewrite("".join(f"{key} = {json.dumps(words)}\n" for key, words in commands.items()))
    service = lone.start()
    lone.heard(service, "Watching")
    assert lone.call("service", "restart").returncode == 0
    assert service.wait(PATIENCE) == -signal.SIGKILL
    assert who_works(lone.home) is None
    again = lone.start()
    lone.heard(again, failed)
    lone.end(again)
    third = lone.start()
    lone.heard(third, "Watching")
    lone.end(third)
    assert len(lone.events("service_restart_failed")) == 1 and not lone.events("service_restarted")


BREAK = "cp {config} {config}.old && echo 'nonsense = 1' >> {config}"
MEND = "mv {config}.old {config}"


@pytest.mark.long
def test_an_update_that_does_not_pass_its_check_is_rolled_back(lone: Lone):
    words = {"config": lone.config}
    commands = {"restart_command": BREAK, "restart_rollback_command": MEND}
    lone.rewrite(
        "".join(
            f"{key} = {json.dumps(['sh', '-c', command.format(**words)])}\n"
            for key, command in commands.items()
        )
    )
    service = lone.start()
    lone.heard(service, "Watching")
    assert lone.call("service", "restart").returncode == 0
    lone.heard(service, "The restart failed.")
    operation = lone.operation()
    assert operation is not None and operation.status == "failed"
    assert "does not pass `hostler doctor --quick`. It was rolled back." in operation.detail
    # The version from before is at work, on the settings from before.
    lone.heard(service, "Watching")
    lone.until(lambda: len(lone.events("service_started")) == 2, "the start")
    assert lone.config.read_text() == lone.settings()
    steps = [(line["step"], line["exit_code"]) for line in lone.events("service_update")]
    assert steps[:3] == [("update", 0), ("check", 2), ("rollback", 0)]
    lone.end(service)
    assert service.returncode == 0


def test_a_restart_that_nobody_can_carry_out_is_refused(lone: Lone):
    lone.submit()
    said = lone.call("service", "restart")
    assert (said.returncode, "The service is not running." in said.stderr) == (1, True)
    assert lone.operation() is None


def test_a_changed_file_and_a_signal_are_taken_up_at_work(lone: Lone):
    service = lone.start()
    lone.heard(service, "Watching")
    lone.rewrite("worker_count = 7\nlog_retention_days = 3\n")
    lone.heard(service, "runtime.worker_count changed.")
    lone.heard(service, "Effective after a restart: runtime.log_retention_days.")
    lone.rewrite("worker_count = 0\n")
    service.send_signal(signal.SIGHUP)
    lone.heard(service, "Settings not reloaded.")
    assert service.poll() is None
    lone.end(service)
    assert service.returncode == 0


def test_once_ends_when_its_work_is_over(lone: Lone):
    lone.submit()
    lone.let_go()
    said = lone.call("service", "--once")
    assert said.returncode == 0, said.stderr
    assert "Polling once: no repository" in said.stdout and "Stopped." in said.stdout
    assert [task.state for task in lone.tasks()] == ["done"]

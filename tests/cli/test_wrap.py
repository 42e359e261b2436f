"""`hostler wrap`: the program's own terminal, signals and exit code; a place while it lives."""

from __future__ import annotations

import os
import pty
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from intake_yard import lay_database
from piped_commands import Piped

from hostler.governor.caps_file import set_caps
from hostler.governor.gates import LeaseGranted, LeaseRequest
from hostler.governor.holders import prune, read_host
from hostler.governor.leases import acquire, release_lease
from hostler.governor.policy import Policy
from hostler.store import open_store
from hostler.store.governor import all_demand, all_leases
from hostler_program import HOSTLER

POLICY = Policy(memory_floor_mb=0)


@pytest.fixture
def hostler(hostler_process):
    """Run the command in a process of its own, which the wrapped program replaces."""
    return hostler_process


@pytest.fixture
def stable(home):
    """A home with a database, and room for one."""
    lay_database(home)
    set_caps(home, "anthropic", {"max_global_agents": 1})
    (home / "hostler.toml").write_text("[runtime]\nmemory_floor_mb = 0\n")
    return home


@pytest.fixture
def store(stable):
    with closing(open_store(stable)) as opened:
        yield opened


@pytest.fixture
def start(environment, tmp_path) -> Iterator[Callable[..., Piped]]:
    """Start the command; it is ended after the test."""
    started = []

    def run(*argv, **env):
        process = Piped(["wrap", *argv], cwd=tmp_path, env={**environment, **env})
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def up(wrapped):
    """Wait until a wrapped `cat` runs."""
    wrapped.stdin.write(b"up\n")
    wrapped.stdin.flush()
    assert wrapped.stdout.readline() == b"up\n"
    return wrapped


def leases(store):
    with store.read() as tx:
        return all_leases(tx)


def wishes(store):
    with store.read() as tx:
        return all_demand(tx)


def fill(store):
    with store.write("admission") as tx:
        ours = acquire(tx, LeaseRequest("ours", "other"), POLICY, read_host())
    assert isinstance(ours, LeaseGranted)


def empty(store):
    with store.write("admission") as tx:
        release_lease(tx, "ours")


def test_the_program_holds_the_place_itself_and_its_death_gives_it_back(store, start):
    wrapped = up(start("--project", "ant", "--", "cat"))
    (lease,) = leases(store)
    assert (lease.project, lease.pool, lease.program) == ("ant", "anthropic", "cat")
    assert lease.holder.pid == wrapped.pid
    with store.write("admission") as tx:
        refused = acquire(
            tx, LeaseRequest("x", "bee"), Policy(default_cap=1, memory_floor_mb=0), read_host()
        )
        assert refused.gate == "cap"
    wrapped.kill()
    wrapped.wait()
    with store.write("admission") as tx:
        assert isinstance(
            acquire(
                tx, LeaseRequest("x", "bee"), Policy(default_cap=1, memory_floor_mb=0), read_host()
            ),
            LeaseGranted,
        )


@pytest.mark.parametrize("code", [0, 1, 3, 200])
def test_the_exit_code_is_the_programs_own(stable, hostler, code):
    assert hostler("wrap", "--", "sh", "-c", f"exit {code}").code == code


def test_arguments_streams_and_folder_are_the_programs_own(stable, hostler):
    done = hostler("wrap", "sh", "-c", 'echo "$0|$1|$2"; pwd; cat; echo err >&2', "--help", "--",
                   "a b", stdin="in")  # fmt: skip
    said = done.out.splitlines()
    assert said[0] == "--help|--|a b"
    assert said[1].endswith("/cwd")
    assert said[2] == "in"
    assert done.err == "err\n"


def test_signals_reach_the_program_with_their_usual_meaning(stable, start):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        wrapped = up(start("--", "cat"))
        wrapped.send_signal(number)
        assert wrapped.wait(30) == -number


def test_a_pipe_that_closes_ends_the_program_as_it_would_in_a_shell(stable, start):
    wrapped = start("--", "yes")
    assert wrapped.stdout.readline() == b"y\n"
    wrapped.stdout.close()
    assert wrapped.wait(30) == -signal.SIGPIPE


TERMINAL = """
import os, signal, sys
def say(*words):
    os.write(1, (" ".join(map(str, words)) + chr(10)).encode())
def heard(number, frame):
    say("heard", signal.Signals(number).name)
    if number == signal.SIGINT:
        sys.exit(7)
for one in (signal.SIGINT, signal.SIGWINCH):
    signal.signal(one, heard)
say("tty", *(os.isatty(fd) for fd in (0, 1, 2)), os.tcgetpgrp(0) == os.getpgrp(), "ready")
while True:
    signal.pause()
"""


class Terminal:
    """A real one, with somebody at its other end."""

    def __init__(self, argv, environment, folder):
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(argv[0], argv, environment)
        self.heard = ""

    def hear(self, word: str) -> str:
        while word not in self.heard:
            try:
                more = os.read(self.end, 4096)
            except OSError:
                more = b""
            assert more, f"never heard {word!r} in {self.heard!r}"
            self.heard += more.decode()
        return self.heard

    def type(self, keys: bytes) -> None:
        os.write(self.end, keys)

    def code(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def terminal(environment, tmp_path):
    opened = []

    def run(*argv):
        opened.append(Terminal([HOSTLER, "wrap", *argv], environment, tmp_path))
        return opened[-1]

    yield run
    for one in opened:
        os.close(one.end)


def test_the_terminal_is_the_programs_own(stable, terminal):
    import fcntl
    import struct
    import termios

    seat = terminal("--", sys.executable, "-c", TERMINAL)
    assert "tty True True True True" in seat.hear("ready")
    fcntl.ioctl(seat.end, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
    seat.hear("heard SIGWINCH")
    seat.type(b"\x03")
    seat.hear("heard SIGINT")
    assert seat.code() == 7


def test_ctrl_c_ends_the_wait_and_leaves_no_wish(store, terminal):
    fill(store)
    seat = terminal("--", "true")
    said = seat.hear("Waiting for a slot")
    assert "1 of 1 agents of pool anthropic are running." in said
    assert len(wishes(store)) == 1
    seat.type(b"\x03")
    assert seat.code() == 130
    assert wishes(store) == []
    assert [lease.lease for lease in leases(store)] == ["ours"]


def test_it_waits_until_a_place_is_given_back(store, start):
    fill(store)
    waiting = start("--project", "ant", "--", "echo", "there")
    assert b"Waiting for a slot" in waiting.stderr.readline()
    (wish,) = wishes(store)
    assert (wish.project, wish.wanted, wish.holder.pid) == ("ant", 1, waiting.pid)
    empty(store)
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out, err) == (0, b"there\n", b"")
    assert wishes(store) == []


def test_it_waits_until_a_holder_has_died(store, start):
    first = up(start("--", "cat"))
    second = start("--", "echo", "there")
    assert b"Waiting for a slot" in second.stderr.readline()
    first.kill()
    first.wait()
    out, _ = second.communicate(timeout=60)
    assert (second.returncode, out) == (0, b"there\n")


def test_it_waits_until_the_operator_allows_more(store, start, hostler):
    fill(store)
    waiting = start("--", "echo", "there")
    waiting.stderr.readline()
    hostler("governor", "set", "--max-global", "2")
    out, _ = waiting.communicate(timeout=60)
    assert (waiting.returncode, out) == (0, b"there\n")


def test_a_wait_that_is_killed_leaves_nothing_behind(store, start):
    fill(store)
    waiting = start("--project", "ant", "--", "true")
    waiting.stderr.readline()
    waiting.kill()
    waiting.wait()
    with store.write("admission") as tx:
        prune(tx, POLICY, read_host())
        assert all_demand(tx) == []
        assert [lease.lease for lease in all_leases(tx)] == ["ours"]


def test_without_waiting_there_is_a_code_and_a_reason(store, hostler):
    fill(store)
    done = hostler("wrap", "--no-wait", "--", "echo", "never")
    assert done.code == 75
    assert "1 of 1 agents of pool anthropic are running." in done.err
    assert done.out == ""
    assert wishes(store) == []
    empty(store)
    assert hostler("wrap", "--no-wait", "--", "echo", "now").out == "now\n"


def test_a_program_that_is_not_there_takes_no_place(stable, hostler, store, tmp_path):
    done = hostler("wrap", "--", "no-such-program", "x")
    assert (done.code, done.out) == (127, "")
    assert "no-such-program was not found" in done.err
    plain = tmp_path / "plain"
    plain.write_text("")
    assert hostler("wrap", "--", plain).code == 126
    assert leases(store) == []


def test_a_program_that_cannot_be_started_gives_its_place_back(hostler, store, tmp_path):
    wrong = tmp_path / "wrong"
    wrong.write_bytes(b"\x00\x01no program")
    wrong.chmod(0o755)
    done = hostler("wrap", "--", wrong)
    assert done.code == 126
    assert "could not be started" in done.err
    assert leases(store) == []


def test_the_project_is_named_or_inherited_or_the_folder(store, start, tmp_path):
    def project(*options, **env):
        wrapped = up(start(*options, "--", "cat", **env))
        (lease,) = leases(store)
        wrapped.kill()
        wrapped.wait()
        return lease.project

    assert project() == tmp_path.name
    assert project(HOSTLER_PROJECT="from-a-run") == "from-a-run"
    assert project("--project", "named", HOSTLER_PROJECT="from-a-run") == "named"


def test_a_known_project_keeps_to_its_width(hostler, home, stable, store):
    (home / "hostler.toml").write_text(
        "[runtime]\nmemory_floor_mb = 0\n"
        '[repo.ant]\nowner = "o"\nname = "n"\nmax_concurrent_slots = 1\n'
    )
    with store.write("admission") as tx:
        acquire(tx, LeaseRequest("x", "ant", "openai"), POLICY, read_host())
    done = hostler("wrap", "--no-wait", "--project", "ant", "--", "true")
    assert done.code == 75
    assert "Project ant runs 1 of its 1 agents." in done.err
    assert hostler("wrap", "--no-wait", "--project", "bee", "--", "true").code == 0


def test_the_first_wrap_makes_the_database(hostler, home):
    assert hostler("wrap", "--", "echo", "hi").out == "hi\n"
    assert (home / "hostler.db").exists()


@pytest.mark.parametrize(
    "argv", [[], ["--provider", "a b", "--", "true"], ["--project", "\x07", "--", "true"]]
)
def test_bad_usage_gets_a_line_and_a_code(hostler, argv):
    done = hostler("wrap", *argv)
    assert done.code == 2
    assert done.err and "Traceback" not in done.err


def test_damaged_caps_start_nothing(hostler, home, stable):
    (home / "governor.json").write_text("{")
    done = hostler("wrap", "--", "echo", "never")
    assert (done.code, done.out) == (2, "")
    assert "governor.json" in done.err

"""One service, upgrade or restore per home."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from children import Child

from hostler.clock import FakeClock, SystemClock
from hostler.errors import HomeLocked, StoreReadOnly
from hostler.store.engine.locks import FILE_NAME, HomeLock, home_lock, read_holder, who_works

REPLACE = """
import os, sys
from pathlib import Path
from hostler.clock import SystemClock
from hostler.store.engine.locks import HomeLock
home = Path(sys.argv[1])
if len(sys.argv) == 2:
    descriptor = HomeLock.take(home, SystemClock()).hand_over()
    again = [sys.executable, "-c", os.environ["SCRIPT"], str(home), str(descriptor)]
    os.execv(sys.executable, again)
lock = HomeLock.inherit(home, int(sys.argv[2]), SystemClock())
print("held", os.get_inheritable(int(sys.argv[2])), flush=True)
sys.stdin.readline()
lock.release()
print("released", flush=True)
sys.stdin.readline()
"""


def hold(pipe, home):
    with home_lock(home, SystemClock()):
        pipe.send("held")
        pipe.recv()


def test_the_second_is_told_who_the_first_is(home):
    child = Child(hold, home)
    assert child.hear() == "held"
    with pytest.raises(HomeLocked) as caught, home_lock(home, FakeClock()):
        pass
    assert caught.value.holder.pid == child.process.pid
    child.tell()
    child.join()
    with home_lock(home, FakeClock()):
        assert read_holder(home / FILE_NAME).pid == os.getpid()
    assert read_holder(home / FILE_NAME) is None


def test_anybody_can_ask_who_works_here_and_disturbs_nobody(home):
    assert who_works(home) is None
    child = Child(hold, home)
    assert child.hear() == "held"
    assert who_works(home).pid == child.process.pid
    child.kill()
    assert who_works(home) is None
    with home_lock(home, FakeClock(), "service"):
        assert (who_works(home).pid, who_works(home).purpose) == (os.getpid(), "service")
        assert "service (pid" in str(who_works(home))


def test_who_asks_keeps_nobody_out(home):
    """Others look all the time; the lock can be taken between any two looks."""
    home.mkdir()
    child = Child(look_on, home)
    assert child.hear() == "looking"
    for _ in range(200):
        with home_lock(home, SystemClock()):
            pass
    child.kill()


def look_on(pipe, home):
    pipe.send("looking")
    while True:
        who_works(home)


def test_a_killed_holder_holds_nothing(home):
    child = Child(hold, home)
    child.hear()
    child.kill()
    with home_lock(home, FakeClock()):
        pass


def test_one_process_does_not_take_it_twice(home):
    with home_lock(home, FakeClock()), pytest.raises(HomeLocked), home_lock(home, FakeClock()):
        pass


def test_a_program_that_replaces_itself_keeps_it(home):
    program = subprocess.Popen(
        [sys.executable, "-c", REPLACE, home],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "SCRIPT": REPLACE},
    )
    with program:
        assert program.stdout.readline() == "held False\n"
        with pytest.raises(HomeLocked) as caught:
            HomeLock.take(home, FakeClock())
        assert caught.value.holder.pid == program.pid
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.stdout.readline() == "released\n"
        HomeLock.take(home, FakeClock()).release()
        program.stdin.write("\n")


def test_a_descriptor_of_another_file_is_not_believed(home, tmp_path):
    HomeLock.take(home, FakeClock()).release()
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    with pytest.raises(HomeLocked):
        HomeLock.inherit(home, other, FakeClock())


def test_a_child_started_meanwhile_does_not_keep_it(home):
    lock = HomeLock.take(home, FakeClock())
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    reader, writer = os.pipe()
    forked = os.fork()
    if forked == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    lock.release()
    HomeLock.take(home, FakeClock()).release()
    os.close(writer)
    os.close(reader)
    os.waitpid(forked, 0)
    child.communicate(b"\n")


def test_releasing_twice_is_harmless(home):
    lock = HomeLock.take(home, FakeClock())
    lock.release()
    lock.release()


def test_a_lock_file_that_was_removed_meanwhile_is_not_trusted(home, monkeypatch):
    lock = HomeLock.take(home, FakeClock())
    (home / FILE_NAME).unlink()
    second = HomeLock.take(home, FakeClock())
    with pytest.raises(HomeLocked):
        HomeLock.take(home, FakeClock())
    second.release()
    lock.release()


def test_a_home_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreReadOnly, match="file"):
        HomeLock.take(tmp_path / "file" / "home", FakeClock())


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"pid": "x"}', b"\xff\xfe"])
def test_a_holder_that_cannot_be_read_is_just_another_process(tmp_path, content):
    (tmp_path / "lock").write_bytes(content)
    assert read_holder(tmp_path / "lock") is None
    assert read_holder(tmp_path / "missing") is None


def test_a_copy_of_the_descriptor_that_no_hook_closes_does_not_keep_it(home):
    lock = HomeLock.take(home, FakeClock())
    copy = os.dup(lock.hand_over())
    lock.release()
    HomeLock.take(home, FakeClock()).release()
    os.close(copy)

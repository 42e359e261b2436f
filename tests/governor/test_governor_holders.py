"""Whether a holder lives, on real processes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import replace

import pytest

from hostler.governor import holders
from hostler.governor.holders import current_holder, free_memory_mb, holder_of, is_alive, read_host
from hostler.shim import processes
from hostler.store.governor import Holder


@pytest.fixture
def child():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process


def of(pid: int) -> Holder:
    return replace(current_holder(), pid=pid, start_ticks=processes.read_process(pid).ticks)


def test_we_live():
    host = read_host()
    assert host.is_alive(host.holder) is True
    assert host.holder.pid == os.getpid()


def test_a_process_is_dead_when_it_has_ended_also_before_it_is_reaped(child):
    holder = of(child.pid)
    assert is_alive(holder) is True
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_alive(holder) is False  # a zombie
    child.wait()
    assert is_alive(holder) is False


def test_a_pid_that_passed_on_is_dead(child):
    assert is_alive(replace(of(child.pid), start_ticks=1)) is False


def test_another_boot_of_this_host_is_dead_and_another_host_is_unknown():
    assert is_alive(replace(current_holder(), boot_id="before")) is False
    assert is_alive(replace(current_holder(), host="elsewhere", boot_id="theirs")) is None
    assert is_alive(replace(current_holder(), pid_namespace="pid:[1]")) is None


@pytest.mark.parametrize("missing", [{"host": ""}, {"boot_id": ""}])
def test_without_an_identity_nobody_knows(missing):
    assert is_alive(replace(current_holder(), **missing)) is None
    assert is_alive(Holder()) is None


def test_the_identity_stays_when_a_program_replaces_itself():
    code = "import os; os.read(0, 1); os.execvp('cat', ['cat'])"
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        holder = of(process.pid)
        process.stdin.write(b"!hello\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"hello\n"
        assert is_alive(holder) is True
        process.stdin.close()
    assert is_alive(holder) is False


def test_without_descriptors_nobody_is_taken_for_dead(child):
    holder, gone = of(child.pid), replace(current_holder(), pid=2**22 + 1)
    assert is_alive(holder) is True
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        assert is_alive(holder) is True
        assert is_alive(replace(holder, boot_id="never asked for")) is True
        assert is_alive(gone) is False
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_an_identity_is_whole_or_none():
    mine = processes.current_identity()
    assert holder_of({**mine, "mark": "x"}) == current_holder()
    for name in mine:
        assert holder_of({key: value for key, value in mine.items() if key != name}) is None
        assert holder_of({**mine, name: None}) is None
    assert holder_of({**mine, "pid": 0}) is None


def test_memory_is_read_from_the_kernel_or_elsewhere(monkeypatch, tmp_path):
    assert free_memory_mb() > 0
    told = tmp_path / "meminfo"
    told.write_text("MemTotal: 9 kB\nMemAvailable:    2097152 kB\n")
    monkeypatch.setattr(holders, "MEMINFO", told)
    assert free_memory_mb() == 2048
    told.write_text("MemTotal: 9 kB\n")
    assert free_memory_mb() > 0


def test_who_has_no_identity_still_has_a_name(monkeypatch):
    def unknown():
        raise OSError("/proc does not know this process")

    monkeypatch.setattr(processes, "current_identity", unknown)
    assert current_holder() == Holder(host=os.uname().nodename, pid=os.getpid())
    assert is_alive(current_holder()) is None

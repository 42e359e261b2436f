"""Disks that are full or read-only, and names that are no plain files."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import subprocess
import sys
from functools import cache

import pytest
from bus_fixture import AGENT, INFO, PATIENCE, every_line_is_json, post_many

from hostler.bus.bus import Bus, open_project_bus, open_task_bus
from hostler.bus.errors import BusFull, BusMissing, BusUnsynced, BusUnusable
from hostler.bus.writer import BusOptions
from missing_tools import skip_without


@cache
def can_mount() -> bool:
    try:
        probe = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
        return subprocess.run(probe, capture_output=True, timeout=PATIENCE).returncode == 0
    except OSError:
        return False


# Runs in a mount namespace of its own, on a small disk.
SCENE = """
import json, os, subprocess, sys
from pathlib import Path
from hostler.bus.bus import Bus
from hostler.bus.message import MessageSender, MessageType
from hostler.bus.writer import BusOptions
from hostler.bus.errors import BusError, BusFull

place, size = Path(sys.argv[1]), int(sys.argv[2])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(place)], check=True)
bus = Bus(place / "bus.jsonl", options=BusOptions(max_bytes=size))
reader = bus.follower("")
said, refused = [], 0

def post(text):
    global refused
    try:
        said.append(bus.post(MessageType.INFO, text, MessageSender.service()).id)
    except BusFull:
        refused += 1

filler = place / "filler"
filler.write_bytes(bytes(100_000))
while refused < 3:
    post("x" * 3000)
free = os.statvfs(place).f_bavail
seen = [message.id for message in reader.new()]
assert [message.id for message in bus.since()] == seen == said, "what was told is there"
filler.unlink()
post("after")
# As a bind mount: its own options name users that this namespace may not know.
subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)
try:
    bus.post(MessageType.INFO, "never", MessageSender.service())
except BusError as error:
    read_only = error.what
seen += [message.id for message in reader.new()]
assert [message.id for message in bus.since()] == seen == said
lines = [line for file in place.glob("*.jsonl") for line in file.read_bytes().splitlines()]
whole = [json.loads(line) for line in lines]
print(json.dumps([len(said), refused, free, read_only, sum(1 for one in whole if not one)]))
"""


@pytest.mark.parametrize("max_bytes", [10**6, 20_000])
def test_a_full_disk_loses_and_tears_nothing(tmp_path, max_bytes):
    if not can_mount():
        skip_without("root", "neither root nor user namespaces may mount a tmpfs here")
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["unshare", "-rm", sys.executable, "-c", SCENE, str(place), str(max_bytes)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    said, refused, free, read_only, mended = json.loads(done.stdout)
    assert said > 20
    assert refused == 3
    assert free == 0, "the disk was really full"
    assert "Read-only" in read_only
    assert mended <= 1


def test_a_line_that_fits_in_part_is_covered_at_once(bus, path, monkeypatch):
    """Only its newline does not fit: it must not become a message after all."""
    bus.post(INFO, "first", AGENT)
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:-1]))
    with pytest.raises(BusFull):
        bus.post(INFO, "refused", AGENT)
    monkeypatch.undo()
    bus.post(INFO, "second", AGENT)
    assert [message.body for message in bus.since()] == ["first", "second"]
    assert every_line_is_json(path)


def test_a_mended_line_whose_newline_does_not_fit_takes_no_message_with_it(bus, path, monkeypatch):
    bus.post(INFO, "first", AGENT)
    with path.open("ab") as file:
        file.write(b'{"id":"torn')
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, place: real(file, data[:-1], place))
    with pytest.raises(BusFull):
        bus.post(INFO, "refused", AGENT)
    monkeypatch.undo()
    bus.post(INFO, "second", AGENT)
    assert [message.body for message in bus.since()] == ["first", "second"]
    assert every_line_is_json(path)


def test_a_full_disk_is_told_with_what_to_do(bus, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(BusFull) as caught:
        bus.post(INFO, "x", AGENT)
    assert caught.value.safe and caught.value.remedy


def link(path):
    target = path.with_name("precious")
    target.write_text("keep\n")
    path.symlink_to(target)


def dangling_link(path):
    path.symlink_to(path.with_name("precious"))


def socket_file(path):
    # The path may be longer than the address of a socket can be.
    os.mknod(path, stat.S_IFSOCK | 0o600)


@pytest.mark.parametrize(
    "make",
    [link, dangling_link, lambda path: path.mkdir(), lambda path: os.mkfifo(path), socket_file],
    ids=["link", "dangling link", "folder", "pipe", "socket"],
)
def test_what_is_no_plain_file_is_neither_written_nor_read(bus, path, make):
    make(path)
    for use in (
        lambda: bus.post(INFO, "x", AGENT),
        lambda: bus.since(),
        lambda: bus.tail(1),
        lambda: bus.stats(),
        lambda: list(bus.follower("").new()),
    ):
        with pytest.raises(BusUnusable):
            use()
    precious = path.with_name("precious")
    assert not precious.exists() or precious.read_text() == "keep\n"


def test_a_strange_old_file_is_passed_over(path):
    bus = Bus(path, options=BusOptions(max_bytes=500))
    said = post_many(bus, 10)
    first = sorted(path.parent.glob("bus.*.jsonl"))[0]
    os.mkfifo(path.with_name("bus.20000101-000000-000000.jsonl"))
    path.with_name("bus.nonsense.jsonl").write_text("x")
    assert list(bus.since()) == list(bus.tail(99)) == said
    first.unlink()
    assert list(bus.since()) == said[len(said) - len(bus.since()) :]


def test_a_removed_folder_is_told_and_not_brought_back(home):
    bus = open_task_bus(home, "stable", "t1").create()
    bus.post(INFO, "x", AGENT)
    bus.path.unlink()
    bus.path.parent.rmdir()
    with pytest.raises(BusMissing):
        bus.post(INFO, "y", AGENT)
    assert not bus.path.parent.exists()
    assert list(bus.since()) == list(bus.tail(5)) == []


def test_folders_and_files_are_ours_alone(home):
    old = os.umask(0)
    try:
        bus = open_task_bus(home, "stable", "t1").create()
        bus.create()
        bus.post(INFO, "x", AGENT)
        open_project_bus(home, "stable").post(INFO, "x", AGENT)
    finally:
        os.umask(old)
    for folder in (home, home / "projects/stable", bus.path.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(bus.path.stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "projects").write_text("a file")
    with pytest.raises((BusUnusable, BusMissing)):
        open_project_bus(tmp_path, "stable").create()


def test_a_file_removed_under_a_writer_begins_anew_with_later_ids(bus, path):
    before = post_many(bus, 3)
    follower = bus.follower("")
    assert list(follower.new()) == before
    path.unlink()
    after = post_many(bus, 2)
    assert after[0].id > before[-1].id
    assert list(bus.since()) == after
    assert list(follower.new()) == after


def test_synced_messages_are_synced_after_the_lock_is_let_go(path, monkeypatch):
    synced = []

    def look(descriptor):
        other = os.open(path, os.O_RDWR)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises where it is still held
        os.close(other)
        synced.append(os.fstat(descriptor).st_size)

    folders = []
    monkeypatch.setattr(os, "fdatasync", look)
    monkeypatch.setattr(os, "fsync", folders.append)
    bus = Bus(path, options=BusOptions(sync=True))
    sizes = []
    for _ in range(3):
        bus.post(INFO, "x", AGENT)
        sizes.append(path.stat().st_size)
    assert synced == sizes
    assert len(folders) == 1, "the name of a new file is synced once"
    Bus(path).post(INFO, "x", AGENT)
    assert synced == sizes, "not asked for, not done"


def test_a_disk_that_does_not_confirm_is_told_and_the_message_is_there(path, monkeypatch):
    def broken(_descriptor):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", broken)
    bus = Bus(path, options=BusOptions(sync=True))
    with pytest.raises(BusUnsynced) as caught:
        bus.post(INFO, "x", AGENT)
    assert bus.get(caught.value.message_id).body == "x"
    assert "can be read" in caught.value.safe

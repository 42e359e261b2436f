"""A settings file is changed whole or not at all."""

from __future__ import annotations

import fcntl
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from file_rights import holds_without_rights
from hostler.clock import FakeClock, SystemClock
from hostler.config.editor import LOCK_TIMEOUT_SECONDS, add_table, preview_edit, rewrite_file
from hostler.config.loader import read_settings
from hostler.errors import ConfigError, HostlerError

TEXT = "# mine\n[runtime]\nworker_count = 2\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "folder" / "hostler.toml"
    path.parent.mkdir()
    path.write_text(TEXT)
    return path


def adding(name):
    return lambda text: add_table(text, "repo", name, {"owner": "octo", "name": name})


def change(path, edit):
    return rewrite_file(path, edit, SystemClock())


def alone(path):
    """The file is all that is in its folder."""
    return [one.name for one in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o640])
def test_the_text_changes_and_the_mode_stays(file, mode):
    file.chmod(mode)
    assert change(file, adding("new"))
    assert file.read_text().startswith(TEXT) and "new" in read_settings(file).settings.repo
    assert file.stat().st_mode & 0o7777 == mode
    assert alone(file)


def test_a_link_is_followed_and_stays_a_link(file, tmp_path):
    link, another = tmp_path / "hostler.toml", tmp_path / "other.toml"
    link.symlink_to(another)
    another.symlink_to(file)
    assert change(link, adding("new"))
    assert link.is_symlink() and another.is_symlink()
    assert "new" in read_settings(file).settings.repo
    assert alone(file)


def test_a_byte_order_mark_and_line_ends_stay(file):
    content = b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode()
    file.write_bytes(content)
    change(file, adding("new"))
    assert file.read_bytes().startswith(content)
    assert read_settings(file).settings.repo["new"].owner == "octo"


def test_nothing_is_written_where_nothing_changes(file):
    before = file.stat()
    assert not change(file, lambda text: text)
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_text_with_mistakes_is_never_written(file):
    for act in (change, preview_edit):
        with pytest.raises(ConfigError) as caught:
            act(file, lambda text: text + "nonsense = 1\n")
        assert caught.value.path == file
    assert file.read_text() == TEXT and alone(file)


def test_a_preview_writes_nothing(file):
    preview_edit(file, adding("new"))
    assert file.read_text() == TEXT and alone(file)


def test_what_somebody_else_saved_meanwhile_is_kept(file):
    def slow(text):
        file.write_text("# theirs\n")
        return adding("new")(text)

    with pytest.raises(HostlerError, match="another program"):
        change(file, slow)
    assert file.read_text() == "# theirs\n" and alone(file)


def test_what_a_killed_one_left_is_in_nobodys_way(file):
    left = file.with_name(".hostler.toml.hostler-new")
    left.write_text("half of it")
    left.chmod(0o400)
    assert change(file, adding("new")) and alone(file)


def test_many_at_once_lose_nothing(file):
    names = [f"r{number}" for number in range(12)]
    ready = threading.Barrier(len(names))

    def work(name):
        ready.wait()
        return change(file, adding(name))

    with ThreadPoolExecutor(len(names)) as pool:
        assert all(pool.map(work, names))
    assert sorted(read_settings(file).settings.repo) == sorted(names)


def test_one_who_keeps_the_lock_is_not_waited_for_for_ever(file):
    clock = FakeClock()
    holder = os.open(file.parent, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(rewrite_file, file, adding("new"), clock)
        clock.wait_for_waiters()
        clock.advance(LOCK_TIMEOUT_SECONDS)
        with pytest.raises(HostlerError, match="keeps changing"):
            waiting.result()
    os.close(holder)
    assert file.read_text() == TEXT


@pytest.mark.parametrize("wrong", ["missing", "loop", "folder", "bytes"])
def test_what_cannot_be_read_is_told_in_words(file, wrong):
    file.unlink()
    if wrong == "loop":
        file.symlink_to(file)
    elif wrong == "folder":
        file.mkdir()
    elif wrong == "bytes":
        file.write_bytes(b"a = \xff")
    with pytest.raises(HostlerError) as caught:
        change(file, adding("new"))
    assert str(file) in caught.value.what and caught.value.safe


def refused(path):
    """Return whether a process without root's rights is told that it cannot change a file."""
    try:
        change(path, adding("new"))
    except HostlerError as error:
        assert "Cannot change" in error.what
        return True
    return False


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_is_read_only_stays_as_it_is(file, what):
    place = file if what == "file" else file.parent
    mode = place.stat().st_mode
    place.chmod(0o400 if what == "file" else 0o500)
    assert holds_without_rights(lambda: refused(file))
    place.chmod(mode)
    assert not holds_without_rights(lambda: refused(file))

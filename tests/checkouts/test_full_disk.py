"""A disk without space: a clear error, nothing by halves, and everything well afterwards."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkout_fixture import ANN, BRANCH, RepoFixture

from hostler.checkouts.checkout import CheckoutLocation, fetch_task_head
from hostler.checkouts.commits import commit_all
from hostler.checkouts.errors import DiskFull
from hostler.checkouts.mirror import Mirror, fetch_mirror, open_mirror
from hostler.checkouts.preparation import CheckoutPlan, ensure_checkout
from hostler.model import RepoName
from missing_tools import skip_without


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", path], capture_output=True
    )
    if mounted.returncode:
        skip_without("root", "file systems cannot be mounted here")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def fill(disk: Path) -> Path:
    """Take all the space that is left."""
    file = disk / "filler"
    with file.open("wb", buffering=0) as filler:
        for size in (65_536, 512, 1):
            while True:
                try:
                    if filler.write(b"x" * size) < size:
                        break
                except OSError as error:
                    assert error.errno == errno.ENOSPC
                    break
    return file


def test_a_full_disk_is_said_so_and_the_work_goes_on_when_there_is_space(
    repo_fixture: RepoFixture, small_disk: Path
) -> None:
    mirror: Mirror = open_mirror(small_disk, RepoName("octo", "stable"))
    fetch_mirror(mirror, repo_fixture.remote)
    place = CheckoutLocation(repo_fixture.root / "checkouts", "stable", "t9")
    checkout = ensure_checkout(
        place, mirror, repo_fixture.remote, CheckoutPlan(BRANCH, "main", ANN)
    ).checkout
    (checkout.path / "work").write_bytes(os.urandom(200_000))
    filler = fill(small_disk)
    with pytest.raises(DiskFull) as full:
        commit_all(checkout, "Work", ANN)
    assert full.value.remedy
    assert (checkout.path / "work").exists()
    filler.unlink()
    head = commit_all(checkout, "Work", ANN).head
    assert fetch_task_head(checkout) == head

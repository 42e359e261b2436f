"""Setup and required tests: their environment, their output, their time, their children."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hostler.checkouts import commands, process
from hostler.checkouts.checkout import Checkout
from hostler.checkouts.commands import CommandEnd, run_command, run_setup, run_tests
from hostler.telemetry.redaction import REDACTED, register_secret, unregister_secret

ENV = {"PATH": os.environ["PATH"], "LANG": "C"}


@pytest.fixture
def alive(tmp_path: Path) -> Path:
    """A FIFO: its reader sees the end when the last process that holds it is gone."""
    path = tmp_path / "alive"
    os.mkfifo(path)
    return path


def wait_until_gone(alive: Path, command: str, cwd: Path, seconds: float) -> CommandEnd:
    reading = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
    try:
        ending = run_command(command, cwd, ENV, seconds=seconds).ending
        os.set_blocking(reading, True)
        assert os.read(reading, 1) == b""
    finally:
        os.close(reading)
    return ending


def test_a_command_sees_its_environment_and_nothing_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "hush-hush")
    seen = run_command("env; pwd", tmp_path, {**ENV, "MINE": "yes"}, seconds=60)
    assert seen.passed and seen.code == 0
    assert "MINE=yes" in seen.tail and str(tmp_path) in seen.tail
    assert "hush-hush" not in seen.tail and "HOSTLER_HOME" not in seen.tail


def test_tests_run_in_order_up_to_the_first_that_fails(tmp_path: Path) -> None:
    asked = ["echo one", "echo two >&2; exit 4", "touch three"]
    first, second = run_tests(asked, tmp_path, ENV, seconds=60)
    assert (first.ending, first.tail) == (CommandEnd.PASSED, "one\n")
    assert (second.ending, second.code, second.tail) == (CommandEnd.FAILED, 4, "two\n")
    assert not (tmp_path / "three").exists()
    assert run_tests([], tmp_path, ENV, seconds=60) == ()


def test_the_end_of_a_long_output_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MAX_OUTPUT_TAIL_BYTES", 1000)
    seen = run_command("yes noise | head -c 5000000; echo; echo the end", tmp_path, ENV, seconds=60)
    assert len(seen.tail) == 1000 and seen.tail.endswith("\nthe end\n")


def test_a_secret_that_a_command_tells_is_hidden(tmp_path: Path) -> None:
    secret = "a-secret-of-ours"
    register_secret(secret)
    try:
        seen = run_command(f"echo it is {secret}; exit 1", tmp_path, ENV, seconds=60)
    finally:
        unregister_secret(secret)
    assert seen.tail == f"it is {REDACTED}\n"


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    assert run_command(r"printf '\377\376ok'", tmp_path, ENV, seconds=60).tail.endswith("ok")


STRAYS = {
    "in the background": "sleep 600 &",
    "in a session of its own": "setsid sleep 600 &",
    "forked twice": "(setsid sh -c 'sleep 600 & sleep 600' &) &",
    "deaf to SIGTERM": "(trap '' TERM; sleep 600; sleep 600) &",
}


@pytest.mark.parametrize("kind", STRAYS)
def test_what_a_command_leaves_running_ends_with_it(
    kind: str, tmp_path: Path, alive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.2)
    command = f"exec 3>{alive}; {STRAYS[kind]} exit 0"
    assert wait_until_gone(alive, command, tmp_path, 60) is CommandEnd.PASSED


def test_a_command_that_never_ends_is_ended_with_its_whole_tree(
    tmp_path: Path, alive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.2)
    command = f"exec 3>{alive}; trap '' TERM; setsid sleep 600 & sleep 600"
    assert wait_until_gone(alive, command, tmp_path, 0.3) is CommandEnd.TIMED_OUT


def test_a_setup_that_passed_is_not_run_again_until_it_changes(checkout: Checkout) -> None:
    count = checkout.path.parent / "count"
    command = f"echo x >> {count}"
    first = run_setup(checkout.path, command, ENV, seconds=60)
    assert first is not None and first.passed
    assert run_setup(checkout.path, command, ENV, seconds=60) is None
    assert run_setup(checkout.path, f"{command} ", ENV, seconds=60) is not None
    assert count.read_text() == "x\nx\n"


def test_a_setup_that_failed_is_run_again(checkout: Checkout) -> None:
    for _ in range(2):
        failed = run_setup(checkout.path, "echo broken; exit 1", ENV, seconds=60)
        assert failed is not None and failed.tail == "broken\n"

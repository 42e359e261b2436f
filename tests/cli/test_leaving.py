"""One ear for signals: whoever works, works no longer; whoever comes later does not begin."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from hostler.cli.foreground import STOP_SIGNALS, SignalHandler

PATIENCE = 30.0


class FakeRunner:
    """Remembers how it was asked to leave."""

    def __init__(self) -> None:
        self.left = threading.Event()
        self.stopped: bool | None = None

    def leave(self, *, stop_agents: bool = False) -> None:
        self.stopped = stop_agents
        self.left.set()


@pytest.fixture
def ears() -> Iterator[list[str]]:
    """What was told; the handlers from before are put back."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield []
    for number, handler in before.items():
        signal.signal(number, handler)


def listening(told: list[str], **more: Any) -> SignalHandler:
    ear = SignalHandler(told=lambda: told.append("stopping"), **more)
    ear.listen()
    return ear


@pytest.mark.parametrize("stop_agents", [False, True])
def test_whoever_is_attached_is_asked_to_leave(ears, stop_agents):
    ear, runner = listening(ears, stop_agents=stop_agents), FakeRunner()
    ear.attach(runner)
    assert not runner.left.is_set() and not ear.leaves()
    os.kill(os.getpid(), signal.SIGTERM)
    assert runner.left.wait(PATIENCE) and runner.stopped is stop_agents
    assert ear.leaves() and ears == ["stopping"]


def test_a_signal_between_two_services_is_for_the_second(ears):
    """As after a restart that failed: the first is gone, and the second not there yet."""
    ear, first, second = listening(ears), FakeRunner(), FakeRunner()
    ear.attach(first)
    os.kill(os.getpid(), signal.SIGTERM)
    ear.attach(second)
    assert second.left.is_set()


def test_a_signal_before_anybody_works_is_not_forgotten(ears):
    ear, runner = listening(ears), FakeRunner()
    os.kill(os.getpid(), signal.SIGTERM)
    ear.attach(runner)
    assert runner.left.is_set()


def test_a_signal_that_was_held_back_is_heard(ears):
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGTERM)
        ear = listening(ears)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    assert ear.leaves()


def test_a_second_signal_leaves_now(ears):
    child = os.fork()
    if child == 0:
        listening(ears)
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 128 + signal.SIGINT

"""Signals that end the demo: each becomes a request to end, and the exit code of a shell."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from hostler.cli.demo.runner import StopRequest

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Let no signal end the tests themselves, and restore what was there."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING)
def test_each_signal_is_a_request_to_end(number):
    with StopRequest() as stop_request:
        assert not stop_request.asked
        signal.raise_signal(number)
        stop_request.wait()
        assert stop_request.asked
        assert stop_request.exit_code == 128 + number


def test_the_first_signal_gives_the_exit_code():
    with StopRequest() as stop_request:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert stop_request.exit_code == 128 + signal.SIGTERM


def test_an_ignored_signal_stays_ignored_and_all_handlers_are_restored():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with StopRequest() as stop_request:
        signal.raise_signal(signal.SIGHUP)
        assert not stop_request.asked
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    assert signal.getsignal(signal.SIGTERM) == signal.default_int_handler

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from hostler.clock import FakeClock, SystemClock


def waiting(clock: FakeClock, timeout: float | None):
    wakeup = clock.wakeup()
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(wakeup.wait(timeout)))
    thread.start()
    clock.wait_for_waiters()
    return wakeup, thread, answers


def test_a_fake_clock_stands_still_until_it_is_moved():
    clock = FakeClock()
    before = clock.now(), clock.monotonic()
    assert (clock.now(), clock.monotonic()) == before
    clock.advance(2.5)
    assert clock.now() - before[0] == timedelta(seconds=2.5)
    assert clock.monotonic() - before[1] == 2.5


def test_advancing_past_the_timeout_wakes_the_waiter_without_its_event():
    clock = FakeClock()
    _, thread, answers = waiting(clock, 10)
    clock.advance(9.9)
    assert thread.is_alive()
    clock.advance(0.1)
    thread.join(10)
    assert answers == [False]


def test_setting_the_event_wakes_the_waiter_without_time_passing():
    clock = FakeClock()
    wakeup, thread, answers = waiting(clock, None)
    wakeup.set()
    thread.join(10)
    assert answers == [True]
    assert clock.monotonic() == 0


def test_a_jump_of_the_wall_clock_wakes_nobody_and_passes_no_time():
    clock = FakeClock()
    start = clock.now()
    _, thread, answers = waiting(clock, 10)
    clock.jump(-3600)
    clock.jump(7200)
    assert clock.now() - start == timedelta(seconds=3600)
    assert thread.is_alive()
    assert clock.monotonic() == 0
    clock.advance(10)
    thread.join(10)
    assert answers == [False]


def test_time_never_advances_backwards():
    with pytest.raises(ValueError, match="only advances"):
        FakeClock().advance(-1)


def test_waiting_for_waiters_that_never_come_fails_instead_of_hanging(monkeypatch):
    monkeypatch.setattr(FakeClock, "TIMEOUT_SECONDS", 0.01)
    with pytest.raises(TimeoutError, match="0 of 1"):
        FakeClock().wait_for_waiters()


@pytest.mark.parametrize("wake", [lambda clock, wakeup: clock.advance(10), lambda _, w: w.set()])
def test_a_thread_that_is_about_to_wake_does_not_count_as_waiting(monkeypatch, wake):
    clock = FakeClock()
    wakeup, thread, _ = waiting(clock, 10)
    monkeypatch.setattr(FakeClock, "TIMEOUT_SECONDS", 0)
    # Held, so that the thread cannot go on yet.
    with clock._moved:
        wake(clock, wakeup)
        with pytest.raises(TimeoutError, match="0 of 1"):
            clock.wait_for_waiters()
    thread.join(60)


def test_an_event_can_be_cleared_and_used_again():
    for clock in (FakeClock(), SystemClock()):
        wakeup = clock.wakeup()
        wakeup.set()
        assert wakeup.is_set()
        assert wakeup.wait(0)
        wakeup.clear()
        assert not wakeup.is_set()
        assert not wakeup.wait(0)


def test_the_system_clock_tells_utc_and_runs_forward():
    clock = SystemClock()
    assert clock.now().utcoffset() == timedelta(0)
    assert clock.monotonic() <= clock.monotonic()

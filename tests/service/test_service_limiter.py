"""The limiter: tokens are neither lost nor made."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.service.scheduling.workers import GlobalWorkLimiter

# A number is a new capacity.
MOVES = st.lists(st.sampled_from(["try", "force", "release"]) | st.integers(1, 5), max_size=60)


@given(st.integers(1, 5), MOVES)
def test_no_token_is_given_at_or_above_the_capacity(capacity, moves):
    limiter, taken = GlobalWorkLimiter(capacity), 0
    for move in moves:
        if move == "try":
            assert limiter.try_acquire() is (taken < capacity)
            taken += taken < capacity
        elif move == "force":
            limiter.force()
            taken += 1
        elif isinstance(move, int):
            limiter.resize(capacity := move)
        elif taken:
            limiter.release()
            taken -= 1
        else:
            with pytest.raises(RuntimeError):
                limiter.release()
        assert limiter.in_flight() == taken
    assert limiter.capacity() == capacity


def test_a_crowd_gets_as_many_tokens_as_there_are():
    limiter, granted, together = GlobalWorkLimiter(7), [], threading.Barrier(30)

    def ask():
        together.wait()
        granted.append(limiter.try_acquire())

    crowd = [threading.Thread(target=ask) for _ in range(30)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    assert sum(granted) == 7 == limiter.in_flight()


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_capacity_that_lets_nothing_run_is_refused(capacity):
    with pytest.raises(ValueError, match="capacity must be at least 1"):
        GlobalWorkLimiter(capacity)

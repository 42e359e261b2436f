"""Exponential back-off."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hostler.backoff import backoff


@pytest.mark.parametrize(
    ("tries", "seconds"), [(-1, 3), (0, 3), (1, 6), (2, 12), (3, 20), (99, 20)]
)
def test_the_delay_doubles_with_each_try_up_to_the_longest(tries, seconds):
    assert backoff(tries, 3.0, 20.0) == seconds
    limits = timedelta(seconds=3), timedelta(seconds=20)
    assert backoff(tries, *limits) == timedelta(seconds=seconds)


def test_any_number_of_tries_fits_into_a_delay():
    assert backoff(10**9, timedelta(hours=22), timedelta.max) == timedelta(hours=22) * 2**30

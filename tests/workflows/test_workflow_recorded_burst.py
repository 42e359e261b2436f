"""Recorded programs that die of a limit at once, before a pool that has settled: a quarter."""

from __future__ import annotations

from test_workflow_recorded_pools import CONGESTED, clock, judged, pool, store

from hostler.governor.adaptive.model import BreakerState

__all__ = ["clock", "pool", "store"]


def deaths(stable, clock, *waits):
    """One program after another dies, each as an agent of its own."""
    for number, (one, wait) in enumerate(zip(judged(*CONGESTED), waits, strict=False)):
        clock.advance(wait)
        stable.play(one, f"t{number}")
    return stable.known


def test_the_third_program_that_dies_within_half_a_minute_quarters_the_cap(pool, clock):
    # The first one halves, from 8 to 4. The next two die while that settles.
    known = deaths(pool(), clock, 0, 100, 10, 10)
    assert (known.cap, known.state.breaker_state) == (1, BreakerState.CLOSED)


def test_two_programs_that_die_within_half_a_minute_halve_it(pool, clock):
    known = deaths(pool(), clock, 0, 110, 10)
    assert (known.cap, known.state.breaker_state) == (2, BreakerState.CLOSED)

"""Real processes, killed at random: never one too many, nothing lost, nothing leaked."""

from __future__ import annotations

import os
import time

import pytest
from governor_crowd import Crowd

SEED = 20_260_301
SOAK_SECONDS = float(os.environ.get("SOAK_SECONDS", "3600"))


def drive(crowd: Crowd, *, rounds: int) -> None:
    try:
        for _ in range(rounds):
            crowd.round()
        assert crowd.granted > rounds, "they were too rarely let in to show anything"
    finally:
        crowd.end()


@pytest.mark.slow
def test_32_processes_killed_at_random_never_exceed_a_cap_and_leak_nothing(
    sqlite_database, tmp_path
):
    drive(Crowd(sqlite_database, tmp_path / "places", 32, SEED), rounds=6)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.postgres
def test_the_same_on_a_server(postgres_database, tmp_path):
    drive(Crowd(postgres_database, tmp_path / "places", 12, SEED), rounds=4)


@pytest.mark.soak
def test_an_hour_of_it(sqlite_database, tmp_path):
    end, seed = time.monotonic() + SOAK_SECONDS, SEED
    while time.monotonic() < end:
        seed += 1
        drive(Crowd(sqlite_database, tmp_path / str(seed), 32, seed), rounds=60)

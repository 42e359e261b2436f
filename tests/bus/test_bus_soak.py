"""Long campaigns of `make soak`: killed writers for an hour, and the machine for thousands.

`SOAK_SECONDS` and `SOAK_ROUNDS` shorten or lengthen them.
"""

from __future__ import annotations

import os
import random
import time

import pytest
from bus_processes import campaign, check
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from test_bus_machine import BusMachine

SECONDS = float(os.environ.get("SOAK_SECONDS", "3600"))
ROUNDS = int(os.environ.get("SOAK_ROUNDS", "300"))

pytestmark = pytest.mark.soak


def test_an_hour_of_killed_writers_loses_nothing(tmp_path):
    chance = random.Random(20_260_301)
    end = time.monotonic() + SECONDS
    number = 0
    while time.monotonic() < end:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "bus.jsonl"
        told = campaign(path, chance, writers=50, heard_each=chance.choice([2, 20, 60]))
        check(path, told)
        for file in folder.iterdir():
            file.unlink()


def test_thousands_of_histories_agree_with_the_model():
    long = settings(max_examples=ROUNDS * 20, stateful_step_count=60, deadline=None)
    run_state_machine_as_test(BusMachine, settings=long)

"""Long campaigns of `make soak`: killed writers for many rounds, and the machine for thousands.

`SOAK_ROUNDS` shortens or lengthens them.
"""

from __future__ import annotations

import os
import random

import pytest
from children import Child
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from test_crashes import rows, write_until_killed
from test_machine import StoreMachine

ROUNDS = int(os.environ.get("SOAK_ROUNDS", "300"))

pytestmark = pytest.mark.soak


def test_rounds_of_killed_writers_lose_nothing(sqlite_database):
    chance = random.Random(20_260_301)
    said: set[str] = set()
    for number in range(ROUNDS):
        children = [
            (
                f"s{number}-{one}",
                Child(write_until_killed, sqlite_database.home, f"s{number}-{one}"),
            )
            for one in range(chance.randint(2, 32))
        ]
        for name, child in children:
            said |= {f"{name}/{child.hear()}" for _ in range(chance.randint(1, 8))}
        chance.shuffle(children)
        for name, child in children:
            child.process.kill()
            said |= {f"{name}/{heard}" for heard in child.everything_heard()}
            child.join()
        meta, names = rows(sqlite_database)
        assert said <= meta
        assert {key for key in meta if key.startswith("s") and "/" in key} == names
    assert sqlite_database.inspect().sound


@pytest.mark.postgres
def test_thousands_of_histories_agree_on_both_databases(sqlite_database, postgres_database):
    databases = [sqlite_database, postgres_database]
    machine = type("Machine", (StoreMachine,), {"databases": databases})
    long = settings(max_examples=ROUNDS * 5, stateful_step_count=40, deadline=None)
    run_state_machine_as_test(machine, settings=long)

"""Long campaigns of `make soak`: thousands of histories of feeds and of pull requests."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from test_pagination_model import Feeds
from test_pulls_machine import PullLife

ROUNDS = int(os.environ.get("SOAK_ROUNDS", "300"))

pytestmark = pytest.mark.soak


@pytest.mark.parametrize(("machine", "share"), [(Feeds, 20), (PullLife, 1)])
def test_thousands_of_histories_keep_to_the_model(machine, share):
    long = settings(max_examples=ROUNDS * share, stateful_step_count=60, deadline=None)
    run_state_machine_as_test(machine, settings=long)

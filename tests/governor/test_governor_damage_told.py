"""Damage of what was learned of a pool reaches people, once."""

from __future__ import annotations

import json
from contextlib import closing
from io import StringIO

from hostler.clock import FakeClock
from hostler.config.settings import Settings
from hostler.governor import reset
from hostler.service.journal import Journal
from hostler.service.learned_caps import LearnedCaps
from hostler.service.policies import Policies
from hostler.store.overlays import put_overlay
from hostler.telemetry.logs import Logging


def test_a_service_tells_of_damage_once_and_again_after_it_was_mended(sqlite_database):
    home, told, lines, clock = sqlite_database.home, [], StringIO(), FakeClock()
    pool = {"max_global_agents": 4, "adaptive": True}
    (home / "governor.json").write_text(json.dumps({"pools": {"anthropic": pool}}))
    journal = Journal(Logging(clock, None, terminal=lines).log, told.append)
    with closing(sqlite_database.open(clock)) as store:
        policies = Policies(home, Settings(), told.append, store)
        caps = LearnedCaps(store, policies, journal)
        for times in (1, 2):
            with store.write("admission") as tx:
                put_overlay(tx, "anthropic", '{"dynamic_cap":')
            caps.look()
            caps.look()
            assert sum("is damaged" in line for line in told) == times
            assert lines.getvalue().count("governor_damaged") == times
            with store.write("admission") as tx:
                reset(tx, "anthropic")
                put_overlay(tx, "anthropic", '{"dynamic_cap":3}')
            caps.look()

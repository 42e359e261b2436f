"""Runs from their admission to their end, on real shims and agents."""

from __future__ import annotations

import json

from hostler.runs import next_step, request_stop, verdict_of
from hostler.store.runs import RunState


def test_a_run_goes_from_its_admission_to_its_end(house):
    house.how = "quick"
    run = house.admit()
    ended = house.boss.supervise(run)
    assert (ended.state, ended.outcome, ended.decided_by) == (RunState.ENDED, "success", "result")
    assert (ended.exit_code, ended.ended_by, ended.counted) == (0, "exit", True)
    assert (ended.input_tokens, ended.usd, ended.session) == (7, 0.5, "s1")
    assert verdict_of(ended).result.summary == "Mended."
    assert next_step(ended) == "finish"
    assert house.effects(run) == ["attached", "ended", "released"]
    assert house.begun() == 1

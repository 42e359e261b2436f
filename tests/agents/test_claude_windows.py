"""What claude says of its windows: how full they are for everybody, and never more than that."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.agents.adapters.claude import MAX_UTILISATION
from hostler.agents.adapters.registry import KINDS
from hostler.agents.agent_files import OutputLine, OutputStream
from hostler.agents.events import Headroom, LimitSignal


def told(**info) -> list[object]:
    raw = {"type": "rate_limit_event", "rate_limit_info": info, "uuid": "u", "session_id": "s"}
    return list(KINDS["claude"].events(OutputLine(OutputStream.STDOUT, json.dumps(raw))))


def use(found: list[object]) -> list[float]:
    return [one.utilisation for one in found if isinstance(one, Headroom)]


@pytest.mark.parametrize("status", ["allowed", "allowed_warning", "rejected"])
def test_a_window_that_is_used_up_is_told_of_as_nearly_so(status):
    found = told(status=status, rateLimitType="five_hour", utilization=1.02, resetsAt=4_000_000_000)
    assert use(found) == [MAX_UTILISATION]
    assert any(isinstance(one, LimitSignal) for one in found) == (status == "rejected")


def test_a_window_of_one_model_says_nothing_of_the_others():
    windows = {"seven_day_opus": {"utilization": 1.0}, "seven_day": {"utilization": 0.25}}
    assert use(told(status="allowed", unifiedWindows=windows)) == [0.25]
    assert use(told(status="allowed", rateLimitType="seven_day_opus", utilization=0.9)) == []


@given(st.floats(0, 10), st.floats(0, 10))
def test_the_fullest_window_of_all_is_told(hours, days):
    windows = {"five_hour": {"utilization": hours}, "seven_day": {"utilization": days}}
    assert use(told(status="allowed", unifiedWindows=windows)) == [
        min(max(hours, days), MAX_UTILISATION)
    ]

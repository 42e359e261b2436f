"""Plans: the same from the same seed, and with everything that a campaign is to show."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from soak_plan import WAYS, plan_of, repositories
from soak_sizes import FULL, SEED_VARIABLE, SMALL, TINY, seed

SEEDS = st.integers(0, 10**6)


@given(SEEDS)
def test_a_seed_gives_one_plan(number):
    assert plan_of(number, SMALL) == plan_of(number, SMALL)


@given(SEEDS)
def test_a_plan_has_every_kind_and_as_many_tasks_as_wanted(number):
    plan = plan_of(number, SMALL)
    assert {story.kind for story in plan} - {"stranger"} == set(WAYS)
    assert sum(story.eligible for story in plan) == SMALL.tasks
    assert {story.repo for story in plan} <= set(repositories(SMALL))
    assert len({story.name for story in plan}) == len(plan)


@given(SEEDS)
def test_what_is_freed_was_stopped_or_blocked_and_strangers_wait_for_nothing(number):
    for story in plan_of(number, SMALL):
        steps = story.steps
        assert story.eligible or not steps
        if "free" in steps:
            before = steps[: steps.index("free")]
            assert "stopped" in before or "blocked" in before


@given(SEEDS)
def test_a_tiny_plan_has_the_kinds_that_were_chosen(number):
    assert [one.kind for one in plan_of(number, TINY) if one.eligible] == list(TINY.kinds)


def test_the_full_campaign_is_as_large_as_promised():
    assert FULL.repositories >= 20 and FULL.tasks >= 500
    assert FULL.kills >= 100 and FULL.faults >= 500


def test_a_seed_can_be_asked_for(monkeypatch):
    monkeypatch.delenv(SEED_VARIABLE, raising=False)
    assert seed(7) == 7
    monkeypatch.setenv(SEED_VARIABLE, "42")
    assert seed() == seed(7) == 42

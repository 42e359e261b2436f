"""The schema against the program: whatever the one allows or forbids, the other does too."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from web_house import BASE, BEARER, memory_home, web_house
from why_stage import SERVED

from hostler.clock import FakeClock
from hostler.store.tasks import TaskState

HEADERS = {**BEARER, "Host": "localhost"}
EXAMPLES = 5


@pytest.fixture
def furnished(monkeypatch):
    """A home with something to find, and a service that takes tasks."""
    monkeypatch.setattr("hostler.web.routes.house.presence", lambda _home: SERVED)
    with memory_home() as home, web_house(home, FakeClock()) as house:
        house.start(house.put("barn"))
        house.put("stable", state=TaskState.NEEDS_INPUT, question="Which?")
        yield house


def operations(house):
    # Here, because only this test pays for it.
    import schemathesis

    found = schemathesis.openapi.from_asgi("/api/v1/openapi.json", house.app, headers=HEADERS)
    # Streams have no end to wait for; they have tests of their own.
    for one in found.exclude(path_regex="/live/").get_all_operations():
        yield one.ok()


def test_every_route_keeps_its_word(furnished):
    from schemathesis import GenerationMode
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    asked = set()
    for operation in operations(furnished):
        modes = [operation.as_strategy(generation_mode=mode) for mode in GenerationMode]

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
            derandomize=True,
            database=None,
        )
        @given(case=st.one_of(modes))
        def holds(case):
            asked.add(case.path)
            # What is well formed may still name a folder, an agent or a cap that there is not.
            case.call_and_validate(
                headers=HEADERS, base_url=BASE, excluded_checks=[positive_data_acceptance]
            )

        holds()
    assert len(asked) > 25

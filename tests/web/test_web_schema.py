"""The schema against the program: whatever the one allows or forbids, the other does too."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from web_house import BASE, BEARER, memory_home, web_house
from why_stage import SERVED

from hostler.bus.bus import open_task_bus
from hostler.clock import FakeClock
from hostler.store.tasks import TaskState

HEADERS = {**BEARER, "Host": "localhost"}
# Of what is well formed and of what is not, for each operation.
EXAMPLES = 2
LONG = 200


def bounded(examples: int, **more):
    return settings(
        max_examples=examples,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        database=None,
        **more,
    )


@pytest.fixture
def furnished(monkeypatch):
    """A home with something to find, and a service that takes tasks."""
    monkeypatch.setattr("hostler.web.routes.system.read_presence", lambda _home: SERVED)
    with memory_home() as home, web_house(home, FakeClock()) as house:
        task = house.put("stable", state=TaskState.NEEDS_INPUT, question="Which?")
        open_task_bus(home, task.project, task.id).create()
        run = house.start(house.put("barn"))
        folder = home / run.folder
        folder.mkdir(parents=True)
        (folder / "stdout").write_text("one\ntwo\n")
        house.names = {"task": task.id, "run": run.run, "project": "stable", "pool": "p"}
        yield house


def schema_of(house):
    # Here, because only these tests pay for it.
    import schemathesis

    found = schemathesis.openapi.from_asgi("/api/v1/openapi.json", house.app, headers=HEADERS)
    # Streams have no end to wait for; they have tests of their own.
    return found.exclude(path_regex="/live/")


def keeps_its_word(case):
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    # What is well formed may still name a folder, an agent or a cap that there is not.
    case.call_and_validate(
        headers=HEADERS, base_url=BASE, excluded_checks=[positive_data_acceptance]
    )


def asked_well(operation, names, examples):
    """What fits; half of it about things that are there: made-up names reach no farther than the
    first look."""
    from schemathesis import GenerationMode

    @bounded(examples)
    @given(operation.as_strategy(generation_mode=GenerationMode.POSITIVE), st.booleans())
    def holds(case, known):
        if known:
            given = {name: names[name] for name in case.path_parameters if name in names}
            case.path_parameters.update(given)
        keeps_its_word(case)

    holds()


def asked_badly(operation, examples):
    """What does not fit, where anything can be said at all."""
    from schemathesis import GenerationMode

    @bounded(examples)
    @given(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def holds(case):
        keeps_its_word(case)

    try:
        holds()
    except Unsatisfiable:
        assert not list(operation.iter_parameters()) and not list(operation.body)


def ask_everything(house, examples):
    operations = [one.ok() for one in schema_of(house).get_all_operations()]
    assert len(operations) > 35
    for operation in operations:
        asked_well(operation, house.names, examples)
        asked_badly(operation, examples)


def test_every_route_keeps_its_word(furnished):
    ask_everything(furnished, EXAMPLES)


@pytest.mark.soak
def test_every_route_keeps_its_word_for_long(furnished):
    ask_everything(furnished, LONG)


def test_answers_lead_to_further_questions(furnished):
    """One after another: what an answer names is asked about next, whatever was changed before."""
    machine = schema_of(furnished).as_state_machine()
    steps = []

    class Walk(machine):
        def get_call_kwargs(self, case):
            return {"headers": HEADERS, "base_url": BASE}

        def validate_response(self, response, case, **_more):
            from schemathesis.specs.openapi.checks import positive_data_acceptance

            steps.append(case.operation.label)
            case.validate_response(response, excluded_checks=[positive_data_acceptance])

    Walk.run(settings=bounded(4, stateful_step_count=6))
    # By the names that answers told: nothing that was made up is there.
    assert len(steps) > 10 and any("{" in label for label in steps)

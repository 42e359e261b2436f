"""The schema against the program: whatever the one allows or forbids, the other does too."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from web_fixture import BASE, BEARER, open_web_fixture, temporary_home
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
    with temporary_home() as home, open_web_fixture(home, FakeClock()) as api_home:
        task = api_home.put("stable", state=TaskState.NEEDS_INPUT, question="Which?")
        open_task_bus(home, task.project, task.id).create()
        run = api_home.start(api_home.put("barn"))
        folder = home / run.folder
        folder.mkdir(parents=True)
        (folder / "stdout").write_text("one\ntwo\n")
        api_home.names = {"task": task.id, "run": run.run, "project": "stable", "pool": "p"}
        yield api_home


def schema_of(api_home):
    # Here, because only these tests pay for it.
    import schemathesis

    found = schemathesis.openapi.from_asgi("/api/v1/openapi.json", api_home.app, headers=HEADERS)
    # Streams have no end to wait for; they have tests of their own.
    return found.exclude(path_regex="/live/")


def check_responses(case):
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    # What is well formed may still name a folder, an agent or a cap that there is not.
    case.call_and_validate(
        headers=HEADERS, base_url=BASE, excluded_checks=[positive_data_acceptance]
    )


def valid_requests(operation, names, examples):
    """What fits; half of it about things that are there: made-up names reach no farther than the
    first look."""
    from schemathesis import GenerationMode

    @bounded(examples)
    @given(operation.as_strategy(generation_mode=GenerationMode.POSITIVE), st.booleans())
    def pauses(case, known):
        if known:
            given = {name: names[name] for name in case.path_parameters if name in names}
            case.path_parameters.update(given)
        check_responses(case)

    pauses()


def invalid_requests(operation, examples):
    """What does not fit, where anything can be said at all."""
    from schemathesis import GenerationMode

    @bounded(examples)
    @given(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    def pauses(case):
        check_responses(case)

    try:
        pauses()
    except Unsatisfiable:
        assert not list(operation.iter_parameters()) and not list(operation.body)


def request_everything(api_home, examples):
    operations = [one.ok() for one in schema_of(api_home).get_all_operations()]
    assert len(operations) > 35
    for operation in operations:
        valid_requests(operation, api_home.names, examples)
        invalid_requests(operation, examples)


def test_every_route_matches_its_schema(furnished):
    request_everything(furnished, EXAMPLES)


@pytest.mark.soak
def test_every_route_matches_its_schema_in_many_examples(furnished):
    request_everything(furnished, LONG)


def test_responses_lead_to_further_valid_requests(furnished):
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

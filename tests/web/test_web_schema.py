"""The OpenAPI schema and the program accept and refuse the same requests."""

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
# Examples of valid and of invalid requests for each operation.
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
    """A home with data and a running service."""
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
    # Imported here, because only these tests need it.
    import schemathesis

    found = schemathesis.openapi.from_asgi("/api/v1/openapi.json", api_home.app, headers=HEADERS)
    # Streams do not end; other tests cover them.
    return found.exclude(path_regex="/live/")


def check_responses(case):
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    # Valid requests can name a missing folder, agent or cap.
    case.call_and_validate(
        headers=HEADERS, base_url=BASE, excluded_checks=[positive_data_acceptance]
    )


def valid_requests(operation, names, examples):
    """Generate valid requests; half of them name existing things, to get past the first check."""
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
    """Generate requests that do not match the schema."""
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
    """Follow the names in responses to further requests, across changes."""
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
    # Use the names in responses: made-up names do not exist.
    assert len(steps) > 10 and any("{" in label for label in steps)

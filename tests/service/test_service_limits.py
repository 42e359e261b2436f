"""A provider that limits one agent holds back all that would call it, until it may be called."""

from __future__ import annotations

from service_town import Town
from test_service_tasks import SCOPES, order, put, reach

from hostler.governor.holders import read_host
from hostler.governor.parking import resume
from hostler.governor.policy import read_policy
from hostler.service.context import Presence
from hostler.service.scheduling.explain import ExplainInputs, explain_task
from hostler.store.tasks import TaskState, require_task

PLAY = """
version = 1

[[scene]]
when = {{ prompt_has = "Spend it" }}
steps = [
  {{ limit = {{ reason = "{reason}", {time} }} }},
  {{ end = {{ outcome = "{reason}", text = "The window is spent." }} }},
]

[[scene]]
steps = [{{ mark_done = true }}]
"""


def explained(service, task):
    app = service.app
    policy = read_policy(app.home, app.settings)
    inputs = ExplainInputs(app.store, app.settings, policy, read_host(), Presence())
    with app.store.read() as tx:
        return explain_task(tx, inputs, require_task(tx, task.id))


def test_other_tasks_wait_for_the_pool_and_the_operator_opens_it(found_town):
    play = PLAY.format(reason="quota", time="retry_after_seconds = 3600.0")
    town: Town = found_town(play=play)
    with town.service() as service:
        spent = reach(service, put(service, order(town, "Spend it.")), TaskState.PARKED)
        other = put(service, order(town, "Tidy up."))
        service.until(lambda: service.all_tasks()[1].gate == "parked")
        found = explained(service, other)
        assert found.denial is not None and found.denial.gate == "parked"
        assert "Pool anthropic is parked until" in found.denial.why
        assert "hostler governor resume --provider anthropic" in found.denial.remedy
        assert found.denial.until is not None and service.runs(other) == []
        with service.app.store.write("admission") as tx:
            assert resume(tx, "anthropic")
        reach(service, other, TaskState.DONE)
        # Its own wait is its own: the operator opened the pool, not the task.
        assert reach(service, spent, TaskState.PARKED).wake_at == spent.wake_at


def test_a_burst_without_a_time_holds_back_its_own_task_alone(found_town):
    town: Town = found_town(play=PLAY.format(reason="rate_limited", time="status = 429"))
    with town.service() as service:
        burst = reach(service, put(service, order(town, "Spend it.")), TaskState.PARKED)
        assert (burst.attempt, burst.requeues) == (0, 1)
        reach(service, put(service, order(town, "Tidy up.")), TaskState.DONE)


def test_a_second_that_a_provider_asks_for_uses_up_no_budget(found_town):
    play = PLAY.format(reason="rate_limited", time="retry_after_seconds = 1.0")
    town: Town = found_town(play=play)
    with town.service() as service:
        task = put(service, order(town, "Spend it."))
        reach(service, task, TaskState.PARKED)
        # Another of the pool starts when the second is over; the limited one still waits.
        reach(service, put(service, order(town, "Tidy up.")), TaskState.DONE)
        assert len(service.runs(task)) == 1


def test_the_end_of_all_requeues_counts_no_attempt_either(found_town):
    play = PLAY.format(reason="rate_limited", time="status = 429")
    town: Town = found_town(play=play, tasks={"rate_limited_requeue_budget": 0})
    with town.service() as service:
        over = reach(service, put(service, order(town, "Spend it.")), TaskState.BLOCKED)
        assert over.attempt == 0 and over.reason.startswith("rate-limited requeues exhausted")
        with service.app.store.write(*SCOPES) as tx:
            assert require_task(tx, over.id).gate == ""

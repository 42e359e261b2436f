"""One call of all repositories by the service, and whether they may enqueue work."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hostler.service.polling.orchestrator import PollSchedule
from hostler.service.runner import ServiceRunner
from hostler.service.wiring import ServiceMode


class Repository:
    """An orchestrator that notes how it is called."""

    def __init__(self, project, look=None):
        self.project, self.schedule, self.answer = project, PollSchedule(30.0), look
        self.calls = []

    def poll_once(self, pool, *, allow_enqueue):
        self.calls.append((pool, allow_enqueue))
        return self.answer


class Bench:
    """A runner whose parts note what reaches them."""

    def __init__(self, *repositories, mode=None, restart=False, polled_once=False):
        self.workers = object()
        self.noted = []
        runner = object.__new__(ServiceRunner)
        runner._parts = SimpleNamespace(
            orchestrators=[*repositories],
            maintenance=SimpleNamespace(
                after_poll=lambda look: self.noted.append(("maintenance", look))
            ),
        )
        runner._static_parts = SimpleNamespace(workers=self.workers)
        runner._round_robin = SimpleNamespace(
            call=lambda found: self.noted.append(("round_robin", found))
        )
        runner._drain = SimpleNamespace(is_requested=lambda: restart)
        runner._mode = mode or ServiceMode(polls=True)
        runner._polled_once = polled_once
        runner._counts = SimpleNamespace(of=lambda project: f"counts of {project}")
        runner._service_log = SimpleNamespace(
            poll_finished=lambda look, counts: self.noted.append(("service_log", look, counts))
        )
        runner._polls = SimpleNamespace(
            note=lambda look, interval: self.noted.append(("book", look, interval))
        )
        self.runner = runner


@pytest.mark.parametrize(
    ("mode", "restart", "polled_once", "allowed"),
    [
        (ServiceMode(polls=True), False, False, True),
        (ServiceMode(polls=True), True, False, False),
        (ServiceMode(polls=True), False, True, False),
        # A restart is none of the business of one who polls once, or not at all.
        (ServiceMode(polls=True, once=True), True, False, True),
        (ServiceMode(polls=False), True, False, True),
        (ServiceMode(polls=True, once=True), False, True, False),
    ],
)
def test_repositories_enqueue_work_unless_the_service_drains(mode, restart, polled_once, allowed):
    a, b = Repository("a"), Repository("b")
    bench = Bench(a, b, mode=mode, restart=restart, polled_once=polled_once)
    assert bench.runner._poll() is False
    assert a.calls == b.calls == [(bench.workers, allowed)]


def test_the_rota_is_asked_before_the_repositories_are_called():
    a = Repository("a")
    bench = Bench(a)
    bench.runner._round_robin = SimpleNamespace(
        call=lambda found: bench.noted.append((found, [*a.calls]))
    )
    bench.runner._poll()
    assert bench.noted == [([a], [])]


def test_a_poll_that_has_ended_is_logged_noted_and_followed_by_chores():
    look = SimpleNamespace(project="a")
    bench = Bench(Repository("a", look), Repository("b"))
    assert bench.runner._poll() is True
    assert bench.noted[1:] == [
        ("service_log", look, "counts of a"),
        ("book", look, 30.0),
        ("maintenance", look),
    ]

"""Looks at repositories: one that is slow or broken and the others."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from service_town import ALICE, REPO

from hostler.clock import FakeClock
from hostler.errors import GitHubPollingError, HostlerError, RateLimited, ServerFailed
from hostler.forge.github.polling.poller import ScanResult
from hostler.forge.outbox.sender import OutboxSender
from hostler.intake.repo_policy import RepoPolicy
from hostler.model import RepoName
from hostler.service.polling.orchestrator import (
    MAX_BACK_OFF_SECONDS,
    PollDeps,
    PollSchedule,
    RepoOrchestrator,
    back_off_seconds,
    own_budget_pause,
)
from hostler.service.polling.repo_poller import PollResult, poll_stretch
from hostler.store.inbox import rows_of_thread
from hostler.store.tasks import TaskState
from hostler.telemetry import names
from hostler.telemetry.metrics import metrics

NOW = datetime(2026, 3, 1, tzinfo=UTC)
BUSY = """
version = 1

[[scene]]
steps = [{ hang = 3600 }]
"""


@given(st.floats(5, 86_400), st.integers(1, 10_000))
def test_each_failure_doubles_the_pause_up_to_a_longest_one(interval, failures):
    pause = back_off_seconds(interval, failures, HostlerError("no"), NOW)
    assert interval <= pause <= max(MAX_BACK_OFF_SECONDS, interval)
    later = back_off_seconds(interval, failures + 1, HostlerError("no"), NOW)
    assert later in (pause * 2, max(MAX_BACK_OFF_SECONDS, interval))


def test_a_limit_is_waited_out():
    error = RateLimited("GET /x", 403, NOW + timedelta(seconds=3000), "primary")
    assert back_off_seconds(30, 1, error, NOW) == 3000
    assert back_off_seconds(30, 1, ValueError("a defect"), NOW) == 30


def test_what_our_own_budget_holds_back_is_no_failure():
    def refused(status: int, seconds: float) -> GitHubPollingError:
        until = NOW + timedelta(seconds=seconds)
        return GitHubPollingError("a/b", "issues", RateLimited("GET", status, until, "secondary"))

    assert own_budget_pause(refused(0, 40), NOW) == 40
    assert own_budget_pause(refused(0, -40), NOW) == 1
    assert own_budget_pause(refused(0, 1e6), NOW) == 3600
    assert own_budget_pause(refused(429, 40), NOW) is None
    assert own_budget_pause(ValueError("a defect"), NOW) is None


@pytest.mark.long
def test_a_broken_repository_delays_no_other_and_says_so_once(found_town):
    town = found_town()
    broken = {"owner": "alice", "name": "gone", "allowed_users": [ALICE]}
    alice = town.person(ALICE)
    with town.service(more={"gone": broken}) as service:
        service.until(lambda: any("alice/gone" in line for line in service.told))
        for _ in range(3):
            service.poll()
            number = alice.file("Notes", "agent:small-job")
            service.poll()
            service.task(number, TaskState.AWAITING_FEEDBACK)
        told = [line for line in service.told if "alice/gone" in line]
        assert len(told) == 1
        assert "repo_poll_failed" in service.lines.getvalue()


def test_a_slow_repository_delays_no_other(found_town):
    town = found_town()
    slow = {"kind": "delay", "seconds": 3600, "route": "/repos/alice/barn/issues", "count": None}
    town.hub.control.post("/faults", json=slow).raise_for_status()
    barn = {"owner": "alice", "name": "barn", "allowed_users": [ALICE]}
    alice = town.person(ALICE)
    with town.service(more={"barn": barn}) as service:
        number = alice.file("Notes", "agent:small-job")
        service.poll()
        service.task(number, TaskState.AWAITING_FEEDBACK)
        assert "alice/barn" not in service.lines.getvalue()
        town.hub.control.delete("/faults").raise_for_status()


def test_github_down_and_back_again(found_town):
    town = found_town()
    alice = town.person(ALICE)
    number = alice.file("Notes", "agent:small-job")
    down = {"kind": "fail_before", "status": 502, "route": "*", "count": None}
    with town.service() as service:
        service.task(number, TaskState.AWAITING_FEEDBACK)
        service.rested()
        town.hub.control.post("/faults", json=down).raise_for_status()
        service.poll()
        service.until(lambda: any("alice/stable" in line for line in service.told))
        town.hub.control.delete("/faults").raise_for_status()
        service.poll()
        service.until(lambda: "alice/stable: reached again." in service.told)


class Budget:
    """How much of GitHub's limits is left, as a test wants it."""

    def __init__(self, factor):
        self.factor = factor
        self.asked = []

    def stretch(self, active, repo=None):
        self.asked.append((active, repo))
        return self.factor


class Hub:
    def __init__(self, budget=None):
        if budget is not None:
            self.budget = budget


def test_looks_are_stretched_where_the_budget_says_so_and_never_shortened():
    repo = RepoName.parse(REPO)
    assert poll_stretch(Hub(), repo, active=True) == 1.0
    assert poll_stretch(Hub(Budget(0.5)), repo, active=True) == 1.0
    budget = Budget(3.0)
    assert poll_stretch(Hub(budget), repo, active=False) == 3.0
    assert budget.asked == [(False, repo)]


def test_words_are_noticed_while_every_worker_is_busy(found_town):
    """Reading needs no worker: an agent that works for hours delays no comment and no merge."""
    town = found_town(play=BUSY, runtime={"worker_count": 1})
    alice = town.person(ALICE)
    with town.service() as service:
        busy = alice.file("Hours of work", "agent:small-job")
        service.task(busy, TaskState.RUNNING)
        alice.say(busy, "a word to somebody who works")
        waiting = alice.file("Later", "agent:small-job")
        service.poll()
        service.task(waiting, TaskState.QUEUED)

        def heard():
            with service.app.store.read() as tx:
                rows = rows_of_thread(tx, RepoName.parse(REPO), busy, "issue_comment")
                return [row for row in rows if row.consumed_at]

        service.until(heard, "the word")
        assert service.task(busy).state is TaskState.RUNNING


def test_a_quiet_look_writes_nothing(found_town):
    town, steps = found_town(), []
    alice = town.person(ALICE)
    with town.service(observe=lambda step, _about: steps.append(step)) as service:

        def looked():
            before = steps.count("heard")
            service.poll()
            service.until(lambda: steps.count("heard") > before, "a look")

        number = alice.file("Notes", "agent:small-job")
        looked()
        service.task(number, TaskState.AWAITING_FEEDBACK)
        service.rested()
        for _ in range(8):
            looked()
        before = writes()
        for _ in range(3):
            looked()
        assert writes() == before


def writes():
    return metrics.value(names.STORE_TRANSACTIONS, kind="write", end="commit")


@pytest.mark.long
def test_one_list_that_github_does_not_give_leaves_the_others_heard(found_town):
    """Review comments fail for days: issues and comments are taken up all the same."""
    town = found_town()
    alice = town.person(ALICE)
    with town.service() as service:
        first = alice.file("Notes", "agent:small-job")
        service.poll()
        service.task(first, TaskState.AWAITING_FEEDBACK)
        service.rested()
        task = service.task(first)
        fault = {"kind": "fail_before", "route": "*/pulls/comments", "method": "GET"}
        town.hub.control.post("/faults", json={**fault, "count": None}).raise_for_status()
        alice.say(task.pr_number, "Shorter, please.")
        second = alice.file("More notes", "agent:small-job")
        service.poll()
        service.task(second, TaskState.AWAITING_FEEDBACK)
        service.until(
            lambda: [c for c in alice.comments(task.pr_number) if "Done: Shorter" in c["body"]],
            "the answer",
        )
        assert any("cannot" in line or "502" in line for line in service.told)


def test_an_issue_closed_before_its_task_began_is_no_trouble(found_town):
    town = found_town(runtime={"worker_count": 1})
    town.script.write_text(BUSY)
    alice = town.person(ALICE)
    with town.service() as service:
        busy = alice.file("Busy", "agent:small-job")
        service.poll()
        service.task(busy, TaskState.RUNNING)
        waits = alice.file("Waits", "agent:small-job")
        service.poll()
        service.task(waits, TaskState.QUEUED)
        alice("PATCH", f"/issues/{waits}", state="closed")
        service.poll()
        service.task(waits, TaskState.STOPPED)
    assert not [line for line in service.told if "defect" in line]


class Failing:
    """Whose every look fails; in part, or as a whole."""

    watch = RepoPolicy(RepoName("alice", "stable"), "stable", frozenset())

    def __init__(self, *, partly):
        cause = ServerFailed("GET /repos/alice/stable/pulls/comments", 502)
        error = GitHubPollingError("alice/stable", "repo_review_comments", cause)
        self.result = PollResult(ScanResult(error=error if partly else None), error=error)
        self.looks = 0

    def poll(self):
        self.looks += 1
        return self.result

    def stretch(self):
        return 1.0


class AtOnce:
    """Threads that are done before anybody looks; workers of whom nobody is done."""

    def submit_poll(self, act, *, slow):
        done = Future()
        done.set_result(act())
        return done

    def reap(self, project):
        return 0


@pytest.mark.parametrize("partly", [True, False])
def test_only_a_look_that_fails_as_a_whole_makes_the_next_one_later(partly):
    clock, poller, threads = FakeClock(), Failing(partly=partly), AtOnce()
    poll_deps = PollDeps(threads, lambda: None, lambda: None)
    repo = RepoOrchestrator(poller, PollSchedule(30.0), poll_deps, clock)
    told = []
    for _ in range(3600):
        over = repo.poll_once(threads)
        told += [over] if over else []
        clock.advance(1)
    assert repo.is_incomplete and all(look.error is not None for look in told)
    assert poller.looks >= 115 if partly else poller.looks <= 15


class Queue:
    """Threads that take up looks when a test says so."""

    def __init__(self):
        self.waiting, self.slow = [], []

    def submit_poll(self, act, *, slow):
        self.slow.append(slow)
        self.waiting.append((Future(), act))
        return self.waiting[-1][0]

    def reap(self, project):
        return 0

    def work(self):
        future, act = self.waiting.pop(0)
        try:
            future.set_result(act())
        except HostlerError as error:
            future.set_exception(error)


def queued(poller):
    clock, threads = FakeClock(), Queue()
    poll_deps = PollDeps(threads, lambda: None, lambda: None)
    return clock, threads, RepoOrchestrator(poller, PollSchedule(30.0), poll_deps, clock)


class Well(Failing):
    """Whose looks see everything, and take as long as a test says."""

    def __init__(self, clock=None, seconds=0.0):
        super().__init__(partly=False)
        self.result, self.clock, self.seconds = PollResult(), clock, seconds

    def poll(self):
        if self.seconds:
            self.clock.advance(self.seconds)
        return super().poll()


def test_waiting_for_a_thread_is_no_hanging():
    """Many that failed at a start wait long for the few slow threads, and are well again."""
    clock, threads, repo = queued(Failing(partly=False))
    repo.poll_once(threads)
    threads.work()
    repo.poll_once(threads)
    repo._poller = Well()
    clock.advance(3600)
    repo.poll_once(threads)
    clock.advance(600)
    threads.work()
    repo.poll_once(threads)
    clock.advance(3600)
    repo.poll_once(threads)
    assert threads.slow == [False, True, False]


def test_a_look_that_itself_takes_long_is_slow_the_next_time():
    clock, threads, repo = queued(Well())
    repo._poller = Well(clock, 6.0)
    for _ in range(2):
        repo.poll_once(threads)
        threads.work()
        repo.poll_once(threads)
        clock.advance(3600)
    assert threads.slow == [False, True]


def refused_by_ourselves(clock):
    until = clock.now() + timedelta(seconds=40)
    cause = RateLimited("GET /x", 0, until, "secondary")
    return GitHubPollingError("alice/stable", "issues", cause)


@pytest.mark.parametrize("whole", [True, False])
def test_a_look_that_our_own_budget_cut_short_has_not_seen_everything(whole):
    clock, threads, repo = queued(Well())
    error = refused_by_ourselves(clock)
    repo._poller.result = PollResult(ScanResult(error=None if whole else error), error=error)
    repo.poll_once(threads)
    threads.work()
    over = repo.poll_once(threads)
    assert over.held and over.error is error and over.failures == 0
    assert repo.is_incomplete and repo.finished_polls == 1 and repo.seconds_left() == 40.0
    repo._poller.result = PollResult()
    clock.advance(40)
    repo.poll_once(threads)
    threads.work()
    over = repo.poll_once(threads)
    assert not over.held and not repo.is_incomplete


def test_the_service_holds_a_limit_against_the_account_that_met_it(found_town, monkeypatch):
    asked = []

    class Known(OutboxSender):
        def __init__(self, *args, account, **more):
            asked.append(account)
            super().__init__(*args, account=account, **more)

    monkeypatch.setattr("hostler.service.wiring.OutboxSender", Known)
    with found_town().service() as service:
        repo = RepoName.parse(REPO)
        assert asked[0](repo) == service.app.hub.credentials.account(repo) == "token"

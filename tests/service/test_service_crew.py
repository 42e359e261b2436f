"""The workers: what fails is tried again, what is lent frees its token, nobody waits for a desk."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from types import SimpleNamespace

import pytest

from hostler.checkouts.process import Halted
from hostler.clock import FakeClock
from hostler.errors import StoreBusy
from hostler.runs.states import FenceLost, WatchClosed
from hostler.service.repositories import RepoContexts
from hostler.service.scheduling.dispatch import must_stop
from hostler.service.scheduling.workers import (
    MAX_RETRY_SECONDS,
    GlobalWorkLimiter,
    WorkerJob,
    WorkerPool,
)
from hostler.store.runs import RunState
from hostler.store.tasks import TaskState


class Yard:
    """A crew under a clock that stands still, and everything that it says."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.limiter = GlobalWorkLimiter(2)
        self.pool = ThreadPoolExecutor(4)
        self.ended: list[str] = []
        self.trouble: list[BaseException] = []
        self.freed = threading.Semaphore(0)
        self.workers = WorkerPool(
            self.pool,
            self.limiter,
            self.clock,
            ended=lambda job: self.ended.append(job.name),
            troubled=lambda _, error: self.trouble.append(error),
            freed=self.freed.release,
        )

    def start(self, act, again=None) -> None:
        assert self.limiter.try_acquire()
        self.workers.start(WorkerJob("r1", "stable", act, again or act))

    def over(self) -> None:
        assert self.freed.acquire(timeout=30)
        wait(self.workers.futures())


@pytest.fixture
def yard():
    made = Yard()
    yield made
    made.pool.shutdown()


def raising(error):
    def act():
        raise error

    return act


def test_work_that_ends_frees_its_token_and_tells(yard):
    yard.start(lambda: None)
    yard.over()
    assert (yard.ended, yard.limiter.in_flight()) == (["r1"], 0)
    assert yard.workers.start_due() is None


def test_what_fails_is_tried_again_later_each_time_in_its_second_form(yard):
    yard.start(raising(AssertionError("only the first time")), raising(StoreBusy("x", 1.0)))
    pauses = []
    for _ in range(9):
        yard.over()
        assert yard.limiter.in_flight() == 0
        pauses.append(yard.workers.start_due())
        yard.clock.advance(pauses[-1])
        assert yard.workers.start_due() is None
    yard.over()
    assert pauses == [1, 2, 4, 8, 16, 32, *[MAX_RETRY_SECONDS] * 3]
    assert isinstance(yard.trouble[0], AssertionError)
    assert {type(error) for error in yard.trouble[1:]} == {StoreBusy}
    assert yard.ended == []


@pytest.mark.parametrize("error", [WatchClosed("r1"), Halted()])
def test_leaving_is_no_trouble_and_nothing_is_tried_again(yard, error):
    yard.start(raising(error))
    yard.over()
    assert (yard.trouble, yard.ended, yard.workers.start_due()) == ([], [], None)


def test_somebody_elses_run_is_left_alone(yard):
    yard.start(raising(FenceLost("r1", 1, "ours", "it is not")))
    yard.over()
    assert len(yard.trouble) == 1
    assert yard.workers.start_due() is None


def test_a_lent_place_frees_its_token_once_and_takes_it_back(yard):
    go_on = threading.Event()
    yard.start(lambda: go_on.wait(30))
    assert yard.workers.release_token("r1") and not yard.workers.release_token("r1")
    assert yard.freed.acquire(blocking=False) and not yard.freed.acquire(blocking=False)
    assert yard.limiter.in_flight() == 0
    assert yard.limiter.try_acquire()
    yard.workers.retake_token("r1")
    assert yard.limiter.in_flight() == 1
    assert yard.workers.release_token("r1")
    assert yard.freed.acquire(blocking=False)
    go_on.set()
    yard.over()
    # It ended while its place was lent: nothing is given back twice.
    assert yard.limiter.in_flight() == 0
    assert not yard.workers.release_token("r1")


def test_a_place_that_came_back_too_late_gives_its_token_up(yard):
    assert yard.limiter.try_acquire()
    yard.workers.retake_token("gone")
    assert yard.limiter.in_flight() == 0


@pytest.mark.parametrize("run", RunState)
@pytest.mark.parametrize("state", TaskState)
def test_a_run_is_stray_when_its_task_moved_on(run, state):
    task = SimpleNamespace(state=state, over=state in ("stopped", "done", "failed"))
    stray = must_stop(SimpleNamespace(state=run), task)
    if run is RunState.ADMITTED:
        # A launch that fails moves its task before its run has ended.
        assert stray is task.over
    else:
        assert stray is (state is not TaskState.RUNNING)


def test_whoever_asks_which_desks_are_ready_waits_for_nobody(monkeypatch):
    repo_contexts, asked, go_on = RepoContexts(None), threading.Event(), threading.Event()

    def slow(project):
        asked.set()
        go_on.wait(30)
        return f"the desk of {project}"

    monkeypatch.setattr(repo_contexts, "_make", slow)
    maker = threading.Thread(target=repo_contexts.of, args=("stable",))
    maker.start()
    assert asked.wait(30)
    assert repo_contexts.ready() == frozenset()
    go_on.set()
    maker.join(30)
    assert repo_contexts.ready() == {"stable"}
    assert repo_contexts.of("stable") == "the desk of stable"


def without_threads(*_):
    raise RuntimeError("can't start new thread")


def test_work_for_which_no_thread_could_be_had_is_done_once_and_later(yard, monkeypatch):
    """The executor queues it before it fails: a worker that finds it there must not begin it."""
    gate, done = threading.Event(), []
    yard.start(lambda: gate.wait(30))
    assert yard.limiter.try_acquire()
    with monkeypatch.context() as patch:
        patch.setattr(yard.pool, "_adjust_thread_count", without_threads)
        yard.workers.start(
            WorkerJob("r2", "stable", lambda: done.append("act"), lambda: done.append("2"))
        )
    # Its token is free, it is told, and a restart waits for it.
    assert yard.limiter.in_flight() == 1 and len(yard.trouble) == 1
    assert yard.workers.names() == {"r1", "r2"}
    gate.set()
    yard.over()
    yard.pool.submit(lambda: None).result()
    assert done == []
    yard.clock.advance(yard.workers.start_due())
    assert yard.workers.start_due() is None
    yard.over()
    assert done == ["2"] and yard.limiter.in_flight() == 0


def test_one_that_cannot_be_tried_again_keeps_none_of_the_others_back(yard, monkeypatch):
    for name in ("r1", "r2", "r3"):
        yard.workers.adopt(WorkerJob(name, "stable", raising(ValueError(name)), lambda: None))
    for _ in range(3):
        yard.over()
    yard.workers.reap()
    yard.clock.advance(1)
    with monkeypatch.context() as patch:
        patch.setattr(yard.pool, "submit", without_threads)
        yard.workers.start_due()
    assert yard.workers.names() == {"r1", "r2", "r3"} and yard.limiter.in_flight() == 0


def test_what_is_through_and_not_reaped_is_pending_and_so_is_what_is_tried_again(yard):
    yard.start(raising(ValueError("x")), lambda: None)
    yard.over()
    assert yard.limiter.in_flight() == 0
    yard.workers.reap()
    assert yard.workers.pending() == 1
    yard.clock.advance(1)
    yard.workers.start_due()
    yard.over()
    assert (yard.limiter.in_flight(), yard.workers.pending()) == (0, 1)
    assert (yard.workers.reap(), yard.workers.pending()) == (1, 0)

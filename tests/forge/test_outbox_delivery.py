"""Writes seen through to their end, by ourselves or by whoever works on the home."""

from __future__ import annotations

from contextlib import closing

import pytest
from outbox_fixture import Post

from hostler.config.settings import Labels
from hostler.forge.labels import queue_labels, wanted_labels
from hostler.forge.outbox.rules import OutboxPolicy
from hostler.forge.outbox.sender import DeliveryCallbacks, OutboxSender, SendStage, WriteDelivery
from hostler.store import open_store
from hostler.store.engine.locks import HomeLock
from hostler.store.outbox import WriteState

DEEDS = wanted_labels(Labels())
BOUND = 120.0


class Driven:
    """The house's clock, moved on by whoever waits on it; others act before each wait."""

    def __init__(self, sandbox_repo) -> None:
        self._house = sandbox_repo
        self.now = sandbox_repo.clock.now
        self.monotonic = sandbox_repo.clock.monotonic
        self.meanwhile = lambda: None

    def wakeup(self):
        return _Wakeup(self, self._house)


class _Wakeup:
    def __init__(self, clock, sandbox_repo) -> None:
        self._clock = clock
        self._house = sandbox_repo
        self._flag = False

    def set(self):
        self._flag = True

    def clear(self):
        self._flag = False

    def wait(self, timeout):
        self._clock.meanwhile()
        if not self._flag:
            self._house.pass_time(timeout)
        return self._flag


@pytest.fixture
def driven(sandbox_repo):
    return Driven(sandbox_repo)


@pytest.fixture
def store(database, driven):
    with closing(open_store(database, clock=driven)) as opened:
        yield opened


@pytest.fixture
def lock(database, driven):
    held = HomeLock.take(database, driven)
    yield held
    held.release()


@pytest.fixture
def deliver(sandbox_repo, store, database, driven):
    """Queue labels and see them through: the states, what was told, and whom it was left to."""

    def run(deeds=DEEDS, seconds=BOUND, pace=None):
        with store.write("outbox") as tx:
            tokens = queue_labels(tx, sandbox_repo.name, deeds)
        names, holders = [], []
        told = DeliveryCallbacks(lambda row: names.append((row.token, row.state)), holders.append)
        delivery = WriteDelivery(
            database,
            store,
            sandbox_repo.forge,
            sandbox_repo.name,
            tokens,
            driven,
            pace or OutboxPolicy(),
            told,
        )
        rows = delivery.wait_until_settled(seconds)
        assert names == [(row.token, row.state) for row in rows if row.settled]
        return [row.state for row in rows], holders

    return run


def labels(sandbox_repo):
    sandbox_repo.tune(visibility_delay=0)
    sandbox_repo.pass_time(400)
    return sorted(label["name"] for label in sandbox_repo.do("GET", "labels"))


WANTED = sorted(deed.name for deed in DEEDS)
SENT = [WriteState.SENT] * 4


def test_without_anybody_else_we_send_them(sandbox_repo, deliver):
    assert deliver() == (SENT, [])
    assert labels(sandbox_repo) == WANTED


def test_there_is_a_pause_between_writes(sandbox_repo, deliver):
    begun = sandbox_repo.clock.now()
    deliver()
    assert (sandbox_repo.clock.now() - begun).total_seconds() >= 3


def test_the_lock_is_free_while_we_wait(database, driven, deliver, sandbox_repo):
    sandbox_repo.fault("fail_after", method="POST", route="*/labels")
    taken = []

    def take():
        HomeLock.take(database, driven).release()
        taken.append(True)

    driven.meanwhile = take
    assert deliver()[0] == SENT
    assert taken


def test_a_service_that_holds_the_home_sends_them(sandbox_repo, store, driven, lock, deliver):
    service = Post(sandbox_repo, store)
    driven.meanwhile = service.sender.send_due
    states, holders = deliver()
    assert states == SENT and len(holders) == 1 and holders[0].pid
    assert len(service.settled) == 4 and labels(sandbox_repo) == WANTED


def test_when_the_service_leaves_we_go_on(sandbox_repo, driven, lock, deliver):
    driven.meanwhile = lock.release
    states, holders = deliver()
    assert states == SENT and len(holders) == 1
    assert labels(sandbox_repo) == WANTED


def test_a_service_that_does_nothing_is_not_waited_for_for_ever(
    sandbox_repo, driven, lock, deliver
):
    states, _ = deliver()
    assert states == [WriteState.QUEUED] * 4
    assert labels(sandbox_repo) == []


def test_an_answer_lost_after_the_write_makes_no_second_label(sandbox_repo, deliver):
    sandbox_repo.fault("fail_after", method="POST", route="*/labels", count=None)
    assert deliver()[0] == SENT
    assert labels(sandbox_repo) == WANTED


def test_a_write_that_stays_unclear_is_left_in_the_outbox(sandbox_repo, deliver):
    sandbox_repo.fault("fail_before", method="POST", route="*/labels")
    sandbox_repo.fault("fail_before", method="GET", route="*/labels/*", count=None)
    states, _ = deliver()
    # Nobody can tell whether the first one exists, and the others keep their order.
    assert states == [WriteState.UNCLEAR, *[WriteState.QUEUED] * 3]
    sandbox_repo.sandbox.app.pipeline.faults.remove()
    assert deliver(seconds=600)[0] == SENT
    assert labels(sandbox_repo) == WANTED


@pytest.mark.parametrize("act", SendStage)
def test_labels_of_a_killed_process_are_made_without_a_wait(sandbox_repo, store, deliver, act):
    class Killed(Exception):
        pass

    def kill(done, _token):
        if done is act:
            raise Killed

    with store.write("outbox") as tx:
        queue_labels(tx, sandbox_repo.name, DEEDS[:1])
    with pytest.raises(Killed):
        OutboxSender(store, sandbox_repo.hub.repo, sandbox_repo.clock, observe=kill).send_due()
    begun = sandbox_repo.clock.now()
    assert deliver(DEEDS[:1])[0] == [WriteState.SENT]
    assert sandbox_repo.clock.now() == begun
    assert labels(sandbox_repo) == [DEEDS[0].name]


@pytest.mark.parametrize("fault", ["fail_before", "fail_after"])
def test_a_label_that_github_shows_late_is_made_once(sandbox_repo, deliver, fault):
    sandbox_repo.tune(visibility_delay=250)
    sandbox_repo.fault(fault, method="POST", route="*/labels")
    assert deliver(DEEDS[:1])[0] == [WriteState.SENT]
    assert labels(sandbox_repo) == [DEEDS[0].name]


def test_labels_outlast_an_outage_of_a_minute(sandbox_repo, deliver):
    sandbox_repo.fault("fail_before", method="POST", route="*/labels", count=4)
    begun = sandbox_repo.clock.now()
    assert deliver(DEEDS[:1])[0] == [WriteState.SENT]
    assert (sandbox_repo.clock.now() - begun).total_seconds() >= 60


def test_a_label_is_not_given_up_while_it_may_yet_be_seen(sandbox_repo, deliver):
    sandbox_repo.tune(visibility_delay=250)
    sandbox_repo.fault("fail_after", method="POST", route="*/labels", count=None)
    assert deliver(DEEDS[:1])[0] == [WriteState.UNCLEAR]
    assert deliver(DEEDS[:1], seconds=600)[0] == [WriteState.SENT]
    assert labels(sandbox_repo) == [DEEDS[0].name]


def test_a_refusal_for_good_ends_the_wait(sandbox_repo, deliver):
    sandbox_repo.fault("status", status=403, method="POST", route="*/labels", count=5)
    states, _ = deliver(DEEDS[:2])
    assert states == [WriteState.FAILED, WriteState.SENT]


def test_what_else_waits_for_the_repository_is_left_alone(sandbox_repo, store, deliver):
    number = sandbox_repo.issue()
    service = Post(sandbox_repo, store)
    service.say(number, "t1")
    assert deliver()[0] == SENT
    assert service.row("t1").state is WriteState.QUEUED
    assert sandbox_repo.comments(number) == []
    service.drain()
    assert service.settled == [("t1", WriteState.SENT)]

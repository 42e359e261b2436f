"""Writes seen through to their end, by ourselves or by whoever works on the home."""

from __future__ import annotations

from contextlib import closing

import pytest
from forge_post import Post

from hostler.config.settings import Labels
from hostler.forge.labels import queue_labels, wanted_labels
from hostler.forge.outbox.rules import OutboxPace
from hostler.forge.outbox.sender import DeliveryCallbacks, OutboxSender, SendStage, WriteDelivery
from hostler.store import open_store
from hostler.store.engine.locks import HomeLock
from hostler.store.outbox import WriteState

DEEDS = wanted_labels(Labels())
BOUND = 120.0


class Driven:
    """The house's clock, moved on by whoever waits on it; others act before each wait."""

    def __init__(self, house) -> None:
        self._house = house
        self.now = house.clock.now
        self.monotonic = house.clock.monotonic
        self.meanwhile = lambda: None

    def wakeup(self):
        return _Wakeup(self, self._house)


class _Wakeup:
    def __init__(self, clock, house) -> None:
        self._clock = clock
        self._house = house
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
def driven(house):
    return Driven(house)


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
def deliver(house, store, database, driven):
    """Queue labels and see them through: the states, what was told, and whom it was left to."""

    def run(deeds=DEEDS, seconds=BOUND, pace=None):
        with store.write("outbox") as tx:
            tokens = queue_labels(tx, house.name, deeds)
        names, holders = [], []
        told = DeliveryCallbacks(lambda row: names.append((row.token, row.state)), holders.append)
        delivery = WriteDelivery(
            database, store, house.forge, house.name, tokens, driven, pace or OutboxPace(), told
        )
        rows = delivery.see_through(seconds)
        assert names == [(row.token, row.state) for row in rows if row.settled]
        return [row.state for row in rows], holders

    return run


def labels(house):
    house.tune(visibility_delay=0)
    house.pass_time(400)
    return sorted(label["name"] for label in house.do("GET", "labels"))


WANTED = sorted(deed.name for deed in DEEDS)
SENT = [WriteState.SENT] * 4


def test_without_anybody_else_we_send_them(house, deliver):
    assert deliver() == (SENT, [])
    assert labels(house) == WANTED


def test_there_is_a_pause_between_writes(house, deliver):
    begun = house.clock.now()
    deliver()
    assert (house.clock.now() - begun).total_seconds() >= 3


def test_the_lock_is_free_while_we_wait(database, driven, deliver, house):
    house.fault("fail_after", method="POST", route="*/labels")
    taken = []

    def take():
        HomeLock.take(database, driven).release()
        taken.append(True)

    driven.meanwhile = take
    assert deliver()[0] == SENT
    assert taken


def test_a_service_that_holds_the_home_sends_them(house, store, driven, lock, deliver):
    service = Post(house, store)
    driven.meanwhile = service.sender.send_due
    states, holders = deliver()
    assert states == SENT and len(holders) == 1 and holders[0].pid
    assert len(service.settled) == 4 and labels(house) == WANTED


def test_when_the_service_leaves_we_go_on(house, driven, lock, deliver):
    driven.meanwhile = lock.release
    states, holders = deliver()
    assert states == SENT and len(holders) == 1
    assert labels(house) == WANTED


def test_a_service_that_does_nothing_is_not_waited_for_for_ever(house, driven, lock, deliver):
    states, _ = deliver()
    assert states == [WriteState.QUEUED] * 4
    assert labels(house) == []


def test_an_answer_lost_after_the_write_makes_no_second_label(house, deliver):
    house.fault("fail_after", method="POST", route="*/labels", count=None)
    assert deliver()[0] == SENT
    assert labels(house) == WANTED


def test_a_write_that_stays_unclear_is_left_in_the_outbox(house, deliver):
    house.fault("fail_before", method="POST", route="*/labels")
    house.fault("fail_before", method="GET", route="*/labels/*", count=None)
    states, _ = deliver()
    # Nobody can tell whether the first one exists, and the others keep their order.
    assert states == [WriteState.UNCLEAR, *[WriteState.QUEUED] * 3]
    house.sandbox.app.pipeline.faults.remove()
    assert deliver(seconds=600)[0] == SENT
    assert labels(house) == WANTED


@pytest.mark.parametrize("act", SendStage)
def test_labels_of_a_killed_process_are_made_without_a_wait(house, store, deliver, act):
    class Killed(Exception):
        pass

    def kill(done, _token):
        if done is act:
            raise Killed

    with store.write("outbox") as tx:
        queue_labels(tx, house.name, DEEDS[:1])
    with pytest.raises(Killed):
        OutboxSender(store, house.hub.repo, house.clock, observe=kill).send_due()
    begun = house.clock.now()
    assert deliver(DEEDS[:1])[0] == [WriteState.SENT]
    assert house.clock.now() == begun
    assert labels(house) == [DEEDS[0].name]


@pytest.mark.parametrize("fault", ["fail_before", "fail_after"])
def test_a_label_that_github_shows_late_is_made_once(house, deliver, fault):
    house.tune(visibility_delay=250)
    house.fault(fault, method="POST", route="*/labels")
    assert deliver(DEEDS[:1])[0] == [WriteState.SENT]
    assert labels(house) == [DEEDS[0].name]


def test_labels_outlast_an_outage_of_a_minute(house, deliver):
    house.fault("fail_before", method="POST", route="*/labels", count=4)
    begun = house.clock.now()
    assert deliver(DEEDS[:1])[0] == [WriteState.SENT]
    assert (house.clock.now() - begun).total_seconds() >= 60


def test_a_label_is_not_given_up_while_it_may_yet_be_seen(house, deliver):
    house.tune(visibility_delay=250)
    house.fault("fail_after", method="POST", route="*/labels", count=None)
    assert deliver(DEEDS[:1])[0] == [WriteState.UNCLEAR]
    assert deliver(DEEDS[:1], seconds=600)[0] == [WriteState.SENT]
    assert labels(house) == [DEEDS[0].name]


def test_a_refusal_for_good_ends_the_wait(house, deliver):
    house.fault("status", status=403, method="POST", route="*/labels", count=5)
    states, _ = deliver(DEEDS[:2])
    assert states == [WriteState.FAILED, WriteState.SENT]


def test_what_else_waits_for_the_repository_is_left_alone(house, store, deliver):
    number = house.issue()
    service = Post(house, store)
    service.say(number, "t1")
    assert deliver()[0] == SENT
    assert service.row("t1").state is WriteState.QUEUED
    assert house.comments(number) == []
    service.drain()
    assert service.settled == [("t1", WriteState.SENT)]

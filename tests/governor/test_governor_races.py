"""Many who ask at once: exactly one probe, one learned cap, and no cap that is passed."""

from __future__ import annotations

import threading
from contextlib import closing
from functools import partial

import pytest
from governor_yard import learning, process

from hostler.governor.adaptive.controller import ProviderReport, apply_report
from hostler.governor.adaptive.model import (
    BreakerState,
    LeaseSlot,
    LimitReport,
    PoolState,
    Reason,
    Source,
)
from hostler.governor.adaptive.state import dump_state, load_state
from hostler.governor.gates import LeaseGranted, LeaseRequest
from hostler.governor.holders import HostView
from hostler.governor.leases import acquire, release_lease
from hostler.store.governor import all_leases, find_pool_state, put_pool_state
from loaded_children import CONTEXT

CROWD = 8
HALF_OPEN = PoolState(dynamic_cap=4, breaker_state=BreakerState.HALF_OPEN)


def host(number: int) -> HostView:
    return HostView(process(number + 1), 64_000, lambda _: True, lambda: 0.5)


def learn(database, state, pool="anthropic"):
    with closing(database.open()) as store, store.write("admission") as tx:
        put_pool_state(tx, pool, dump_state(state))


def known(database, pool="anthropic"):
    with closing(database.open()) as store, store.read() as tx:
        return load_state(find_pool_state(tx, pool)), all_leases(tx)


def ask_at_once(database, gate, answers, number):
    """One who asks, through a store of its own."""
    with closing(database.open()) as store:
        gate.wait(60)
        with store.write("admission", relaxed=True) as tx:
            request = LeaseRequest(f"run-{number}", f"p{number}", task_id=f"t{number}")
            answer = acquire(tx, request, learning(4), host(number))
    answers.put(isinstance(answer, LeaseGranted))


def together(act, count=CROWD):
    """All of them at once; an error of one is an error here."""
    failed: list[BaseException] = []

    def guarded(number):
        try:
            act(number)
        except BaseException as error:
            failed.append(error)

    crowd = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join(120)
    assert not failed and not any(one.is_alive() for one in crowd)


class Answers(list):
    """As a queue, for threads."""

    put = list.append


def test_half_open_admits_exactly_one_lease_under_contention(database):
    learn(database, HALF_OPEN)
    answers = Answers()
    together(partial(ask_at_once, database, threading.Barrier(CROWD), answers))
    assert sorted(answers) == [False] * (CROWD - 1) + [True]
    state, (lease,) = known(database)
    assert state.probe == LeaseSlot(lease.project, lease.task_id)


def test_half_open_admits_exactly_one_of_many_processes(sqlite_database):
    learn(sqlite_database, HALF_OPEN)
    gate, answers = CONTEXT.Barrier(CROWD), CONTEXT.Queue()
    crowd = [
        CONTEXT.Process(target=ask_at_once, args=(sqlite_database, gate, answers, number))
        for number in range(CROWD)
    ]
    for one in crowd:
        one.start()
    found = [answers.get(timeout=60) for _ in crowd]
    for one in crowd:
        one.join(60)
    assert sorted(found) == [False] * (CROWD - 1) + [True]


def test_two_stores_over_one_home_keep_one_dynamic_cap(database):
    """Each engine learns of one death: the shared cap is halved once, and both count."""
    policy = learning(8)
    both = threading.Barrier(2)

    def engine(number):
        with closing(database.open()) as store:
            both.wait(60)
            slot = LeaseSlot("ant", f"t{number}")
            report = LimitReport(slot, Source.DEATH, Reason.BURST)
            with store.write("admission", relaxed=True) as tx:
                apply_report(tx, policy, "", ProviderReport(slot, (report,)))
            for turn in range(8):
                request = LeaseRequest(f"run-{number}-{turn}", "ant", task_id=f"t{number}-{turn}")
                with store.write("admission", relaxed=True) as tx:
                    acquire(tx, request, policy, host(number))

    together(engine, 2)
    state, leases = known(database)
    assert (state.dynamic_cap, state.rate_limit_events) == (4, 2)
    assert len(leases) == 4


@pytest.mark.parametrize("rounds", [6])
def test_two_pools_at_once_never_pass_either_cap(database, rounds):
    policy = learning(3, "anthropic", "openai")
    most: list[int] = []

    def agent(number):
        pool = ("anthropic", "openai")[number % 2]
        with closing(database.open()) as store:
            for turn in range(rounds):
                name = f"run-{number}-{turn}"
                request = LeaseRequest(name, f"p{number}", pool, task_id=name)
                with store.write("admission", relaxed=True) as tx:
                    answer = acquire(tx, request, policy, host(number))
                    most.append(sum(one.pool == pool for one in all_leases(tx)))
                if isinstance(answer, LeaseGranted):
                    with store.write("admission", relaxed=True) as tx:
                        release_lease(tx, name, policy)

    together(agent)
    assert max(most) <= 3
    assert known(database)[1] == []

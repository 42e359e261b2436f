"""kill -9 of the service, the shim and the agent, between every two steps of an issue's walk.

Each walk goes from the issue to its merge: work, a remark, the edited remark, the end. Watched
from outside: each agent holds a lock for its whole tree and notes that it lived.
"""

from __future__ import annotations

from contextlib import closing

import pytest
from service_kill_checks import all_is_well
from service_kill_child import Stop
from service_kill_nursery import Nursery
from service_kill_walk import RESULT, Cut, walking
from service_town import github

from hostler.clock import SystemClock
from hostler.store.admin.migrate import upgrade
from hostler.store.engine.backend import find_place
from hostler.store.engine.sqlite import Patience

# One after another, as a turn passes them. What another thread may overtake ends its row.
IN_A_ROW = [
    ("scanned", "heard"),
    ("admitted", "spawned"),
    ("locked", "starting"),
    ("running", "never_started"),
    ("go", "over"),
    ("exited", "finishing"),
    ("committed", "taken"),
    ("guarded", "tested"),
    ("pushed", "finished", "ended"),
    ("marked", "made"),
    ("stored",),
]
WHEN_MERGED = [("scanned", "heard"), ("marked", "made"), ("stored",)]
ACTS = ("file", "say", "edit", "merge")


@pytest.fixture(scope="session")
def kills_template(tmp_path_factory):
    """A migrated database to copy."""
    home = tmp_path_factory.mktemp("kills")
    quiet = {"patience": Patience(), "progress": lambda done, total: None}
    upgrade(home, find_place(home, None), clock=SystemClock(), **quiet)
    return home / "hostler.db"


@pytest.fixture(scope="module")
def nursery():
    with closing(Nursery()) as made:
        yield made


@pytest.fixture
def walk(nursery, tmp_path, kills_template):
    with github() as hub, walking(hub, nursery, tmp_path, kills_template) as walk:
        yield walk


def cuts(steps, write="", victims="service"):
    """Where to kill; of the sender's steps, those of one kind of write."""
    sending = ("marked", "made", "stored")
    return [Cut(step, write if step in sending else "", victims) for step in steps]


def finish_sending(walk, sleeper):
    """Wake one that slept between an answer and its storing."""
    sleeper.arm(Stop("stored"))
    walk.wake(sleeper)
    sleeper.stopped()
    sleeper.go_on()


def finish(walk):
    walk.see_all()
    walk.child.leave()
    all_is_well(walk)


# -- each step and each victim once, in as few walks as possible ------------------------------


# One walk with seventeen services: on a busy machine it takes longer than other tests may.
@pytest.mark.long
@pytest.mark.timeout(300)
def test_services_killed_once_at_every_step_of_a_run(walk):
    walk.file(*cuts(["admitted", "spawned", "locked", "starting", "running", "never_started"]))
    walk.say(*cuts(["go", "over", "exited", "finishing", "committed"]))
    walk.edit(*cuts(["taken", "guarded", "tested", "pushed", "finished", "ended"]))
    walk.merge()
    finish(walk)


def test_agents_and_shims_killed_at_work(walk):
    walk.file(Cut("go", victims="agent"))
    walk.say(Cut("go", victims="service and shim"), Cut("go", victims="shim"))
    walk.edit(*cuts(["spawned", "announced", "locked"], victims="shim"))
    walk.merge()
    finish(walk)


@pytest.mark.long
def test_a_service_killed_over_an_answer_that_was_lost(walk):
    walk.go_wrong(kind="fail_after", method="POST", route="*/pulls")
    walk.file(*cuts(["scanned", "heard"]), *cuts(["marked", "made"], "pull:"))
    walk.go_wrong(kind="fail_after", method="POST", route="*/replies")
    walk.say(Cut("stored", "reply-"))
    walk.go_wrong(kind="cut", when="after", method="POST", route="*/replies")
    walk.edit(Cut("made", "reply-"))
    walk.go_wrong(kind="fail_after", method="PATCH", route="*/issues/comments/*")
    walk.merge(Cut("stored", "status:"))
    finish(walk)


# -- every row of steps, and every victim at each -----------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("row", range(len(IN_A_ROW)), ids=[" ".join(one) for one in IN_A_ROW])
def test_services_killed_at_successive_steps(walk, row):
    walk.file(*cuts(IN_A_ROW[row], "pull:"))
    walk.say(*cuts(IN_A_ROW[row], "reply-"))
    walk.edit()
    walk.merge(*cuts(WHEN_MERGED[row % len(WHEN_MERGED)], "status:"))
    finish(walk)


@pytest.mark.long
@pytest.mark.parametrize(
    "victims", [pytest.param("shim", marks=pytest.mark.soak), "service and shim"]
)
def test_shims_killed_before_they_have_an_agent(walk, victims):
    walk.file(*cuts(["spawned", "announced", "locked"], victims=victims))
    walk.say(*cuts(["starting"], victims=victims))
    walk.edit(*cuts(["running"], victims=victims))
    walk.merge()
    finish(walk)


@pytest.mark.soak
@pytest.mark.parametrize("victims", ["agent", "service and shim", "shim"])
def test_agents_killed_at_work(walk, victims):
    walk.file(*cuts(["go"], victims=victims))
    walk.say(*cuts(["go", "go"], victims=victims))
    walk.edit()
    walk.merge()
    finish(walk)


@pytest.mark.soak
def test_agents_killed_after_their_result_have_done_their_work(walk):
    walk.file(Cut(RESULT, victims="agent"))
    walk.say(Cut(RESULT, victims="shim"))
    walk.edit(Cut(RESULT, victims="service and shim"))
    walk.merge()
    finish(walk)


@pytest.mark.long
def test_services_that_slept_change_nothing_while_the_next_agent_works(walk):
    walk.file(Cut("admitted", victims="sleep"))
    walk.say(Cut("committed", victims="sleep"))
    head = walk.head()

    def wake_all():
        for sleeper, run in walk.sleepers:
            walk.wake(sleeper)
            assert sleeper.done_with(run) == "FenceLost"
            assert walk.head() == head
            sleeper.leave()

    walk.edit(Cut("go", victims="nobody", meanwhile=wake_all))
    walk.merge()
    finish(walk)


@pytest.mark.soak
def test_services_that_slept_until_all_was_over_change_nothing(walk):
    walk.file(Cut("go", victims="sleep"))
    walk.say(Cut("tested", victims="sleep"))
    walk.edit(Cut("made", "reply-", victims="sleep"))
    walk.merge()
    walk.forget_branch()
    (watching, first), (testing, second), (sending, _) = walk.sleepers
    walk.wake(watching)
    assert watching.done_with(first) == "well"  # it sees that all is done
    walk.wake(testing)
    assert testing.done_with(second) == "FenceLost"
    finish_sending(walk, sending)
    for sleeper, _ in walk.sleepers:
        sleeper.leave()
    finish(walk)
    assert [branch["name"] for branch in walk.alice("GET", "/branches")] == ["main"]


# -- every single cut, and all of them in a row: for a long night -----------------------------


WORK = ("admitted", "spawned", "locked", "starting", "running", "go", "read", "over", "exited")
FINISH = ("finishing", "committed", "taken", "guarded", "tested", "pushed", "finished", "ended")
SEND = ("marked", "made", "stored")
WRITES = {"file": "pull:", "say": "reply-", "edit": "reply-"}
# A shim that waits for the go byte of a sleeper is waited for: there is no second.
SLEEP = ("admitted", "go", "read", "over", "exited", *FINISH)
WITH_SHIM, AT_WORK = ("spawned", "locked", "starting", "running", "go", "read"), ("go", "read")


def every_cut():
    """Each act with each cut that it can have."""
    for act in ACTS:
        for step in ("scanned", "heard"):
            yield act, Cut(step)
        for write in sorted({WRITES.get(act, "status:"), "status:"}):
            yield from ((act, Cut(step, write)) for step in SEND)
    for act in ACTS[:-1]:
        yield from ((act, Cut(step)) for step in (*WORK, *FINISH))
        yield from ((act, Cut(step, victims="sleep")) for step in SLEEP)
        yield act, Cut("made", WRITES[act], "sleep")
        for alone_or_not in ("", "service and "):
            yield from ((act, Cut(step, victims=f"{alone_or_not}shim")) for step in WITH_SHIM)
            yield from ((act, Cut(step, victims=f"{alone_or_not}agent")) for step in AT_WORK)
            yield from ((act, Cut(RESULT, victims=f"{alone_or_not}{v}")) for v in ("shim", "agent"))
        yield act, Cut(RESULT)


def named(cut):
    return f"{cut.victims} at {cut.step} {cut.about}".strip()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("act", "cut"), [pytest.param(act, cut, id=f"{act}: {named(cut)}") for act, cut in every_cut()]
)
def test_one_cut_anywhere(walk, act, cut):
    for name in ACTS:
        getattr(walk, name)(*([cut] if name == act else []))
    for sleeper, run in walk.sleepers:
        if cut.about:
            finish_sending(walk, sleeper)
        else:
            walk.wake(sleeper)
            assert sleeper.done_with(run) in ("well", "FenceLost")
        sleeper.leave()
    finish(walk)


@pytest.mark.soak
def test_services_killed_at_every_step_of_every_turn(walk):
    steps = [*WORK[:5], "never_started", *WORK[5:], *FINISH]
    walk.file(*cuts(steps))
    walk.say(*cuts(steps))
    walk.edit(*cuts(steps))
    walk.merge()
    finish(walk)

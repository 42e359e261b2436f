"""Runs from their admission to their end, on real shims and agents."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import threading
from dataclasses import replace

import pytest
from runs_house import PATIENCE, TOKEN, House, gone, stop_file

from hostler.agents.launch import Limits
from hostler.agents.outcomes import Outcome
from hostler.clock import FakeClock
from hostler.errors import StoreFull
from hostler.runs import Action, next_step, recover, request_stop, verdict_of
from hostler.runs.errors import FenceLost, NotLaunched, OutOfReach, WatchClosed
from hostler.shim import identity
from hostler.store.run_tables import runs
from hostler.store.runs import LIVE, RunState


def shown(house, run):
    return json.loads((house.home / run.folder / "run.json").read_text())


def stop(house, run, why="asked by ada"):
    with house.store.write() as tx:
        return request_stop(tx, run.run, why)


def test_a_run_goes_from_its_admission_to_its_end(house):
    house.how = "quick"
    run = house.admit()
    ended = house.boss.supervise(run)
    assert (ended.state, ended.outcome, ended.decided_by) == (RunState.ENDED, "success", "result")
    assert (ended.exit_code, ended.ended_by, ended.counted) == (0, "exit", True)
    assert (ended.input_tokens, ended.usd, ended.session) == (7, 0.5, "s1")
    assert verdict_of(ended).result.summary == "Mended."
    assert next_step(ended) == "finish"
    assert house.effects(run) == ["attached", "ended", "released"]
    assert house.begun() == 1


def test_run_json_says_all_that_the_row_says_to_its_owner_alone(house):
    house.how = "quick"
    ended = house.boss.supervise(house.admit())
    found = shown(house, ended)
    assert found["version"] == 1
    for name in ("run", "task_id", "fence", "attempt", "outcome", "why", "usd", "ended_at"):
        assert found[name] == getattr(ended, name)
    assert found["state"] == "ended"
    assert found["result"]["summary"] == "Mended."
    assert found["shim"]["pid"] == json.loads(ended.shim)["pid"]
    assert "mark" not in found["shim"]
    mode = (house.home / ended.folder / "run.json").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_run_json_follows_each_state(house):
    states = []
    house.launched = lambda run: states.append(shown(house, run)["state"])
    house.finished = lambda run: states.append(shown(house, run)["state"])
    run = house.admit()
    future = house.start(run)
    house.hear("here")
    states.append(house.row(run.run).state.value)
    house.orders.send("done")
    states.append(shown(house, future.result())["state"])
    assert states == ["admitted", "running", "finishing", "ended"]


def test_secrets_are_handed_on_but_written_nowhere(house):
    house.how = "quick"
    ended = house.boss.supervise(house.admit())
    assert house.begun() == 1
    for file in (house.home / ended.folder).rglob("*"):
        if file.is_file():
            assert house.token not in file.read_text(), file.name
    assert TOKEN in json.loads((house.home / ended.folder / "spec.json").read_text())["inherit"]


def test_an_agent_that_asks_or_fails_says_so(house):
    run = house.admit()
    future = house.start(run)
    house.orders.send("needs_input")
    asked = future.result()
    assert (asked.outcome, next_step(asked)) == ("needs_input", "ask")
    house.orders.send("exit 3")
    failed = house.boss.supervise(house.admit())
    assert (failed.outcome, failed.exit_code, failed.attempt) == ("crash", 3, 2)
    assert next_step(failed) == "retry"


def test_an_agent_over_its_time_is_ended(house):
    house.limits = Limits(wall_seconds=0.01, grace_seconds=0.2)
    ended = house.boss.supervise(house.admit())
    assert (ended.outcome, ended.ended_by) == ("timeout", "wall_timeout")


@pytest.mark.parametrize("said", ["done", "needs_input"])
def test_a_stop_outranks_what_the_agent_said(stable, house, said):
    # Time stands still: nobody looks for a stop before the agent has ended by itself.
    timeless = House(stable, house.place, house.token, clock=FakeClock())
    run = timeless.admit()
    future = timeless.start(run)
    house.hear("here")
    assert stop(house, run)
    house.orders.send(said)
    ended = future.result()
    timeless.end()
    assert ended.ended_by == "exit"
    assert (ended.outcome, ended.decided_by) == ("interrupted", "stop")
    assert "asked by ada" in ended.why
    assert verdict_of(ended).result.status == said
    assert next_step(ended) == "stop"


def test_a_stop_reaches_an_agent_at_work(house):
    run = house.admit()
    future = house.start(run)
    agent = house.hear("here")
    house.orders.send("stray")
    stray = house.hear("stray")
    assert stop(house, run)
    assert not stop(house, run, "somebody else, later")
    ended = future.result()
    assert gone(agent) and gone(stray)
    assert (ended.outcome, ended.ended_by) == ("interrupted", "stop")
    assert ended.stop_why == "asked by ada"
    assert stop_file(house.home / run.folder)["why"] == "asked by ada"


def test_a_stop_before_the_launch_starts_nothing(house):
    run = house.admit()
    assert stop(house, run)
    ended = house.boss.supervise(run)
    assert (ended.outcome, ended.counted) == ("interrupted", False)
    assert house.begun() == 0
    assert house.effects(run) == ["ended", "released"]


STEPS = ["spawned", "locked", "starting", "running", "go", "over", "exited", "finishing"]


@pytest.mark.parametrize("step", [*STEPS, "finished"])
def test_a_stop_at_any_step_is_final(stable, house, step):
    def observer(now, name):
        if now == step:
            with house.store.write() as tx:
                assert request_stop(tx, name, "now")
            # As a service does that sees the request.
            house.dispatcher.cancel(name, 0.1)

    with_stop = House(stable, house.place, house.token, observer=observer, how="quick")
    try:
        ended = with_stop.boss.supervise(house.admit())
    finally:
        with_stop.end()
    assert ended.state is RunState.ENDED
    assert (ended.stop_why, next_step(ended)) == ("now", "stop")
    assert "requeued" not in house.effects(ended)
    before_the_outcome = step not in {"exited", "finishing", "finished"}
    assert (ended.outcome == "interrupted") == before_the_outcome
    if step in {"spawned", "locked", "starting", "running"}:
        assert house.begun() == 0
        assert not ended.counted


def test_a_stop_of_an_ended_run_is_no_stop(house):
    house.how = "quick"
    ended = house.boss.supervise(house.admit())
    assert not stop(house, ended)
    assert house.row(ended.run).stop_why is None


def test_a_stop_asked_for_while_nobody_served_is_delivered_at_adoption(stable, house):
    first = House(stable, house.place, house.token)
    run = first.admit()
    future = first.start(run)
    agent = house.hear("here")
    first.dispatcher.close()
    with pytest.raises(WatchClosed):
        future.result()
    assert stop(house, run)
    (found,) = recover(house.home, house.store)
    assert (found.decision.action, found.decision.stop) == (Action.ADOPT, True)
    (ended,) = house.settle()
    assert ended.outcome == "interrupted"
    assert gone(agent)
    assert first.end() == []


def test_a_service_that_leaves_hands_its_agents_to_the_next(stable, house):
    first = House(stable, house.place, house.token)
    run = first.admit()
    future = first.start(run)
    house.hear("here")
    first.dispatcher.close()
    with pytest.raises(WatchClosed):
        future.result()
    house.orders.send("done")
    (ended,) = house.settle()
    assert (ended.run, ended.outcome) == (run.run, "success")
    first.end()


def test_an_adopted_stream_is_read_on_from_the_stored_offset(stable, house):
    """The second reader must not see the first lines: they are damaged meanwhile."""
    clock, read = FakeClock(), threading.Event()

    def observer(step, run):
        if step == "read":
            read.set()

    first = House(stable, house.place, house.token, clock=clock, observer=observer)
    run = first.admit()
    future = first.start(run)
    house.hear("here")
    house.orders.send("say 100")
    house.hear("said")
    clock.wait_for_waiters()
    clock.advance(1.0)
    assert read.wait(PATIENCE)
    first.dispatcher.close()
    with pytest.raises(WatchClosed):
        future.result()
    stored = house.row(run.run)
    output = house.home / run.folder / "stdout"
    assert (stored.input_tokens, stored.stdout_offset) == (107, output.stat().st_size)
    with output.open("r+b") as file:
        file.write(b'{"type": "usage", "input_tokens": 9999}')
    house.orders.send("say 1000")
    house.orders.send("done")
    (ended,) = house.settle()
    assert (ended.input_tokens, ended.usd) == (1107, 0.5)
    first.end()


def test_a_second_reader_of_a_run_loses(stable, house):
    run = house.admit()
    future = house.start(run)
    house.hear("here")
    other = House(stable, house.place, house.token)
    second = other.go_on(house.row(run.run))
    house.orders.send("say 5")
    house.orders.send("done")
    ends = [future, second]
    results = [end.exception() or end.result() for end in ends]
    assert sorted(isinstance(result, FenceLost) for result in results) in ([False, True],)
    assert house.row(run.run).input_tokens == 12
    assert house.effects(run) == ["attached", "ended", "released"]
    other.end()


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (NotLaunched(Outcome.NETWORK, "GitHub was not reached."), "network"),
        (OutOfReach("r", "for example."), "config"),
    ],
)
def test_a_run_that_cannot_be_launched_ends_with_a_reason(house, error, outcome):
    def fail(run):
        raise error

    house.launched = fail
    ended = house.boss.supervise(house.admit())
    assert (ended.outcome, ended.counted, ended.why) == (outcome, False, error.what)
    assert house.effects(ended) == ["ended", "released"]


def test_a_mistake_of_ours_gives_the_place_back_and_is_seen(house):
    def fail(run):
        raise ZeroDivisionError("oh")

    house.launched = fail
    run = house.admit()
    with pytest.raises(ZeroDivisionError):
        house.boss.supervise(run)
    ended = house.row(run.run)
    assert (ended.state, ended.outcome) == (RunState.ENDED, "crash")
    assert "oh" in ended.why
    assert house.effects(ended) == ["ended", "released"]


def test_a_full_database_stops_nobody_for_good(house):
    def fail(run):
        raise StoreFull("No space is left.")

    house.launched = fail
    run = house.admit()
    with pytest.raises(StoreFull):
        house.boss.supervise(run)
    assert house.row(run.run).state is RunState.ADMITTED
    assert house.boss.resume(run).outcome == "never_started"
    assert house.effects(run) == ["released", "requeued"]


def test_a_program_that_is_not_there_is_the_operators(house):
    house.program = "/nowhere/agent"
    ended = house.boss.supervise(house.admit())
    assert (ended.outcome, ended.counted, next_step(ended)) == ("config", False, "operator")
    assert ended.ended_by == "not_started"
    assert "/nowhere/agent" in ended.why


def test_a_finish_that_failed_is_done_again_with_the_same_verdict(house):
    house.how = "quick"
    seen = []

    def fail(run):
        seen.append(verdict_of(run))
        # Whatever the agent's folder says by now, the row has the word.
        (house.home / run.folder / "result.json").unlink(missing_ok=True)
        if len(seen) == 1:
            raise NotLaunched(Outcome.NETWORK, "The push met no answer.")

    house.finished = fail
    run = house.admit()
    with pytest.raises(NotLaunched):
        house.boss.supervise(run)
    assert house.row(run.run).state is RunState.FINISHING
    assert house.boss.resume(run).state is RunState.ENDED
    assert seen[0] == seen[1]
    assert seen[1].result.summary == "Mended."
    assert house.boss.resume(run).state is RunState.ENDED
    assert len(seen) == 2


def test_a_forged_last_word_hides_nobody(house):
    run = house.admit()
    future = house.start(run)
    agent = house.hear("here")
    house.orders.send("stray")
    stray = house.hear("stray")
    folder = house.home / run.folder
    shim = house.shim_of(folder)
    word = {"version": 1, "run": run.run, "ended_by": "exit", "exit_code": 10**40}
    (folder / "exit.json").write_text(json.dumps(word))
    (folder / "shim.json").unlink()
    os.kill(shim.pid, signal.SIGKILL)
    ended = future.result()
    assert gone(agent) and gone(stray)
    assert ended.outcome == "crash"
    assert ended.exit_code is None


def test_a_run_whose_folder_was_removed_is_lost_and_swept(house):
    run = house.admit()
    future = house.start(run)
    agent = house.hear("here")
    shim = house.shim_of(house.home / run.folder)
    # Moved first: somebody may be writing into it.
    shutil.rmtree((house.home / run.folder).rename(house.home / "away"))
    os.kill(shim.pid, signal.SIGUSR1)
    ended = future.result()
    assert gone(agent)
    assert (ended.outcome, ended.decided_by, ended.counted) == ("crash", "lost", True)


def test_a_run_of_another_container_is_left_alone(house):
    run = house.admit()
    folder = house.home / run.folder
    folder.mkdir(parents=True)
    (folder / "stdout").touch()
    (folder / "run.lock").touch()
    elsewhere = {**identity.mine(), "pid_namespace": "pid:[1]", "mark": "m"}
    with house.store.write() as tx:
        tx.execute(runs.update(), {"state": RunState.RUNNING.value, "shim": json.dumps(elsewhere)})
    (found,) = recover(house.home, house.store)
    assert found.decision.action is Action.LEAVE_ALONE
    with pytest.raises(OutOfReach):
        house.boss.resume(found.run)
    assert house.row(run.run).state in LIVE


def test_a_run_from_before_a_reboot_is_lost_without_a_sweep(house):
    run = house.admit()
    folder = house.home / run.folder
    folder.mkdir(parents=True)
    (folder / "stdout").write_text('{"type": "usage", "input_tokens": 3}\n')
    (folder / "run.lock").touch()
    before = {**identity.mine(), "boot_id": "another", "mark": "m"}
    with house.store.write() as tx:
        tx.execute(runs.update(), {"state": RunState.RUNNING.value, "shim": json.dumps(before)})
    (ended,) = house.settle()
    assert (ended.outcome, ended.decided_by, ended.input_tokens) == ("crash", "lost", 3)


def test_a_stale_copy_of_a_run_is_no_obstacle_and_a_wrong_fence_is(house):
    house.how = "quick"
    run = house.admit()
    ended = house.boss.supervise(run)
    assert house.boss.resume(run) == ended
    with pytest.raises(FenceLost):
        house.boss.resume(replace(run, fence=7))


def test_many_workers_end_many_runs(house):
    house.how = "quick"
    threads = threading.active_count()
    futures = [house.start(house.admit(f"t{number}")) for number in range(8)]
    # They share one place, where only one may live at a time: here they are many tasks.
    assert {future.result().outcome for future in futures} == {"success"}
    assert threading.active_count() <= threads + 5

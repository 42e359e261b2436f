"""Runs from their admission to their end, on real shims and agents."""

from __future__ import annotations

import json
import stat
import threading
from dataclasses import dataclass

import pytest
from runs_house import TOKEN

from hostler.agents.assignment import RunLimits
from hostler.agents.outcomes import Outcome
from hostler.errors import StoreFull
from hostler.runs import Supervisor, next_action, verdict_of
from hostler.runs.outcome import ProviderSignals
from hostler.runs.states import NotLaunched, RunNotVisible
from hostler.store.runs import RunState


def shown(house, run):
    return json.loads((house.home / run.folder / "run.json").read_text())


def test_a_run_goes_from_its_admission_to_its_end(house):
    house.how = "quick"
    run = house.admit_run()
    ended = house.boss.supervise(run)
    assert (ended.state, ended.outcome, ended.decided_by) == (RunState.ENDED, "success", "result")
    assert (ended.exit_code, ended.ended_by, ended.counted) == (0, "exit", True)
    assert (ended.input_tokens, ended.usd, ended.session) == (7, 0.5, "s1")
    assert verdict_of(ended).result.summary == "Mended."
    assert next_action(ended) == "finish"
    assert house.effects(run) == ["attached", "ended", "released"]
    assert house.begun() == 1


def test_a_limit_that_is_first_read_after_the_end_is_applied_too(house):
    """The run did not end because of it, so nothing else would park its pool."""
    house.how, applied = "walled", []

    @dataclass
    class SignalPlan:
        signals: ProviderSignals

        def apply(self, _tx, run):
            limits = [one.signal for one in self.signals.limits]
            applied.append((run.state, [(one.reason, one.status) for one in limits]))

    house.plan_signals = lambda _run, signals: SignalPlan(signals)
    # It reads the stream only after the end.
    supervisor = Supervisor(house.home, house.store, house.dispatcher, house, read_seconds=600.0)
    ended = supervisor.supervise(house.admit_run())
    assert (ended.state, applied) == (RunState.ENDED, [(RunState.EXITED, [(Outcome.QUOTA, 429)])])


def test_run_json_says_all_that_the_row_says_to_its_owner_alone(house):
    house.how = "quick"
    ended = house.boss.supervise(house.admit_run())
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
    run = house.admit_run()
    future = house.start(run)
    house.hear("here")
    states.append(house.row(run.run).state.value)
    house.orders.send("done")
    states.append(shown(house, future.result())["state"])
    assert states == ["admitted", "running", "finishing", "ended"]


def test_secrets_are_handed_on_but_written_nowhere(house):
    house.how = "quick"
    ended = house.boss.supervise(house.admit_run())
    assert house.begun() == 1
    for file in (house.home / ended.folder).rglob("*"):
        if file.is_file():
            assert house.token not in file.read_text(), file.name
    assert TOKEN in json.loads((house.home / ended.folder / "spec.json").read_text())["inherit"]


def test_an_agent_that_asks_or_fails_says_so(house):
    run = house.admit_run()
    future = house.start(run)
    house.orders.send("needs_input")
    asked = future.result()
    assert (asked.outcome, next_action(asked)) == ("needs_input", "ask")
    house.orders.send("exit 3")
    failed = house.boss.supervise(house.admit_run())
    assert (failed.outcome, failed.exit_code, failed.attempt) == ("crash", 3, 2)
    assert next_action(failed) == "retry"


def test_an_agent_over_its_time_is_ended(house):
    house.limits = RunLimits(wall_seconds=0.01, grace_seconds=0.2)
    ended = house.boss.supervise(house.admit_run())
    assert (ended.outcome, ended.ended_by) == ("timeout", "wall_timeout")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (NotLaunched(Outcome.NETWORK, "GitHub was not reached."), "network"),
        (RunNotVisible("r", "for example."), "config"),
    ],
)
def test_a_run_that_cannot_be_launched_ends_with_a_reason(house, error, outcome):
    def fail(run):
        raise error

    house.launched = fail
    ended = house.boss.supervise(house.admit_run())
    assert (ended.outcome, ended.counted, ended.why) == (outcome, False, error.what)
    assert house.effects(ended) == ["ended", "released"]


def test_a_mistake_of_ours_gives_the_place_back_and_is_seen(house):
    def fail(run):
        raise ZeroDivisionError("oh")

    house.launched = fail
    run = house.admit_run()
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
    run = house.admit_run()
    with pytest.raises(StoreFull):
        house.boss.supervise(run)
    assert house.row(run.run).state is RunState.ADMITTED
    assert house.boss.resume(run).outcome == "never_started"
    assert house.effects(run) == ["released", "requeued"]


def test_a_program_that_is_not_there_is_the_operators(house):
    house.program = "/nowhere/agent"
    ended = house.boss.supervise(house.admit_run())
    assert (ended.outcome, ended.counted, next_action(ended)) == ("config", False, "operator")
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
    run = house.admit_run()
    with pytest.raises(NotLaunched):
        house.boss.supervise(run)
    assert house.row(run.run).state is RunState.FINISHING
    assert house.boss.resume(run).state is RunState.ENDED
    assert seen[0] == seen[1]
    assert seen[1].result.summary == "Mended."
    assert house.boss.resume(run).state is RunState.ENDED
    assert len(seen) == 2


def test_many_workers_end_many_runs(house):
    house.how = "quick"
    threads = threading.active_count()
    futures = [house.start(house.admit_run(f"t{number}")) for number in range(8)]
    # They share one place, where only one may live at a time: here they are many tasks.
    assert {future.result().outcome for future in futures} == {"success"}
    assert threading.active_count() <= threads + 5

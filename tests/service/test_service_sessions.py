"""Sessions belong to their agents, and new tasks may begin with another one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from intake_yard import database
from why_stage import Stage

from hostler.agents.outcomes import Outcome
from hostler.agents.verdict import DecidedBy, RunVerdict
from hostler.clock import FakeClock
from hostler.config.settings import Agent, Settings, Tasks
from hostler.governor.parking import park
from hostler.model import EPOCH
from hostler.runs import transitions
from hostler.service.running.launch import write_task_file
from hostler.service.running.run_hooks import RunHooks
from hostler.service.running.run_state import session_to_resume
from hostler.service.scheduling.admission import Admission, AdmissionDeps
from hostler.service.scheduling.placement import agent_to_keep, choose_fallback, find_placement
from hostler.store.runs import Run
from hostler.store.tasks import Flow, Task, TaskState, change_task, require_task
from hostler.workflows.outcomes import RunEndFacts, decide_after_run

S = "0199a213-81c0-7800-8aa1-bbab2a035a53"
TASK = Task("t1", "p", "o/r", 1, Flow.BUGFIX, "T", "ann", TaskState.RUNNING, "", 1, session=S)


def run(name, fence, agent="helper", kind="claude", session=None):
    return Run(name, "t1", "p", fence, 1, "work", agent, kind, "x", "f", "", session=session)


def test_a_session_goes_on_with_the_agent_that_has_it():
    earlier = run("r1", 1, session=S)
    now = run("r2", 2)
    assert session_to_resume(TASK, now, [earlier, now]) == S
    assert session_to_resume(replace(TASK, session=""), now, [earlier, now]) == ""


@pytest.mark.parametrize("other", [{"agent": "spare"}, {"kind": "codex"}])
def test_another_agent_begins_a_new_one(other):
    now = run("r2", 2, **other)
    assert session_to_resume(TASK, now, [run("r1", 1, session=S), now]) == ""
    # Where nobody knows whose it was, it is nobody's.
    assert session_to_resume(TASK, now, [now]) == ""


@pytest.mark.parametrize(
    "forged", ["--dangerous", "-c", "s", f"{S} -c x", f"{S}\n", "ses_" + "a" * 26]
)
def test_a_name_that_the_program_gives_to_no_session_is_none(forged):
    now = run("r2", 2)
    task = replace(TASK, session=forged)
    assert session_to_resume(task, now, [run("r1", 1, session=forged), now]) == ""


def ended(task, verdict):
    return decide_after_run(task, verdict, RunEndFacts(EPOCH), Tasks()).task


GONE = RunVerdict(Outcome.CONFIG, DecidedBy.STREAM, "No conversation found.")


def test_a_session_that_is_gone_is_begun_anew_at_once_and_once():
    fresh = ended(replace(TASK, attempt=3), GONE)
    assert (fresh.state, fresh.session, fresh.attempt) == (TaskState.RETRYING, "", 2)
    again = ended(replace(fresh, state=TaskState.RUNNING), GONE)
    assert again.state is TaskState.PARKED


def test_a_launch_that_failed_says_nothing_about_the_session():
    parked = ended(TASK, replace(GONE, decided_by=DecidedBy.NOT_STARTED))
    assert (parked.state, parked.session) == (TaskState.PARKED, S)


AGENTS = {
    "first": Agent(kind="claude", fallback="second"),
    "second": Agent(kind="codex", fallback="third"),
    "third": Agent(kind="gemini", fallback="first"),
    "alone": Agent(kind="claude"),
}


@given(st.sampled_from(sorted(AGENTS)), st.sets(st.sampled_from(["anthropic", "openai", "google"])))
def test_the_first_whose_pool_is_open_steps_in_and_circles_end(name, closed):
    pools = {"first": "anthropic", "second": "openai", "third": "google", "alone": "anthropic"}
    chain = ["alone"] if name == "alone" else ["first", "second", "third"] * 2
    order = chain[chain.index(name) :][:3]
    wanted = next((one for one in order if pools[one] not in closed), name)
    found, agent = choose_fallback(Settings(agent=AGENTS), name, AGENTS[name], closed)
    assert found == wanted and agent is AGENTS[wanted]


@pytest.fixture
def stage():
    clock = FakeClock()
    with database(clock) as store:
        yield Stage(store, clock)


def two_agents(stage):
    main = Agent(kind="command", command=["x"], pool="main", fallback="spare")
    agents = {"main": main, "spare": main.model_copy(update={"pool": "other", "fallback": ""})}
    return stage.settings().model_copy(update={"agent": agents})


def granted_to_the_fallback(stage, settings):
    task = stage.put(agent="main")
    with stage.store.write("admission") as tx:
        park(tx, "main", stage.clock.now() + timedelta(hours=1), "The window is spent.")
    here = stage.here(1)
    deps = AdmissionDeps(
        stage.store, settings, stage.policy, lambda: set(settings.repo), lambda: here
    )
    granted = Admission(deps).admit_next()
    assert granted is not None and granted.task.id == task.id
    assert (granted.run.agent, granted.run.pool) == ("spare", "other")
    return granted.run


def work_of(settings):
    work = RunHooks.__new__(RunHooks)
    work._app = SimpleNamespace(settings=settings)
    return work


def where(stage, settings, task, closed=()):
    with stage.store.read() as tx:
        place = find_placement(settings, require_task(tx, task), {}, set(settings.repo), closed)
    return place.agent


SCOPES = ("admission", "outbox", "tasks")


def test_a_new_task_goes_to_the_fallback_and_stays_with_it(stage):
    settings = two_agents(stage)
    run = granted_to_the_fallback(stage, settings)
    with stage.store.write(*SCOPES) as tx:
        run = transitions.store_running(tx, transitions.store_starting(tx, run, {"pid": 1}))
        # The service leaves with its agents, so this attempt will not count.
        work_of(settings).requeue(tx, replace(run, session="s"))
    assert where(stage, settings, run.task_id) == "spare"


def test_a_fallback_that_never_started_binds_nobody(stage):
    settings = two_agents(stage)
    run = granted_to_the_fallback(stage, settings)
    with stage.store.write(*SCOPES) as tx:
        task = require_task(tx, run.task_id)
        # What is noted on the way to an agent's start.
        change_task(tx, task, replace(task, progress="clean-abc"))
        run = transitions.store_never_started(tx, transitions.store_starting(tx, run, {"pid": 1}))
        work_of(settings).requeue(tx, run)
    assert where(stage, settings, run.task_id) == "main"
    assert where(stage, settings, run.task_id, {"main"}) == "spare"


@given(st.sampled_from(sorted(AGENTS)), st.sampled_from([*sorted(AGENTS), "gone"]))
def test_only_a_fallback_is_kept_instead_of_whom_a_task_names(named, worked):
    task = replace(TASK, agent=named)
    stepped_in = named != "alone" and worked not in {named, "alone", "gone"}
    assert agent_to_keep(Settings(agent=AGENTS), task, worked) == (worked if stepped_in else named)


def test_begun_work_never_moves_to_another_agent(stage):
    """Also where its attempt is not counted, because the service left with its agents."""
    main = Agent(kind="command", command=["x"], pool="main", fallback="spare")
    agents = {"main": main, "spare": main.model_copy(update={"pool": "other"})}
    settings = stage.settings().model_copy(update={"agent": agents})
    task = stage.put(agent="main", progress="clean-abc")
    place = find_placement(settings, task, {}, set(settings.repo), {"main"})
    assert place is not None and place.agent == "main"
    fresh = find_placement(settings, replace(task, progress=""), {}, set(settings.repo), {"main"})
    assert fresh is not None and fresh.agent == "spare"


def test_a_conversation_outlives_a_service_that_leaves_with_its_agents(stage):
    task = stage.put(state=TaskState.RUNNING, attempt=1)
    with stage.store.write(*SCOPES) as tx:
        work_of(stage.settings()).requeue(
            tx, replace(run("r1", 1, session="sess-1"), task_id=task.id)
        )
        back = require_task(tx, task.id)
    assert (back.state, back.attempt, back.session) == (TaskState.QUEUED, 0, "sess-1")


def test_what_an_agent_put_in_the_place_of_its_task_file_is_replaced(tmp_path):
    victim, folder = tmp_path / "bashrc", tmp_path / "task"
    victim.write_text("mine")
    folder.mkdir()
    for name in ("TASK.md", ".TASK.md.new"):
        (folder / name).symlink_to(victim)
    write_task_file(folder, replace(TASK, prompt="Work."))
    (folder / ".TASK.md.new").unlink()
    write_task_file(folder, replace(TASK, prompt="Work."))
    assert victim.read_text() == "mine"
    assert (folder / "TASK.md").read_text() == "Work.\n"

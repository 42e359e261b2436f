"""Orders of tasks: what a refusal names, and what an order takes over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.config.settings import Agent, Settings
from hostler.service.tasks.submission import TaskRequest, build_submission
from hostler.store.tasks import Flow, Task, TaskState
from hostler.workflows.manual_tasks import NotSubmitted

HELPER = Agent(kind="command", command=["x"], env=["API_KEY"])
ONE = Settings(agent={"helper": HELPER})
MANY = Settings(agent=dict.fromkeys(("zed", "amy", "mia", "bob"), HELPER))
PARENT = Task(
    "parent", "yard", None, None, Flow.TASK, "Top", "ann", TaskState.RUNNING, "2026", 1,
    cwd="/fields", agent="helper", env=("WANTED",),
)  # fmt: skip


def wish(**more) -> TaskRequest:
    return replace(TaskRequest("Tidy up.", "ann", "/home/ann/barn"), **more)


def refusal(settings=ONE, parent=None, **more) -> str:
    with pytest.raises(NotSubmitted) as error:
        build_submission(settings, wish(**more), parent)
    return f"{error.value.what} {error.value.remedy}"


def test_what_was_not_said_is_empty():
    bare = TaskRequest("p", "a", "/here")
    assert (bare.project, bare.cwd, bare.repo, bare.agent, bare.title) == ("", "", "", "", "")
    assert (bare.env, bare.wall_limit_minutes, bare.max_restarts) == ((), 0, None)


def test_a_title_is_one_line():
    assert build_submission(ONE, wish(title="  Tidy \n up  now "), None).title == "Tidy up now"


def test_a_long_wrong_name_is_cut_to_80_letters():
    assert f"'{'!' * 80}'" in refusal(project="!" * 90)
    assert f"'{'-' * 80}'" in refusal(env=("-" * 90,))


def test_the_first_wrong_or_secret_variable_is_named():
    assert "'1A'" in refusal(env=("GOOD", "1A", "2B"))
    assert "GITHUB_TOKEN holds a secret" in refusal(env=("GITHUB_TOKEN", "GH_TOKEN"))


def test_agents_are_named_in_the_order_of_their_names():
    assert "amy, bob, mia, zed" in refusal(MANY)
    assert "There are: amy, bob, mia, zed." in refusal(MANY, agent="eve")


def test_a_run_hands_on_what_it_may_see_and_names_the_first_that_it_may_not():
    assert build_submission(ONE, wish(env=("WANTED", "API_KEY")), PARENT).env == (
        "WANTED",
        "API_KEY",
    )
    assert "may not see FIRST," in refusal(ONE, PARENT, env=("WANTED", "FIRST", "SECOND"))


def test_a_parent_whose_agent_is_gone_hands_on_its_own_variables_only():
    orphan = replace(PARENT, agent="gone")
    found = build_submission(ONE, wish(env=("WANTED",), agent="helper"), orphan)
    assert found.env == ("WANTED",) and found.parent_task == "parent"
    assert "may not see API_KEY" in refusal(ONE, orphan, env=("API_KEY",), agent="helper")

"""What somebody asks for becomes an order, or one clear refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.agents.prepare import GITHUB_TOKEN_VARIABLES
from hostler.bus.message import is_valid_name
from hostler.config.settings import Agent, GitHub, Repo, Settings
from hostler.errors import HostlerError
from hostler.service.tasks.submission import TaskRequest, build_submission
from hostler.store.tasks import Flow, Task, TaskState
from hostler.workflows.manual_tasks import NotSubmitted, TaskSubmission, validate_submission

HELPER = Agent(kind="command", command=["x"], env=["API_KEY"])
ONE = Settings(agent={"helper": HELPER})
TWO = Settings(
    agent={"helper": HELPER, "other": HELPER},
    repo={"stable": Repo(owner="Octo", name="Stable", agent="other")},
)
IN_FOLDER = Task(
    id="parent",
    project="yard",
    repo_full_name=None,
    issue_number=None,
    flow=Flow.TASK,
    title="Top",
    author="ann",
    state=TaskState.RUNNING,
    state_since="2026-03-01T12:00:00.000Z",
    order=1,
    cwd="/fields",
    agent="helper",
    env=("WANTED",),
)
ON_REPO = replace(
    IN_FOLDER, project="stable", repo_full_name="Octo/Stable", cwd="", agent="", issue_number=7
)


def wish(**more) -> TaskRequest:
    return replace(TaskRequest("Tidy up.", "ann", "/home/ann/barn"), **more)


def test_a_person_works_in_the_folder_that_he_is_in():
    order = build_submission(ONE, wish(), None)
    assert (order.project, order.cwd, order.repo_full_name) == ("barn", "/home/ann/barn", None)
    assert order.parent_task is None and order.agent == ""


def test_another_folder_gives_its_own_name():
    order = build_submission(ONE, wish(cwd="/somewhere/loft"), None)
    assert (order.project, order.cwd) == ("loft", "/somewhere/loft")
    assert build_submission(ONE, wish(cwd="/somewhere/loft", project="p"), None).project == "p"


@pytest.mark.parametrize("name", ["stable", "octo/stable", "OCTO/Stable"])
def test_a_repository_is_its_project(name):
    order = build_submission(TWO, wish(repo=name), None)
    assert (order.project, order.repo_full_name, order.cwd) == ("stable", "Octo/Stable", "")
    assert build_submission(TWO, wish(repo=name, project="stable"), None) == order


def test_a_child_works_where_its_parent_does():
    order = build_submission(TWO, wish(), IN_FOLDER)
    assert (order.project, order.cwd, order.parent_task) == ("yard", "/fields", "parent")
    assert order.agent == "helper"
    order = build_submission(TWO, wish(), ON_REPO)
    assert (order.project, order.repo_full_name, order.cwd) == ("stable", "Octo/Stable", "")


def test_a_child_may_work_elsewhere():
    assert build_submission(TWO, wish(cwd="/x", agent="other"), IN_FOLDER).cwd == "/x"
    order = build_submission(TWO, wish(repo="stable"), IN_FOLDER)
    assert (order.project, order.repo_full_name) == ("stable", "Octo/Stable")
    order = build_submission(TWO, wish(cwd="/x"), ON_REPO)
    assert (order.project, order.cwd, order.repo_full_name) == ("stable", "/x", None)


REFUSED = [
    (ONE, {"cwd": "/a", "repo": "b"}, None, "one of them"),
    (TWO, {"repo": "nowhere"}, None, "no repository"),
    (TWO, {"repo": "a/b"}, None, "no repository"),
    (TWO, {"repo": "stable", "project": "yard"}, None, "belongs to the project stable"),
    (ONE, {}, ON_REPO, "any more"),
    (ONE, {"project": "a b"}, None, "cannot be the name"),
    (ONE, {"project": "../x"}, None, "cannot be the name"),
    (ONE, {"here": "/"}, None, "--project"),
    (ONE, {"here": "/home/my things"}, None, "--project"),
    (ONE, {"here": ""}, None, "gone"),
    (Settings(), {}, None, "no agent"),
    (ONE, {"agent": "nobody"}, None, "There are: helper"),
    (TWO, {}, None, "Name one with --agent: helper, other"),
    (ONE, {"env": ("A=1",)}, None, "name of a variable"),
    (ONE, {"env": ("",)}, None, "name of a variable"),
    (ONE, {"env": ("MORE",)}, IN_FOLDER, "cannot hand it on"),
]


@pytest.mark.parametrize(("settings", "more", "parent", "words"), REFUSED)
def test_what_cannot_be_is_refused(settings, more, parent, words):
    with pytest.raises(HostlerError) as caught:
        build_submission(settings, wish(**more), parent)
    told = " ".join(caught.value.lines())
    assert words in told and caught.value.safe


@pytest.mark.parametrize(
    "name", [*sorted(GITHUB_TOKEN_VARIABLES), "gh_token", "OUR_TOKEN", "our_token"]
)
def test_no_agent_sees_a_secret_of_ours(name):
    settings = ONE.model_copy(update={"github": GitHub(token_env="OUR_TOKEN")})
    with pytest.raises(NotSubmitted, match="secret"):
        build_submission(settings, wish(env=("FINE", name)), None)


def test_an_agent_hands_on_what_it_may_see_itself():
    order = build_submission(ONE, wish(env=("API_KEY", "WANTED", "API_KEY")), IN_FOLDER)
    assert order.env == ("API_KEY", "WANTED")


@given(
    st.builds(
        TaskRequest,
        st.text(max_size=5),
        st.just("ann"),
        st.sampled_from(["", "/", "/home/ann", "/a b"]) | st.text(max_size=9).map("/".__add__),
        st.sampled_from(["", "p", "stable"]) | st.text(max_size=9),
        st.sampled_from(["", "/x"]),
        st.sampled_from(["", "stable", "octo/stable", "x", "#"]) | st.text(max_size=5),
        st.sampled_from(["", "helper", "other", "x"]),
        st.lists(st.sampled_from(["A", "GH_TOKEN", "b c", "WANTED"]) | st.text(max_size=4)).map(
            tuple
        ),
    ),
    st.sampled_from([None, IN_FOLDER, ON_REPO]),
    st.sampled_from([ONE, TWO, Settings()]),
)
def test_whatever_is_typed_becomes_an_order_or_a_refusal(asked, parent, settings):
    try:
        order = build_submission(settings, asked, parent)
    except HostlerError as error:
        assert error.what and error.safe
        return
    assert isinstance(order, TaskSubmission) and is_valid_name(order.project)
    assert bool(order.cwd) != bool(order.repo_full_name)
    assert not {name.upper() for name in order.env} & GITHUB_TOKEN_VARIABLES
    validate_submission(replace(order, prompt="Tidy up."))

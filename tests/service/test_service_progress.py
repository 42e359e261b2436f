"""What counts as progress of a run: a commit, a changed file, or a message of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from service_town import REPO, Town
from test_service_tasks import SAY_DONE, agent, order, outcomes, put, reach

from hostler.bus.bus import open_project_bus, open_task_bus
from hostler.bus.message import MessageSender, MessageType
from hostler.clock import FakeClock
from hostler.model import format_timestamp
from hostler.service.running.run_state import has_posted
from hostler.store.runs import Run
from hostler.store.tasks import TaskState
from hostler.workflows.manual_tasks import TaskSubmission
from hostler.workflows.workspace import folder_digest

# Three attempts: each says something somewhere and changes nothing, the last one is done.
SPEAK = (
    "n = len(list(pathlib.Path(os.environ['HOSTLER_DONE']).parent.glob('runs/*')))\n"
    "subprocess.run(['hostler', 'bus', 'post', *sys.argv[1:], f'Attempt {n}.'], check=True)\n"
    "if n == 3: " + SAY_DONE
)


@pytest.fixture
def impatient(found_town: Callable[..., Town]) -> Town:
    """A town whose tasks ask a person after the first attempt without progress."""
    return found_town(tasks={"exits_without_progress": 1})


def test_files_that_were_there_before_are_no_progress(impatient):
    town = impatient
    agent(town, "pass\n")
    with town.service() as service:
        wanted = order(town)
        (town.root / "folder" / "old").write_text("There before.")
        asked = reach(service, put(service, wanted), TaskState.NEEDS_INPUT)
        assert outcomes(service, asked) == ["success"]


def test_what_people_change_between_two_attempts_is_no_progress_of_an_agent(town):
    agent(town, "pass\n")
    changed = []

    def change(step: str, _run: str) -> None:
        if step == "admitted":
            changed.append(town.root / "folder" / f"mine{len(changed)}")
            changed[-1].touch()

    with town.service(change) as service:
        asked = reach(service, put(service, order(town)), TaskState.NEEDS_INPUT)
        assert outcomes(service, asked) == ["success"] * 3


@pytest.mark.parametrize("where", [(), ("--project", "yard")])
def test_a_message_on_the_bus_of_the_task_or_its_project_is_progress(impatient, where):
    town = impatient
    agent(town, SPEAK)
    town.agent["command"] = [*town.agent["command"], *where]
    with town.service() as service:
        done = reach(service, put(service, order(town)), TaskState.DONE)
        assert outcomes(service, done) == ["success"] * 3


def test_a_message_is_progress_of_work_on_a_repository_too(impatient):
    town = impatient
    agent(town, SPEAK + "if n == 3: pathlib.Path('notes.md').touch()\n")
    with town.service() as service:
        wanted = TaskSubmission("stable", "Write notes.", "ann", repo_full_name=REPO)
        done = reach(service, put(service, wanted), TaskState.AWAITING_FEEDBACK)
        assert outcomes(service, done) == ["success"] * 3


def test_what_the_setup_of_a_checkout_leaves_is_no_progress(found_town):
    limits = {"exits_without_progress": 1}
    town = found_town(repo={"setup_command": "echo made > by-setup"}, tasks=limits)
    agent(town, "pass\n")
    with town.service() as service:
        wanted = TaskSubmission("stable", "Write notes.", "ann", repo_full_name=REPO)
        asked = reach(service, put(service, wanted), TaskState.NEEDS_INPUT)
        assert outcomes(service, asked) == ["success"]
        assert "without progress" in asked.question


CLOCK = FakeClock()
OURS = Run("r1", "t1", "yard", 1, 1, "work", "a", "command", "", "f", format_timestamp(CLOCK.now()))
SENDERS = {
    "its agent": MessageSender.agent("r1", "t1", "yard"),
    "an earlier agent": MessageSender.agent("r0", "t1", "yard"),
    "another task's": MessageSender.agent("r9", "t9", "yard"),
    "a person": MessageSender.person("ann"),
    "the service": MessageSender.service("r1", "t1", "yard"),
}


@given(st.lists(st.tuples(st.sampled_from(sorted(SENDERS)), st.booleans()), max_size=6))
def test_only_the_words_of_a_runs_own_agent_count(tmp_path_factory, said):
    home = tmp_path_factory.mktemp("home")
    for who, on_task in said:
        bus = (
            open_task_bus(home, "yard", "t1", CLOCK)
            if on_task
            else open_project_bus(home, "yard", CLOCK)
        )
        bus.create().post(MessageType.INFO, "So.", SENDERS[who])
    assert has_posted(home, OURS) == any(who == "its agent" for who, _ in said)


def test_a_bus_that_cannot_be_read_says_nothing(tmp_path: Path):
    (tmp_path / "projects" / "yard" / "bus.jsonl").mkdir(parents=True)
    assert not has_posted(tmp_path, OURS)


def test_a_folder_that_was_emptied_has_changed(tmp_path: Path):
    (tmp_path / "a").touch()
    before = folder_digest(tmp_path)
    (tmp_path / "a").unlink()
    assert folder_digest(tmp_path) not in ("", before)
    assert folder_digest(tmp_path / "nowhere") == ""

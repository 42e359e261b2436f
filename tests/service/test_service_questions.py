"""Each question on a bus is one comment, whoever carries it, however often, across any death."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from intake_yard import database

from hostler.bus.bus import open_task_bus
from hostler.bus.message import MessageSender, MessageType
from hostler.clock import FakeClock
from hostler.runs import NewRun, admit_run
from hostler.service.running.bus_messages import QuestionForwarder
from hostler.store.outbox import open_writes
from hostler.store.tasks import TaskState, change_task, require_task
from hostler.workflows.manual_tasks import TaskSubmission, submit_task

SCOPES = ("admission", "outbox", "tasks")


class Street:
    """An issue with an agent at work, its bus, and services that come and go."""

    def __init__(self, home: Path, store, clock) -> None:
        self.home, self.store, self.clock = home, store, clock
        with store.write(*SCOPES) as tx:
            wanted = TaskSubmission("stable", "job", "ann", repo_full_name="octo/stable")
            task = submit_task(tx, wanted)
            after = replace(task, issue_number=12, state=TaskState.RUNNING, attempt=1)
            self.task = change_task(tx, task, after)
            admit_run(tx, NewRun(task.id, "stable", "work", "helper", "command"))
        self.troubles: list[BaseException] = []
        self.bus(self.task).create()
        self.start()

    def bus(self, task):
        return open_task_bus(self.home, task.project, task.id, self.clock)

    def start(self) -> None:
        self.questions = QuestionForwarder(self.store, self, self.troubles.append)

    def ask(self, text: str, sender: MessageSender | None = None) -> None:
        self.clock.advance(1)
        agent = MessageSender.agent("r1", self.task.id, "stable")
        self.bus(self.task).post(MessageType.QUESTION, text, sender or agent)

    def comments(self) -> list[str]:
        with self.store.read() as tx:
            return [row.payload for row in open_writes(tx)]


@pytest.fixture
def street(tmp_path):
    clock = FakeClock()
    with database(clock) as store:
        yield Street(tmp_path, store, clock)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["ask", "carry", "rest", "restart", "start"]), max_size=12))
def test_each_question_is_carried_once(steps):
    clock = FakeClock()
    with database(clock) as store, tempfile.TemporaryDirectory() as home:
        street, asked = Street(Path(home), store, clock), 0
        for step in [*steps, "rest"]:
            match step:
                case "ask":
                    asked += 1
                    street.ask(f"Question {asked}?")
                case "carry":
                    street.questions.forward()
                case "rest":
                    street.questions.forward_rest(street.task)
                case "start":
                    street.questions.forward_unfinished()
                case "restart":
                    street.start()
        found = street.comments()
        assert len(found) == asked and not street.troubles
        assert all(any(f"Question {n + 1}?" in text for text in found) for n in range(asked))


def test_what_a_start_finds_left_is_carried_also_of_a_task_at_rest(street):
    street.ask("Which colour?")
    with street.store.write(*SCOPES) as tx:
        present = require_task(tx, street.task.id)
        change_task(tx, present, replace(present, state=TaskState.NEEDS_INPUT))
    street.questions.forward_unfinished()
    (text,) = street.comments()
    assert "Which colour?" in text and "is at work" not in text


def test_questions_of_people_and_of_the_service_are_not_for_github(street):
    street.ask("Who?", MessageSender.person("ann"))
    street.ask("Who?", MessageSender.service())
    street.questions.forward_rest(street.task)
    assert street.comments() == []


def test_a_bus_that_cannot_be_read_is_told_of_and_ends_nothing(street):
    path = street.bus(street.task).path
    path.unlink(missing_ok=True)
    path.mkdir()
    street.questions.forward_rest(street.task)
    assert street.troubles

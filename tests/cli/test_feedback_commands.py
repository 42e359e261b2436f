"""`hostler feedback`: pull requests that go on by hand, on the real program and the sandbox."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from service_program import Program
from service_town import PLAY, Person, github
from task_program import on_terminal

from hostler.clock import SystemClock
from hostler.intake.process import TAKEN_OVER
from hostler.model import parse_timestamp
from hostler.store import open_store
from hostler.store.pull_requests import (
    PullRow,
    PullStatus,
    add_pull,
    change_pull,
    comment_floors,
    find_pull,
)
from hostler.store.tasks import Task, TaskState, change_task, require_task
from hostler.workflows.effects import apply_transition
from hostler.workflows.outcomes import to_blocked
from hostler.workflows.resume import list_blocked

SCOPES = ("admission", "outbox", "tasks")
# The first turn about words that say so gets stuck, the next one does not.
STUCK = """
version = 1

[[scene]]
when = { prompt_has = "get stuck", attempt = 2 }
steps = [{ result = { status = "blocked", summary = "There is no key." } }]
""" + PLAY.removeprefix("\nversion = 1\n")


@pytest.fixture
def program(tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[..., Program]]:
    with ExitStack() as stack:

        def make(play: str = PLAY) -> Program:
            hub = stack.enter_context(github())
            made = Program(hub, tmp_path, play, environment)
            stack.callback(made.clean)
            return made

        yield make


def with_pull(town: Program) -> Person:
    """Issue 1, and pull request 2, which awaits feedback."""
    town.files("Notes", "agent:small-job")
    done = town.call("run", "alice/stable#1")
    assert done.returncode == 0, done.stderr
    return Person(town.hub, "alice")


def pull(town: Program, number: int = 2) -> PullRow:
    with closing(open_store(town.home)) as store, store.read() as tx:
        (task,) = town.tasks()
        found = find_pull(tx, task.repo, number)
        assert found is not None
        return found


def turn(town: Program, status: PullStatus, state: TaskState, **more: Any) -> None:
    """Put the pull request and its task somewhere on their way."""
    (task,) = town.tasks()
    before = pull(town)
    with closing(open_store(town.home)) as store, store.write(*SCOPES) as tx:
        change_pull(tx, before, replace(before, status=status))
        present = require_task(tx, task.id)
        change_task(tx, present, replace(present, state=state, **more))


def get_stuck(town: Program) -> None:
    """As the rules do it."""
    (task,) = town.tasks()
    with closing(open_store(town.home)) as store, store.write(*SCOPES) as tx:
        apply_transition(
            tx, require_task(tx, task.id), to_blocked(task, "The push\nwas refused.", "")
        )


def waiting(town: Program) -> list[str]:
    """Return what is blocked while words wait for it."""
    with town.store.read() as tx:
        return [one.name for one in list_blocked(tx) if one.waiting]


def refused(town: Program, message: str, *words: str, code: int = 1, **environment: str) -> str:
    """What is said about a command that changes nothing."""
    before = town.tasks(), pull(town)
    done = town.call("feedback", *words, **environment)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert message in done.stderr.replace("\n", " "), done.stderr
    assert (town.tasks(), pull(town)) == before
    return done.stderr


def ready(town: Program, *states: str) -> Task:
    """The task, when it is in one of these states."""

    def seen() -> Task | None:
        return next((task for task in town.tasks() if task.state in states), None)

    return town.until(seen, f"{states}")


@pytest.mark.soak
def test_a_reopened_pull_request_goes_on_beside_a_service(program):
    town = program()
    alice = with_pull(town)
    service = town.start()
    town.heard(service, "Watching")
    alice("PATCH", "/pulls/2", state="closed")
    ready(town, "stopped")
    alice("PATCH", "/pulls/2", state="open")
    alice.say(2, "Please go on.")
    done = town.call("feedback", "resume", "--pr", "2", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    head = alice("GET", "/pulls/2")["head"]["sha"]
    assert (answer["repo"], answer["pr"], answer["changed"]) == ("alice/stable", 2, True)
    assert (answer["status"], answer["head_sha"]) == ("awaiting_feedback", head)
    answered = "@alice: Done: Please go on."
    town.until(lambda: [c for c in alice.comments(2) if answered in c["body"]], "an answer")
    ready(town, "awaiting_feedback")
    again = town.call("feedback", "resume", "--pr", "2", "--repo", "Alice/Stable")
    assert (again.returncode, "listened to already" in again.stdout) == (0, True)
    town.end(service)
    # One answer, and no second one.
    assert sum(answered in comment["body"] for comment in alice.comments(2)) == 1


def test_what_is_said_during_a_block_is_answered_once_after_it(program):
    town = program(STUCK)
    alice = with_pull(town)
    service = town.start()
    town.heard(service, "Watching")
    alice.say(2, "Please get stuck.")
    ready(town, "blocked")
    alice.say(2, "And another thing.")

    def listed() -> list[dict[str, Any]]:
        return json.loads(town.call("feedback", "blocked", "list", "--json").stdout)

    town.until(lambda: waiting(town), "words that wait")
    (found,) = listed()
    assert (found["repo"], found["pr"], found["issue"]) == ("alice/stable", 2, 1)
    assert (found["why"], found["waiting"]) == ("There is no key.", 1)
    assert found["do"] == "hostler feedback blocked reset --pr 2 --repo alice/stable"
    done = town.call(*found["do"].split()[1:])
    assert (done.returncode, done.stdout) == (0, "Resumed alice/stable#2: queued.\n"), done.stderr
    ready(town, "awaiting_feedback")
    answers = ["@alice: Done: Please get stuck.", "@alice: Done: And another thing."]

    def said(text: str) -> int:
        return sum(text in comment["body"] for comment in alice.comments(2))

    town.until(lambda: all(said(text) for text in answers), "both answers")
    town.end(service)
    assert [said(text) for text in answers] == [1, 1]
    assert listed() == []


def test_resume_refuses_what_makes_no_sense(program):
    town = program()
    alice = with_pull(town)
    head = alice("GET", "/pulls/2")["head"]["sha"]
    with closing(open_store(town.home)) as store, store.write() as tx:
        add_pull(tx, replace(pull(town), repo_full_name="alice/barn", pr_number=2))
        add_pull(tx, replace(pull(town), repo_full_name="alice/barn", pr_number=9))
    turn(town, PullStatus.CLOSED, TaskState.STOPPED)
    here = ("resume", "--pr", "2", "--repo", "alice/stable")
    refused(town, "Pull request 77 was not opened by Hostler", "resume", "--pr", "77", code=2)
    refused(town, "alice/barn and alice/stable", "resume", "--pr", "2", code=2)
    refused(town, "is not watched", "resume", "--pr", "9", code=2)
    refused(town, "Invalid repository", "resume", "--pr", "2", "--repo", "stable")
    elsewhere = ("--pr", "1", "--repo", "alice/stable")
    refused(town, "was not opened by Hostler", "resume", *elsewhere, code=2)
    refused(town, "Invalid commit SHA", *here, "--head-sha", "abc123", code=2)
    refused(town, f"is {head}, not {'0' * 40}", *here, "--head-sha", "0" * 40)
    for number in ("0", "-3", "99999999999999999999", "two"):
        assert town.call("feedback", "resume", "--pr", number).returncode == 2
    alice("PATCH", "/pulls/2", state="closed")
    assert "Reopen it there first." in refused(town, "is closed on GitHub", *here)
    alice("PATCH", "/pulls/2", state="open")
    alice("POST", "/issues/1/labels", labels=["agent:ignore"])
    refused(town, "alice/stable#1 has the label agent:ignore", *here)
    alice("DELETE", "/issues/1/labels/agent:ignore")
    alice.merge(2)
    refused(town, "already merged", *here)


def test_resume_without_github_changes_nothing(program):
    town = program()
    with_pull(town)
    turn(town, PullStatus.CLOSED, TaskState.STOPPED)
    (town.root / "token").rename(town.root / "elsewhere")
    refused(town, "token", "resume", "--pr", "2")
    (town.root / "elsewhere").rename(town.root / "token")
    settings = town.config.read_text()
    town.config.write_text(settings.replace(town.hub.url, "http://127.0.0.1:9"))
    assert "could not be reached" in refused(town, "GitHub", "resume", "--pr", "2")
    town.config.write_text(settings)
    head = Person(town.hub, "alice")("GET", "/pulls/2")["head"]["sha"]
    done = town.call("feedback", "resume", "--pr", "2", "--head-sha", head)
    assert done.returncode == 0, done.stderr
    assert f"Resumed alice/stable#2 at {head[:12]}" in done.stdout
    assert "hostler service" in done.stderr
    assert (pull(town).status, pull(town).last_seen_head_sha) == ("awaiting_feedback", head)


def test_reset_refuses_what_is_unknown_not_blocked_or_over(program):
    town = program()
    alice = with_pull(town)
    refused(town, "is not blocked: it is awaiting feedback", "blocked", "reset", "--pr", "2")
    assert town.call("feedback", "blocked", "reset").stderr == "No task is blocked.\n"
    assert town.call("feedback", "blocked", "list").stderr == "No task is blocked.\n"
    get_stuck(town)
    refused(town, "was not opened by Hostler", "blocked", "reset", "--pr", "5", code=2)
    refused(town, "is not watched", "blocked", "reset", "--repo", "alice/barn", code=2)
    refused(town, "--head-sha needs --pr", "blocked", "reset", "--head-sha", "0" * 40, code=2)
    refused(town, "Not a terminal", "blocked", "reset")
    alice("PATCH", "/pulls/2", state="closed")
    one = town.call("feedback", "blocked", "reset", "--pr", "2")
    assert (one.returncode, "alice/stable#2 was not resumed." in one.stdout) == (1, True)
    everything = town.call("feedback", "blocked", "reset", "--yes", "--json")
    assert everything.returncode == 0, everything.stderr
    (left,) = json.loads(everything.stdout)
    assert (left["reset"], left["state"]) == (False, "blocked")
    assert left["why_not"] == "alice/stable#2 is closed on GitHub."
    assert pull(town).status == "blocked"


def test_reset_of_everything_asks_first_and_a_dry_run_changes_nothing(program):
    town = program()
    with_pull(town)
    get_stuck(town)
    shown = town.call("feedback", "blocked", "list").stdout
    assert "alice/stable#2" in shown and "The push was refused." in shown
    dry = town.call("feedback", "blocked", "reset", "--dry-run")
    assert (dry.returncode, pull(town).status) == (0, "blocked")
    assert dry.stdout == "Would resume alice/stable#2 (0 comments waiting).\n"
    argv = town.argv("feedback", "blocked", "reset")
    said = on_terminal(argv[1:], town.environment, town.root, typed="n\n")
    assert "Resume 1 blocked task?" in said and "Nothing was changed." in said
    assert pull(town).status == "blocked"
    said = on_terminal(argv[1:], town.environment, town.root, typed="y\n")
    assert "Resumed alice/stable#2: awaiting feedback." in said
    (task,) = town.tasks()
    assert (pull(town).status, task.state) == ("awaiting_feedback", "awaiting_feedback")


def test_an_issue_that_is_blocked_is_listed_and_started_again(program):
    town = program("version = 1\nsteps = [{ result = { status = 'blocked', summary = 'No.' } }]\n")
    number = town.files("Notes", "agent:small-job")
    assert town.call("run", f"alice/stable#{number}").returncode == 3
    (found,) = json.loads(town.call("feedback", "blocked", "list", "--json").stdout)
    assert (found["pr"], found["issue"], found["why"]) == (None, number, "No.")
    assert found["do"] == f"hostler run alice/stable#{number}"
    done = town.call("feedback", "blocked", "reset", "--yes")
    assert done.stdout == f"Resumed alice/stable#{number}: queued.\n", done.stderr


@pytest.mark.long
def test_a_takeover_ends_with_hostler_run_and_tells_nothing_of_it(program):
    town = program()
    alice = with_pull(town)
    service = town.start()
    town.heard(service, "Watching")
    alice("POST", "/issues/1/labels", labels=["agent:ignore"])
    ready(town, "stopped")
    alice.say(2, "I do it myself.")
    alice.say(1, "Leave it to me.")
    alice("DELETE", "/issues/1/labels/agent:ignore")
    with closing(open_store(town.home)) as store, store.read() as tx:
        (task,) = town.tasks()
        assert comment_floors(tx, task.repo, 1).comments_since == TAKEN_OVER
    # GitHub's moments are whole seconds: what is said in the very second of the end is heard.
    last = max(one["updated_at"] for number in (1, 2) for one in alice.comments(number))
    town.until(
        lambda: SystemClock().now() > parse_timestamp(last) + timedelta(seconds=1), "a second"
    )
    done = town.call("run", "alice/stable#1")
    assert done.returncode == 0, done.stderr
    alice.say(2, "Now you.")
    answered = "@alice: Done: Now you."
    town.until(lambda: [c for c in alice.comments(2) if answered in c["body"]], "an answer")
    town.end(service)
    told = [path.read_text() for path in town.home.glob("projects/stable/tasks/*/runs/*/prompt.md")]
    assert len(told) == 3
    assert not any("myself" in text or "Leave it" in text for text in told)


def test_without_a_database_it_says_so(program):
    town = program()
    (town.home / "hostler.db").unlink()
    for words in (["resume", "--pr", "2"], ["blocked", "list"], ["blocked", "reset"]):
        done = town.call("feedback", *words)
        assert done.returncode != 0 and "Traceback" not in done.stderr
        assert list(town.home.glob("*.db")) == []

"""One issue's whole way, on a strict GitHub with real git, real shims and real processes."""

from __future__ import annotations

from service_town import ALICE, BOB, EVE, Service, Town

from hostler.store.tasks import TaskState


def to_review(town: Town, service: Service, title: str = "Notes", *labels: str) -> tuple[int, int]:
    """File an issue, and wait for its pull request: both numbers."""
    number = town.person(ALICE).file(title, *(labels or ("agent:small-job",)))
    service.poll()
    task = service.task(number, TaskState.AWAITING_FEEDBACK)
    service.rested()
    task = service.until(
        lambda: next((t for t in service.all_tasks() if t.id == task.id and t.pr_number), None)
    )
    return number, task.pr_number or 0


def test_an_issue_becomes_a_merged_pull_request_and_a_stranger_causes_nothing(town):
    alice, bob, eve = (town.person(login) for login in (ALICE, BOB, EVE))
    with town.service() as service:
        theirs = eve.file("Theirs")
        alice("POST", f"/issues/{theirs}/labels", labels=["agent:ignore"])
        number, pull = to_review(town, service)
        opened = alice("GET", f"/pulls/{pull}")
        assert f"Fixes #{number}" in opened["body"]
        assert opened["title"] == "Add notes"
        assert opened["head"]["ref"] == f"agent/small_job/{number}-notes"
        assert alice.read("notes.md", opened["head"]["ref"]) == f"For #{number}\n"

        remark = bob.remark(pull, "Please count.")
        service.poll()
        service.until(lambda: len(bob.remarks(pull)) == 2)
        reply = bob.remarks(pull)[1]
        assert reply["in_reply_to_id"] == remark
        assert reply["body"].startswith("Done: Please count.")
        assert "2\n" in alice.read("notes.md", opened["head"]["ref"])

        bob.edit_remark(remark, "Please count twice.")
        service.poll()
        service.until(lambda: len(bob.remarks(pull)) == 3)
        assert bob.remarks(pull)[2]["body"].startswith("Done: Please count twice.")

        service.rested()
        bob.merge(pull)
        service.poll()
        done = service.task(number, TaskState.DONE)
        service.rested()
        assert alice.issue(number)["state"] == "closed"
        assert len(alice.pulls()) == 1
        (status,) = [c for c in alice.comments(number) if "**Hostler**" in c["body"]]
        assert "done" in status["body"]
        sessions = {run.session for run in service.runs(done) if run.session}
        assert sessions == {f"s-{number}"}
        service.until(lambda: not (town.home / "checkouts" / "stable" / done.id).exists())
        assert {task.number for task in service.all_tasks()} == {number}
        assert eve.comments(theirs) == []


def test_a_merged_design_starts_its_implementation(town):
    bob = town.person(BOB)
    with town.service() as service:
        number, pull = to_review(town, service, "Big thing", "agent:design")
        assert f"Refs #{number}" in bob("GET", f"/pulls/{pull}")["body"]
        bob.merge(pull)
        service.poll()
        done = service.task(number, TaskState.AWAITING_FEEDBACK, "implementation")
        service.rested()
        assert bob.read(f"docs/design/{number}-big-thing.md").startswith("# Design")
        assert len(bob.pulls()) == 2
        assert done.branch == f"agent/implementation/{number}-big-thing"


def test_a_question_waits_for_its_answer(found_town):
    play = """
version = 1
[[scene]]
when = { prompt_has = "Blue." }
steps = [
  { write = { path = "colour", text = "blue" } },
  { result = { status = "done", summary = "Painted." } },
]
[[scene]]
steps = [{ ask = "Which colour?" }]
"""
    town = found_town(play=play)
    alice, eve = town.person(ALICE), town.person(EVE)
    with town.service() as service:
        number = alice.file("Paint it", "agent:small-job")
        service.poll()
        service.task(number, TaskState.NEEDS_INPUT)
        service.rested()
        assert any("Which colour?" in c["body"] for c in alice.comments(number))
        eve.say(number, "Red.")
        service.poll()
        service.until(lambda: "is not among" in service.lines.getvalue() or _heard(service, 1))
        assert service.task(number).state is TaskState.NEEDS_INPUT
        alice.say(number, "Blue.")
        service.poll()
        service.task(number, TaskState.AWAITING_FEEDBACK)
        service.rested()
        (pull,) = alice.pulls()
        assert alice.read("colour", pull["head"]["ref"]) == "blue"


def _heard(service: Service, events: int) -> bool:
    """Whether a look has taken so many events."""
    return f"new={events}" in service.lines.getvalue()


def test_an_agent_that_fails_first_is_tried_again(found_town):
    play = """
version = 1
steps = [
  { fail = { times = 2, say = "Out of luck." } },
  { write = { path = "notes.md", text = "At last\\n" } },
  { result = { status = "done", summary = "Done." } },
]
"""
    town = found_town(play=play)
    with town.service() as service:
        number, pull = to_review(town, service)
        task = service.task(number)
        assert [run.outcome for run in service.runs(task)] == ["crash", "crash", "success"]
        assert pull


def test_closing_an_issue_ends_its_agent(found_town):
    town = found_town(play="version = 1\nsteps = [{ say = 'here' }, { hang = 600 }]\n")
    alice = town.person(ALICE)
    with town.service() as service:
        number = alice.file("Never mind", "agent:small-job")
        service.poll()
        task = service.task(number, TaskState.RUNNING)
        service.until(lambda: service.runs(task)[0].state == "running")
        alice("PATCH", f"/issues/{number}", state="closed")
        service.poll()
        service.task(number, TaskState.STOPPED)
        service.until(lambda: service.runs(task)[0].state == "ended")
        (run,) = service.runs(task)
        assert run.outcome == "interrupted"
        assert service.task(number).state is TaskState.STOPPED

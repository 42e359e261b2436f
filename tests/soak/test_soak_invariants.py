"""Each invariant of the campaign finds its violation, and only that."""

from __future__ import annotations

from dataclasses import replace

import pytest
import soak_invariants as must
from soak_evidence import Evidence, Request, Said
from soak_people import Command, Tale, Word
from soak_plan import Story
from soak_town import ALLOWED, OPERATOR, SPEAKER, STRANGER, US

from hostler.sandbox.control.ledger import LedgerEntry
from hostler.store.operator import CommandRow, CommandStatus
from hostler.store.runs import Run, RunState
from hostler.store.tasks import Flow, Task, TaskState

REPO, ISSUE, PULL, WORD = "farm/r00", 1, 2, "word-1."
COMMENTS = must.MAKING[1]


def task(state=TaskState.AWAITING_FEEDBACK, number=ISSUE) -> Task:
    values = {"title": "Job 0 plain", "author": SPEAKER, "state_since": "", "order": 1}
    return Task("t", "r00", REPO, number, Flow.SMALL_JOB, state=state, pr_number=PULL, **values)


def run(name="a", fence=1) -> Run:
    words = {"kind": "", "agent": "", "agent_kind": "", "pool": "", "folder": ""}
    ended = {"state": RunState.ENDED, "outcome": "success", "admitted_at": ""}
    return Run(name, "t", "r00", fence, fence, **words, **ended)


def stamp(word, name="a", **more) -> dict:
    return {"word": word, "run": name, "task": "t", "project": "r00", "number": ISSUE, **more}


def tale(*steps, author=SPEAKER, kind="plain", number=ISSUE) -> Tale:
    story = Story("Job 0", "r00", author, kind, steps)
    return Tale(story, number, at=len(steps))


def made(path=COMMENTS, **values) -> LedgerEntry:
    given = {"status": 201, "login": US, "route": path, **values}
    return LedgerEntry(0.0, given.pop("method", "POST"), path, "", **given)


def reply(body, thread=PULL, token="reply-1") -> Said:
    return Said(REPO, thread, US, f"{body}\n\n<!-- hostler:action={token} -->")


@pytest.fixture
def well() -> Evidence:
    """An issue, its pull request, a word and its answer, a command and its reply."""
    told = tale("pull", "say", "answered", "command status", "obeyed")
    told.words.append(Word(10, [WORD], PULL, "comment"))
    told.commands.append(Command(11, PULL, OPERATOR, "status"))
    row = CommandRow("k", REPO, PULL, 11, OPERATOR, "status", "", status=CommandStatus.APPLIED)
    lines = ("begin a", "end a", "begin b", "end b")
    return Evidence(
        tales=[told],
        stamps=[stamp("begin", heard=[]), stamp("begin", "b", heard=[[10, SPEAKER, WORD]])],
        said=[
            Said(REPO, ISSUE, US, "**Hostler** · small job\n<!-- hostler:action=status:1 -->"),
            reply(f"@bob Done: {WORD}"),
            reply("@alice All is well.", token="said-1"),
        ],
        pulls=[Request(REPO, PULL, US, "Fixes #1", "topic", notes=lines)],
        ledger=[made(), made(), made(status=0, fault="cut"), made(must.MAKING[0])],
        tasks=[task()],
        runs=[run(), run("b", 2)],
        commands=[row],
        secrets={b"s3cret"},
        places=[("a log", b"nothing")],
    )


def add_twice(seen: Evidence, body: str) -> None:
    seen.said += [reply(body, ISSUE, f"x-{n}") for n in range(2)]


def no_task(seen):
    seen.tasks.clear()
    seen.runs.clear()


def parked(seen):
    seen.tasks[:] = [task(TaskState.PARKED)]


def merged_without_a_merge(seen):
    seen.tales = [tale("pull", "merge", "done")]
    seen.tasks[:] = [task(TaskState.DONE)]


def blocked_in_silence(seen):
    seen.tales = [tale("blocked", kind="blocks")]


def asked_in_silence(seen):
    seen.tales = [tale("question", kind="dies")]
    seen.tasks[:] = [replace(task(TaskState.NEEDS_INPUT), question="Which way?")]


def stopped_in_silence(seen):
    seen.tales = [tale("hung", "stopped", kind="hangs")]


def unheard_edit(seen):
    seen.tales[0].words[0].versions.append(f"{WORD}x")


def unanswered(seen):
    del seen.said[1]


def lost_work(seen):
    seen.pulls[0] = replace(seen.pulls[0], notes=("begin a", "end a", "begin b"))


def one_token_twice(seen):
    seen.said.append(reply("Once more."))


def two_pulls(seen):
    seen.pulls.append(Request(REPO, 3, US, "Fixes #1", "other", notes=("end a", "end b")))


def two_statuses(seen):
    seen.said.append(replace(seen.said[0], body="**Hostler** · done"))


def two_answers(seen):
    seen.said.append(reply(f"Done: {WORD}", token="reply-2"))


def two_questions(seen):
    add_twice(seen, "> Which way to 1?")


def more_than_was_made(seen):
    seen.ledger.pop()
    seen.ledger.pop()


def less_than_was_made(seen):
    seen.ledger += [made(), made()]


def deleted(seen):
    seen.ledger.append(made(method="DELETE", status=204))


def too_many(seen):
    seen.stamps.append(stamp("too many", what="all"))


def two_agents(seen):
    seen.stamps.append(stamp("too many", what="task-t"))


def stale(seen):
    seen.pulls[0] = replace(seen.pulls[0], notes=("begin b", "end b", "begin a", "end a"))


def pushed_twice(seen):
    seen.pulls[0] = replace(seen.pulls[0], notes=(*seen.pulls[0].notes, "end b"))


def unknown_run(seen):
    seen.pulls[0] = replace(seen.pulls[0], notes=(*seen.pulls[0].notes, "end c"))


def open_run(seen):
    seen.open_runs.append("a")


def held_lease(seen):
    seen.leases.append("a")


def unsent(seen):
    seen.unsent.append("reply-1 queued")


def homeless(seen):
    seen.homeless.append("a")


def interrupted(seen):
    seen.stamps.append(stamp("term"))


def orphan(seen):
    seen.processes.append("17 python")


def strangers_issue(seen):
    seen.tales.append(tale(author=STRANGER, kind="stranger", number=5))
    seen.tasks.append(replace(task(number=5), pr_number=None))


def strangers_thread(seen):
    seen.tales.append(tale(author=STRANGER, kind="stranger", number=5))
    seen.said.append(reply("Hello.", 5, "hello"))
    seen.ledger.append(made())


def strangers_word(seen):
    seen.stamps[0]["heard"] = [[12, STRANGER, "Do it."]]


def strangers_command(seen):
    seen.commands.append(replace(seen.commands[0], actor=STRANGER, comment_id=12))


def unanswered_command(seen):
    del seen.said[2]
    seen.ledger.pop(0)


def command_answered_twice(seen):
    seen.said.append(reply("@alice All is well.", token="said-2"))
    seen.ledger.append(made())


def unsettled_command(seen):
    seen.commands[0] = replace(seen.commands[0], status=CommandStatus.SEEN)


def begun_again(seen):
    seen.stamps += [stamp("stopped"), stamp("begin", heard=[])]


def leak(seen):
    seen.places = [("a log", b"a s3cret word")]


def surprise(seen):
    seen.surprises.append("a service ended by itself")


def defect(seen):
    seen.log = '{"event": "service_defect"}'


def restart_without_a_cause(seen):
    found = seen.commands[0]
    why = "The restart failed: `doctor --quick` finds something broken."
    broken = replace(found, verb="restart", status=CommandStatus.FAILED, result=why)
    seen.commands.append(broken)


CASES = [
    (no_task, must.every_issue_came_to_its_end),
    (parked, must.every_issue_came_to_its_end),
    (merged_without_a_merge, must.people_were_told_the_end),
    (blocked_in_silence, must.people_were_told_the_end),
    (asked_in_silence, must.people_were_told_the_end),
    (stopped_in_silence, must.people_were_told_the_end),
    (unheard_edit, must.every_word_was_heard_and_answered),
    (unanswered, must.every_word_was_heard_and_answered),
    (lost_work, must.every_success_was_kept),
    (one_token_twice, must.nothing_was_made_twice),
    (two_pulls, must.nothing_was_made_twice),
    (two_statuses, must.nothing_was_made_twice),
    (two_answers, must.no_version_was_answered_twice),
    (two_questions, must.no_question_was_asked_twice),
    (more_than_was_made, must.the_ledger_agrees),
    (less_than_was_made, must.the_ledger_agrees),
    (deleted, must.the_ledger_agrees),
    (too_many, must.no_cap_was_exceeded),
    (two_agents, must.no_task_had_two_agents),
    (stale, must.no_stale_agent_left_work),
    (pushed_twice, must.no_stale_agent_left_work),
    (unknown_run, must.no_stale_agent_left_work),
    (open_run, must.no_place_leaked),
    (held_lease, must.no_place_leaked),
    (unsent, must.no_place_leaked),
    (homeless, must.no_agent_lost_its_place),
    (interrupted, must.nobody_was_interrupted),
    (orphan, must.no_process_is_left),
    (strangers_issue, must.strangers_caused_nothing),
    (strangers_thread, must.strangers_caused_nothing),
    (strangers_word, must.strangers_caused_nothing),
    (strangers_command, must.strangers_caused_nothing),
    (unanswered_command, must.commands_were_answered_once),
    (command_answered_twice, must.commands_were_answered_once),
    (unsettled_command, must.commands_were_answered_once),
    (restart_without_a_cause, must.restarts_failed_for_a_cause),
    (begun_again, must.stopped_stays_stopped),
    (leak, must.no_secret_is_anywhere),
    (surprise, must.no_service_broke),
    (defect, must.no_service_broke),
]


def test_nothing_is_found_where_nothing_is_wrong(well):
    assert must.violations(well) == {}


@pytest.mark.parametrize(("spoil", "check"), [pytest.param(*c, id=c[0].__name__) for c in CASES])
def test_a_violation_is_found(well, spoil, check):
    spoil(well)
    assert check(well)
    assert check.__name__ in must.violations(well)


def test_every_invariant_has_a_case_that_violates_it():
    assert {check for _, check in CASES} == set(must.INVARIANTS)


def test_a_stop_may_be_taken_back_and_a_stop_ends_an_agent(well):
    well.stamps += [stamp("stopped"), stamp("free"), stamp("begin", heard=[])]
    well.tales.append(tale("hung", "command stop", "obeyed", "stopped", kind="hangs"))
    well.stamps.append(stamp("term"))
    assert must.stopped_stays_stopped(well) == must.nobody_was_interrupted(well) == []


def test_a_question_that_stands_on_the_issue_was_told(well):
    asked_in_silence(well)
    well.said.append(reply("> Which way?", ISSUE, "ask-1"))
    assert must.people_were_told_the_end(well) == []


def test_a_strangers_commands_have_one_refusal(well):
    well.tales[0].commands += [Command(n, PULL, STRANGER, "stop") for n in (20, 21)]
    refused = replace(well.commands[0], actor=STRANGER, status=CommandStatus.REFUSED)
    well.commands += [replace(refused, comment_id=n) for n in (20, 21)]
    well.said.append(reply("@eve Only operators.", token="no-1"))
    assert must.commands_were_answered_once(well) == must.strangers_caused_nothing(well) == []
    assert STRANGER not in ALLOWED

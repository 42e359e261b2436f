"""What must never happen: one function for each, which returns the violations that it found.

They read plain evidence from outside of the service, and know nothing of how it works.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from soak_evidence import Evidence, Request
from soak_people import Tale
from soak_town import ALLOWED, OPERATOR, STRANGER, US

from hostler.forge.actions import find_tokens
from hostler.sandbox.control.ledger import LedgerEntry
from hostler.store.operator import CommandStatus
from hostler.store.tasks import TaskState

Violations = list[str]
Check = Callable[[Evidence], Violations]

# Where a story's last step leaves its task; any other step leaves it to be reviewed.
ENDS = {
    "done": TaskState.DONE,
    "stopped": TaskState.STOPPED,
    "question": TaskState.NEEDS_INPUT,
    "blocked": TaskState.BLOCKED,
}
# Where content is made: by these routes, as the ledger names them.
MAKING = (
    "/repos/{owner}/{repo}/pulls",
    "/repos/{owner}/{repo}/issues/{number}/comments",
    "/repos/{owner}/{repo}/pulls/{number}/comments/{comment_id}/replies",
)
# The work was done, and the answer was lost.
AFTER = ("fail_after", "cut")


# -- an allowed person's word is lost ---------------------------------------------------------


def every_issue_came_to_its_end(seen: Evidence) -> Violations:
    """Merged, waiting for people, a question, a block or a stop: whatever its story leads to."""
    wrong = []
    for tale in _eligible(seen):
        task = seen.task_of(tale)
        wanted = ENDS.get(tale.story.steps[-1], TaskState.AWAITING_FEEDBACK)
        if task is None:
            wrong.append(f"{_name(tale)} has no task")
        elif not tale.told or task.state is not wanted:
            wrong.append(f"{_name(tale)} is {task.state} ({task.reason}), not {wanted}")
    return wrong


def people_were_told_the_end(seen: Evidence) -> Violations:
    """A question and a reason stand on the issue, a pull request is there, a merge closed it."""
    return [
        f"{_name(tale)} came to {tale.story.steps[-1]!r}, and nobody was told"
        for tale in _eligible(seen)
        if not _was_told(seen, tale)
    ]


def _was_told(seen: Evidence, tale: Tale) -> bool:
    task, pulls = seen.task_of(tale), _pulls_of(seen, tale)
    ours = [one.body for one in seen.ours() if (one.repo, one.thread) == tale.key]
    status = "".join(body for body in ours if _is_status(body))
    talk = "".join(body for body in ours if not _is_status(body))
    asked = task.question.partition("\n")[0] if task else ""
    told = {
        "done": any(pull.merged for pull in pulls) and tale.key in seen.closed,
        "stopped": "· stopped" in status,
        "blocked": f"There is no road to {tale.number}." in talk,
        "question": bool(asked) and asked in talk,
    }
    return told.get(tale.story.steps[-1], any(pull.open for pull in pulls))


def every_word_was_heard_and_answered(seen: Evidence) -> Violations:
    """The last version of whatever an allowed person said reached an agent, and has its answer."""
    heard = {(c, body) for s in seen.stamps for c, _, body in s.get("heard", ())}
    answers = _answers(seen)
    wrong = []
    for tale in seen.tales:
        for word in tale.words:
            last = word.versions[-1]
            if (word.comment, last) not in heard:
                wrong.append(f"{_name(tale)}: no agent heard {last!r}")
            if word.asks and not answers[tale.key[0], last]:
                wrong.append(f"{_name(tale)}: nobody answered {last!r}")
    return wrong


def every_success_was_kept(seen: Evidence) -> Violations:
    """What an agent ended well is in its pull request."""
    kept = {(pull.repo, line) for pull in seen.pulls for line in pull.notes}
    tasks = {task.id: task for task in seen.tasks}
    return [
        f"the work of {run.run} is not in its pull request"
        for run in seen.runs
        if run.outcome == "success" and tasks[run.task_id].pr_number
        if (tasks[run.task_id].repo_full_name, f"end {run.run}") not in kept
    ]


# -- something is made twice for one cause ----------------------------------------------------


def nothing_was_made_twice(seen: Evidence) -> Violations:
    """One write for each token, one pull request and one status for each issue."""
    tokens = Counter(
        (one.repo, token) for one in seen.ours() for token in find_tokens(one.body)[-1:]
    )
    pulls = Counter(key for tale in seen.tales for key in [tale.key] * len(_pulls_of(seen, tale)))
    heads = Counter((pull.repo, pull.branch) for pull in seen.pulls)
    statuses = Counter((one.repo, one.thread) for one in seen.ours() if _is_status(one.body))
    found = {"token": tokens, "pull request": pulls, "branch": heads, "status": statuses}
    return [
        f"{what} {key} is there {count} times"
        for what, counter in found.items()
        for key, count in counter.items()
        if count > 1
    ]


def no_version_was_answered_twice(seen: Evidence) -> Violations:
    return [
        f"{repo}: {word!r} was answered {count} times"
        for (repo, word), count in _answers(seen).items()
        if count > 1
    ]


def no_question_was_asked_twice(seen: Evidence) -> Violations:
    """The agent's own question, which it asks only while nobody has said anything."""
    asked = Counter(
        (one.repo, one.thread, text)
        for one in seen.ours()
        for text in re.findall(r"^> (Which way to \d+\?)", one.body, re.MULTILINE)[:1]
    )
    return [f"{key} was asked {count} times" for key, count in asked.items() if count > 1]


def the_ledger_agrees(seen: Evidence) -> Violations:
    """What is there of ours is what was answered as made, and at most what was lost besides."""
    calls = [one for one in seen.ledger if one.login == US and one.method == "POST"]
    made = [one for one in calls if one.route in MAKING]
    clear = sum(one.status == 201 for one in made)
    lost = sum(one.fault in AFTER for one in made)
    there = len(seen.ours()) + sum(pull.author == US for pull in seen.pulls)
    wrong = [f"{one.path} was deleted" for one in seen.ledger if _deletes(one)]
    if not clear <= there <= clear + lost:
        wrong.append(f"{there} things of ours are there; {clear} were made, {lost} got no answer")
    return wrong


# -- caps, places, processes ------------------------------------------------------------------


def no_cap_was_exceeded(seen: Evidence) -> Violations:
    """Every agent found one of as many locks as agents are allowed."""
    return [
        f"{one['run']} was one too many ({one['what']})"
        for one in seen.stamps
        if one["word"] == "too many" and not one["what"].startswith("task-")
    ]


def no_task_had_two_agents(seen: Evidence) -> Violations:
    return [
        f"{one['run']} began while another agent of its task lived"
        for one in seen.stamps
        if one["word"] == "too many" and one["what"].startswith("task-")
    ]


def no_stale_agent_left_work(seen: Evidence) -> Violations:
    """A branch tells of its runs once each, in the order of their fences."""
    fences = {run.run: run.fence for run in seen.runs}
    wrong = []
    for pull in seen.pulls:
        runs = [line.split()[1] for line in pull.notes]
        name = f"{pull.repo}#{pull.number}"
        wrong += [f"{name}: nobody knows {run}" for run in runs if run not in fences]
        wrong += [f"{name}: {line} twice" for line, n in Counter(pull.notes).items() if n > 1]
        known = [run for run in runs if run in fences]
        wrong += [f"{name}: {b} after {a}" for a, b in pairwise(known) if fences[b] < fences[a]]
    return wrong


def no_place_leaked(seen: Evidence) -> Violations:
    """With nothing at work no run is open, no lease is held, and nothing waits to be sent."""
    return [
        *(f"the run {run} is open" for run in seen.open_runs),
        *(f"the lease {lease} is held" for lease in seen.leases),
        *(f"not sent: {write}" for write in seen.unsent),
    ]


def no_agent_lost_its_place(seen: Evidence) -> Violations:
    return [f"the agent of {run} lived without a place" for run in seen.homeless]


def nobody_was_interrupted(seen: Evidence) -> Violations:
    """Only a person's stop, close or merge ends an agent; no cap, drain, restart or kill does."""
    ended = {
        (tale.story.repo, tale.number)
        for tale in seen.tales
        if {"command stop", "close", "merge"} & set(tale.story.steps)
    }
    numbers = {s["run"]: (s["project"], s["number"]) for s in seen.stamps if s["word"] == "begin"}
    return [
        f"{one['run']} was asked to leave"
        for one in seen.stamps
        if one["word"] == "term" and numbers.get(one["run"]) not in ended
    ]


def no_process_is_left(seen: Evidence) -> Violations:
    return [f"{process} is left" for process in seen.processes]


# -- who may cause what -----------------------------------------------------------------------


def strangers_caused_nothing(seen: Evidence) -> Violations:
    """No task, no agent, no word of ours for a stranger's issue; no agent heard a stranger."""
    wrong = []
    begun = {(s["project"], s["number"]) for s in seen.stamps if s["word"] == "begin"}
    for tale in seen.tales:
        if tale.story.eligible:
            continue
        touched = seen.task_of(tale) or (tale.story.repo, tale.number) in begun
        if touched or any((one.repo, one.thread) == tale.key for one in seen.ours()):
            wrong.append(f"{_name(tale)} of a stranger was touched")
    for stamp in seen.stamps:
        for _, author, body in stamp.get("heard", ()):
            if author not in ALLOWED:
                wrong.append(f"{stamp['run']} heard {author}: {body!r}")
    wrong += [
        f"{row.verb} of {row.actor} was {row.status}"
        for row in seen.commands
        if row.actor != OPERATOR and row.status is not CommandStatus.REFUSED
    ]
    return wrong


def commands_were_answered_once(seen: Evidence) -> Violations:
    """A row that is settled and a reply for each command; one refusal for a stranger's."""
    wrong = []
    rows = Counter((row.repo_full_name, row.comment_id) for row in seen.commands if not row.open)
    wanted: Counter[tuple[str, int, str]] = Counter()
    for tale in seen.tales:
        for said in tale.commands:
            wanted[tale.key[0], said.thread, said.by] += 1
            if rows[tale.key[0], said.comment] != 1:
                wrong.append(f"{_name(tale)}: {said.verb} of {said.by} is not settled once")
    for (repo, thread, by), count in wanted.items():
        replies = sum(
            one.body.startswith(f"@{by}")
            for one in seen.ours()
            if (one.repo, one.thread) == (repo, thread)
        )
        due = 1 if by == STRANGER else count
        if replies != due:
            wrong.append(f"{repo}#{thread}: {count} commands of {by} have {replies} replies")
    return wrong


def restarts_failed_for_a_cause(seen: Evidence) -> Violations:
    """Somebody killed the service, or an agent worked on for too long; nothing else is a cause."""
    return [
        f"a restart failed: {one.result}"
        for one in seen.commands
        if one.verb == "restart"
        and one.status is CommandStatus.FAILED
        and not any(words in one.result for words in RESTART_CAUSES)
    ]


def stopped_stays_stopped(seen: Evidence) -> Violations:
    """After a stop was seen nothing begins before a person says so."""
    wrong, stopped = [], set()
    for stamp in seen.stamps:
        task = stamp.get("task")
        if stamp["word"] == "stopped":
            stopped.add(task)
        elif stamp["word"] == "free":
            stopped.discard(task)
        elif stamp["word"] == "begin" and task in stopped:
            wrong.append(f"{stamp['run']} began after its task was stopped")
    return wrong


# -- beyond the list --------------------------------------------------------------------------


def no_secret_is_anywhere(seen: Evidence) -> Violations:
    """Database, logs, command lines, environments, GitHub, git."""
    found = {where for where, data in seen.places for secret in seen.secrets if secret in data}
    return [f"our token is in {where}" for where in sorted(found)]


def no_service_broke(seen: Evidence) -> Violations:
    """None ended by itself, and none met what nobody had thought of."""
    broken = [line for line in seen.log.splitlines() if re.search("Traceback|_defect", line)]
    return [*seen.surprises, *broken]


# How the causes of a restart that failed are told.
RESTART_CAUSES = ("The service ended before", "still at work after", "already under way")
INVARIANTS: tuple[Check, ...] = (
    restarts_failed_for_a_cause,
    every_issue_came_to_its_end,
    people_were_told_the_end,
    every_word_was_heard_and_answered,
    every_success_was_kept,
    nothing_was_made_twice,
    no_version_was_answered_twice,
    no_question_was_asked_twice,
    the_ledger_agrees,
    no_cap_was_exceeded,
    no_task_had_two_agents,
    no_stale_agent_left_work,
    no_place_leaked,
    no_agent_lost_its_place,
    nobody_was_interrupted,
    no_process_is_left,
    strangers_caused_nothing,
    commands_were_answered_once,
    stopped_stays_stopped,
    no_secret_is_anywhere,
    no_service_broke,
)


def violations(seen: Evidence) -> dict[str, Violations]:
    """All of them, by the name of what was violated."""
    found = {check.__name__: check(seen) for check in INVARIANTS}
    return {name: wrong for name, wrong in found.items() if wrong}


def _eligible(seen: Evidence) -> list[Tale]:
    return [tale for tale in seen.tales if tale.story.eligible]


def _name(tale: Tale) -> str:
    return f"{tale.key[0]}#{tale.number} ({tale.story.kind})"


def _pulls_of(seen: Evidence, tale: Tale) -> list[Request]:
    repo, number = tale.key
    fixes = re.compile(rf"Fixes #{number}\b")
    return [pull for pull in seen.pulls if pull.repo == repo and fixes.search(pull.body)]


def _is_status(body: str) -> bool:
    return body.startswith("**Hostler**")


def _answers(seen: Evidence) -> Counter[tuple[str, str]]:
    """How often each version of a word has an answer of ours."""
    return Counter(
        (one.repo, word)
        for one in seen.ours()
        for word in re.findall(r"Done: (word-\d+\.x*)$", one.body, re.MULTILINE)
    )


def _deletes(entry: LedgerEntry) -> bool:
    return entry.login == US and entry.method == "DELETE" and entry.status < 300

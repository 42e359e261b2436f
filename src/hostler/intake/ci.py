"""The rules of CI: which failed runs of a pull request's head become work. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from hostler.forge.ci import Run
from hostler.forge.deeds import OpenIssue, RerunFailedJobs
from hostler.forge.outbox import token_of
from hostler.intake.effects import (
    AskAboutCi,
    Checks,
    Decision,
    Effect,
    Known,
    Repeat,
    Stick,
    TellOfRuns,
)
from hostler.intake.people import Watch
from hostler.intake.remarks import BLOCKED
from hostler.intake.signals import RunSeen
from hostler.store.pull_requests import PullRow, PullStatus
from hostler.store.tasks import Task, TaskState

# A failure joins the turn that is about to begin, or begins one; anything else comes first.
_HEARING = (TaskState.AWAITING_FEEDBACK, TaskState.QUEUED)
# How much of a check's name people are shown.
LONGEST_NAME = 80


def on_run(seen: RunSeen, known: Known, watch: Watch) -> Decision:
    """What one attempt of a workflow run that is over causes."""
    pull, task = known.pull, known.pull_task
    if pull is None or task is None:
        return Decision("It is not of a pull request of ours.")
    if pull.final or task.over:
        return Decision("Its pull request is over.")
    idle = _is_no_news(seen.run, pull, watch) or (
        "" if known.newest else "It was repeated since; the newer attempt counts."
    )
    if idle:
        return Decision(idle)
    if pull.status is PullStatus.BLOCKED or task.state is TaskState.BLOCKED:
        return BLOCKED
    return _judged(known, pull, task, watch)


def _is_no_news(run: Run, pull: PullRow, watch: Watch) -> str:
    """Why a run has nothing to say about a pull request; empty: it has."""
    if watch.ci == "never":
        return "The settings make no work of CI."
    if run.head_sha != pull.last_seen_head_sha:
        return "It is of an older head."
    if run.foreign or (run.branch and run.branch != pull.branch):
        return "It is of another branch with the same commit."
    return ""


def _judged(known: Known, pull: PullRow, task: Task, watch: Watch) -> Decision:
    checks = known.checks
    failed = failures(checks)
    if not failed:
        return Decision("Nothing of this head has failed that is not known.")
    if watch.ci == "all_complete":
        if checks.unfinished is None:
            return Decision("GitHub has not said yet what else runs.", waits=True)
        if checks.unfinished:
            return Decision("Other runs of this head are not over.")
    if task.state not in _HEARING:
        return Decision(f"The task is {task.state}; it is told of it after that.", waits=True)
    return _answer(failed, checks, pull, task, watch)


def _answer(
    failed: tuple[RunSeen, ...], checks: Checks, pull: PullRow, task: Task, watch: Watch
) -> Decision:
    again = [one for one in failed if one.run.check in checks.repeated]
    if again:
        return Decision("It failed again.", (Stick(task, pull, second_failure(again)),))
    flaky = [one for one in failed if passed_before(one, checks)]
    rest = tuple(one for one in failed if one not in flaky)
    effects: list[Effect] = [Repeat(task, one, PASSED_BEFORE) for one in flaky]
    if rest and pull.turns_without_person >= watch.turns_without_person:
        effects.append(AskAboutCi(task, rest, pull.pr_number, too_many_turns(rest, pull)))
    elif rest:
        effects.append(TellOfRuns(task, rest, pull.pr_number))
    return Decision(f"CI failed: {names_of(failed)}.", tuple(effects))


def failures(checks: Checks) -> tuple[RunSeen, ...]:
    """Runs whose newest attempt failed, that nobody was told of, and that are not being repeated.

    Of each check only its newest run counts: an older one was judged by other circumstances.
    """
    newest: dict[str, RunSeen] = {}
    for one in checks.seen:
        newest[one.run.check] = one
    return tuple(
        one
        for one in newest.values()
        if one.run.failed and one.row.event_key not in checks.told and not _in_repeat(one, checks)
    )


def _in_repeat(one: RunSeen, checks: Checks) -> bool:
    asked = checks.repeated.get(one.run.check)
    return asked is not None and asked.run_id == one.run.id and one.run.attempt <= asked.attempt


def passed_before(failed: RunSeen, checks: Checks) -> bool:
    """Whether the same check passed on this very commit: then the commit is hardly the cause."""
    return any(one.run.passed and one.run.check == failed.run.check for one in checks.seen)


PASSED_BEFORE = "The same check had passed on the same commit before."


def rerun(failed: RunSeen) -> tuple[RerunFailedJobs, str]:
    """Run a suspected flake once more: one time for each check of a head."""
    run = failed.run
    deed = RerunFailedJobs(failed.row.scope_number, run.id, run.attempt)
    return deed, rerun_token(run.head_sha, run.check)


def rerun_token(head_sha: str, check: str) -> str:
    """By this the repetition of a check is known."""
    return token_of("rerun", head_sha, check)


def flaky_issue(failed: RunSeen, why: str) -> tuple[OpenIssue, str]:
    """Tell people of a suspected flake: one issue for each check."""
    run, name = failed.run, plain(failed.run.check)
    body = (
        f"The check `{name}` failed on #{failed.row.scope_number} at {run.head_sha}, and the "
        f"commit is hardly the cause. {why}\n\nThe run: {run.url or run.id}. It is run once more; "
        "if it fails again, the pull request waits for a person.\n\n"
        "There is one such issue for each check. Close it when the check can be relied on."
    )
    return OpenIssue(f"Flaky: {name}", body), token_of("flaky", run.check)


def second_failure(again: Iterable[RunSeen]) -> str:
    """What people are told when the repetition fails too."""
    listed = "\n".join(f"- `{plain(one.run.check)}`: {one.run.url or one.run.id}" for one in again)
    return (
        f"CI failed, was run once more without a change, and failed again:\n\n{listed}\n\n"
        "All work is on the branch of the pull request. Is the check broken, or the work? Mend "
        "or repeat the check, or say here what is to be changed; then let it go on."
    )


def too_many_turns(failed: Iterable[RunSeen], pull: PullRow) -> str:
    """What people are asked when CI alone has kept an agent busy for too long."""
    return (
        f"CI fails ({names_of(failed)}), and {pull.turns_without_person} turns passed without a "
        "person's word. All work is on the branch of the pull request. How shall it go on?"
    )


def names_of(runs: Iterable[RunSeen]) -> str:
    """Checks in a sentence."""
    return ", ".join(sorted({f"`{plain(one.run.check)}`" for one in runs}))


def plain(name: str) -> str:
    """A check's name between backticks: anybody who writes workflows chooses it."""
    return " ".join(name.replace("`", "'").split())[:LONGEST_NAME]

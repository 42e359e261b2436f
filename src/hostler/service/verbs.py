"""What each verb of an operator does: one more face of what the command line can do.

Verbs that only look give their answer; those that change rows do so in the transaction that
stores it; those that ask GitHub first store it themselves, with what they change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from hostler.flows import commands
from hostler.flows.operations import SCOPES as OPERATIONS
from hostler.flows.operations import current_operation, request_restart
from hostler.flows.resuming import SCOPES as RESUMING
from hostler.flows.resuming import Order, resume_pull, unblock
from hostler.flows.standing import NotResumed
from hostler.governor import look_around, read_policy
from hostler.intake.answering import answer
from hostler.intake.operator import Verb, quoted, usage
from hostler.service.following import UNFINISHED, state_words
from hostler.service.operator_texts import Scene, changed_text, name, status_text, why_text
from hostler.service.places import paused_words
from hostler.service.presence import presence
from hostler.service.space import rooms_of
from hostler.service.verb_targets import NotSaid, Post, of_issue, of_pull, pull_meant_by, task_of
from hostler.service.why import Inquiry, why
from hostler.store.operator import (
    CommandRow,
    CommandStatus,
    all_pauses,
    pause,
    project_scope,
    unpause,
)
from hostler.store.tasks import Task, TaskState, require_task, tasks_in
from hostler.store.transaction import Transaction

# What any of them may change.
SCOPES = tuple(sorted({*OPERATIONS, *RESUMING}))


# -- what only looks --------------------------------------------------------------------------


def _help(_tx: Transaction, _post: Post, _command: CommandRow) -> str:
    return f"One command per comment, at the beginning of a line:\n\n{usage()}"


def _status(tx: Transaction, post: Post, _command: CommandRow) -> str:
    states = (*UNFINISHED, TaskState.FAILED)
    scene = Scene(
        str(post.watch.repo),
        tuple(tasks_in(tx, states, post.watch.repo)),
        _pause_of(tx, post),
        restarting=current_operation(tx) is not None,
    )
    return status_text(scene)


def _why(tx: Transaction, post: Post, command: CommandRow) -> str:
    house = post.house
    policy = read_policy(house.home, house.settings)
    inquiry = Inquiry(
        house.store,
        house.settings,
        policy,
        look_around(),
        presence(house.home),
        rooms_of(house.home),
    )
    return why_text(why(tx, inquiry, task_of(tx, post, command)))


# -- what changes rows ------------------------------------------------------------------------


def _stop(tx: Transaction, post: Post, command: CommandRow) -> str:
    stopped = commands.stop(tx, task_of(tx, post, command), command.actor)
    return changed_text("Stopped", stopped) + " Only a person starts it again."


def _retry(tx: Transaction, post: Post, command: CommandRow) -> str:
    task = commands.retry(tx, of_issue(tx, post, command), command.actor)
    return changed_text("Begins anew", [task])


def _pause(tx: Transaction, post: Post, command: CommandRow) -> str:
    why = f"on {post.watch.repo}#{command.thread_number}"
    new = pause(tx, project_scope(post.watch.project), command.actor, why)
    already = "" if new else "already "
    return f"`{post.watch.repo}` is {already}paused: nothing new starts, agents at work go on."


def _unpause(tx: Transaction, post: Post, _command: CommandRow) -> str:
    lifted = unpause(tx, project_scope(post.watch.project))
    held, repo = _pause_of(tx, post), f"`{post.watch.repo}`"
    if held:
        return f"{repo} stays paused, and only somebody at the machine can lift it: {quoted(held)}"
    return f"{repo} goes on." if lifted else f"{repo} was not paused."


def _restart(tx: Transaction, _post: Post, command: CommandRow) -> None:
    """Its end has the answer."""
    if not request_restart(tx, command.actor, command):
        raise NotSaid("A restart is already under way.")


def _pause_of(tx: Transaction, post: Post) -> str:
    """What holds the repository back; empty: nothing does."""
    project = post.watch.project
    in_settings = post.house.settings.repo[project].paused
    return paused_words(project, all_pauses(tx), in_settings=in_settings)


# -- what asks GitHub -------------------------------------------------------------------------


def _unblock(post: Post, command: CommandRow) -> None:
    store = post.house.store
    with store.read() as tx:
        task = of_pull(tx, post, command)
    if task.state is not TaskState.BLOCKED:
        raise NotResumed(f"It is not blocked: {name(task)} is {state_words(task)}.")
    unblock(store, post.forge, post.watch, task, _order(post, command, "Unblocked"))


def _resume(post: Post, command: CommandRow) -> None:
    store = post.house.store
    with store.read() as tx:
        number, task = pull_meant_by(tx, post, command)
    if number is None:
        with store.write(*SCOPES) as tx:
            again = commands.resume(tx, require_task(tx, task.id), command.actor)
            answer(tx, command, CommandStatus.APPLIED, changed_text("Goes on", [again]))
        return
    order = _order(post, command, "Resumed")
    done = resume_pull(store, post.forge, post.watch, number, order)
    if not done.changed:
        with store.write(*SCOPES) as tx:
            text = f"Pull request `#{number}` is listened to already."
            answer(tx, command, CommandStatus.APPLIED, text)


def _order(post: Post, command: CommandRow, what: str) -> Order:
    back = post.house.settings.runtime.comment_fetch_safe_backfill_seconds

    def noted(tx: Transaction, task: Task) -> None:
        text = f"{changed_text(what, [task])} It is {state_words(task)}."
        answer(tx, command, CommandStatus.APPLIED, text)

    return Order(
        command.actor, command.arguments.get("head_sha", ""), timedelta(seconds=back), noted
    )


LOOKING: Mapping[Verb, Callable[[Transaction, Post, CommandRow], str]] = {
    Verb.HELP: _help,
    Verb.STATUS: _status,
    Verb.WHY: _why,
}
# None: the answer comes later.
CHANGING: Mapping[Verb, Callable[[Transaction, Post, CommandRow], str | None]] = {
    Verb.STOP: _stop,
    Verb.RETRY: _retry,
    Verb.PAUSE: _pause,
    Verb.UNPAUSE: _unpause,
    Verb.RESTART: _restart,
}
ASKING: Mapping[Verb, Callable[[Post, CommandRow], None]] = {
    Verb.UNBLOCK: _unblock,
    Verb.RESUME: _resume,
}

"""Execute operator commands, each once, and reply once.

A command is a row until it has its reply. Its effect, its end and its reply are one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from hostler.errors import ForgeError, HostlerError, StoreConflict, StoreError
from hostler.governor.holders import read_host
from hostler.governor.policy import read_policy
from hostler.intake.model import RefuseCommand, StoreCommand
from hostler.intake.operator_commands import reply_to_command
from hostler.intake.operator_syntax import (
    OperatorVerb,
    ParsedCommand,
    command_key,
    quote_text,
    render_usage,
)
from hostler.intake.process import ProcessResult
from hostler.model import parse_timestamp
from hostler.service.context import read_presence
from hostler.service.operator_commands.replies import (
    DEFECT_REPLY,
    RepoTasksStatus,
    render_changed,
    render_error,
    render_public_error,
    render_status,
    render_why,
    task_name,
)
from hostler.service.operator_commands.targets import (
    CommandContext,
    CommandNotApplicable,
    find_issue_task,
    find_pull_task,
    find_target_pull,
    find_thread_task,
)
from hostler.service.scheduling.explain import ExplainInputs, explain_task
from hostler.service.scheduling.gates import read_disk_space
from hostler.service.scheduling.placement import paused_text
from hostler.service.tasks.summary import UNFINISHED_STATES
from hostler.store.operator import (
    CommandRow,
    CommandStatus,
    all_pauses,
    change_command,
    commands_in,
    find_command,
    pause,
    project_scope,
    unpause,
)
from hostler.store.tasks import Task, TaskState, require_task, tasks_in
from hostler.store.transaction import Transaction, age
from hostler.task_states import state_text
from hostler.telemetry import names
from hostler.telemetry.logs import EventLog
from hostler.workflows import commands
from hostler.workflows.commands import RESTART_SCOPES as OPERATIONS
from hostler.workflows.commands import current_restart, request_restart
from hostler.workflows.resume import RESUME_SCOPES as RESUMING
from hostler.workflows.resume import NotResumed, ResumeRequest, resume_pull, unblock

# What any of them may change.
COMMAND_SCOPES = tuple(sorted({*OPERATIONS, *RESUMING}))


# -- what only looks --------------------------------------------------------------------------


def _show_help(_tx: Transaction, _post: CommandContext, _command: CommandRow) -> str:
    return f"One command per comment, at the beginning of a line:\n\n{render_usage()}"


def _show_status(tx: Transaction, post: CommandContext, _command: CommandRow) -> str:
    states = (*UNFINISHED_STATES, TaskState.FAILED)
    scene = RepoTasksStatus(
        str(post.watch.repo),
        tuple(tasks_in(tx, states, post.watch.repo)),
        _pause_reason(tx, post),
        restarting=current_restart(tx) is not None,
    )
    return render_status(scene)


def _show_why(tx: Transaction, post: CommandContext, command: CommandRow) -> str:
    app = post.app
    policy = read_policy(app.home, app.settings)
    inputs = ExplainInputs(
        app.store,
        app.settings,
        policy,
        read_host(),
        read_presence(app.home),
        read_disk_space(app.home),
    )
    return render_why(explain_task(tx, inputs, find_thread_task(tx, post, command)))


# -- what changes rows ------------------------------------------------------------------------


def _stop_task(tx: Transaction, post: CommandContext, command: CommandRow) -> str:
    stopped = commands.stop_task(tx, find_thread_task(tx, post, command), command.actor)
    return render_changed("Stopped", stopped) + " Only a person starts it again."


def _retry_task(tx: Transaction, post: CommandContext, command: CommandRow) -> str:
    task = commands.retry_task(tx, find_issue_task(tx, post, command), command.actor)
    return render_changed("Begins anew", [task])


def _pause_repo(tx: Transaction, post: CommandContext, command: CommandRow) -> str:
    why = f"on {post.watch.repo}#{command.thread_number}"
    new = pause(tx, project_scope(post.watch.project), command.actor, why)
    already = "" if new else "already "
    return f"`{post.watch.repo}` is {already}paused: nothing new starts, agents at work go on."


def _unpause_repo(tx: Transaction, post: CommandContext, _command: CommandRow) -> str:
    lifted = unpause(tx, project_scope(post.watch.project))
    held, repo = _pause_reason(tx, post), f"`{post.watch.repo}`"
    if held:
        return (
            f"{repo} stays paused, and only somebody at the machine can lift it: {quote_text(held)}"
        )
    return f"{repo} goes on." if lifted else f"{repo} was not paused."


def _request_restart(tx: Transaction, _post: CommandContext, command: CommandRow) -> None:
    """Its end has the answer."""
    if not request_restart(tx, command.actor, command):
        raise CommandNotApplicable("A restart is already under way.")


def _pause_reason(tx: Transaction, post: CommandContext) -> str:
    """What holds the repository back; empty: nothing does."""
    project = post.watch.project
    in_settings = post.app.settings.repo[project].paused
    return paused_text(project, all_pauses(tx), in_settings=in_settings)


# -- what asks GitHub -------------------------------------------------------------------------


def _unblock_pull(post: CommandContext, command: CommandRow) -> None:
    store = post.app.store
    with store.read() as tx:
        task = find_pull_task(tx, post, command)
    if task.state is not TaskState.BLOCKED:
        raise NotResumed(f"It is not blocked: {task_name(task)} is {state_text(task)}.")
    unblock(store, post.forge, post.watch, task, _build_resume_request(post, command, "Unblocked"))


def _resume_task(post: CommandContext, command: CommandRow) -> None:
    store = post.app.store
    with store.read() as tx:
        number, task = find_target_pull(tx, post, command)
    if number is None:
        with store.write(*COMMAND_SCOPES) as tx:
            again = commands.resume_task(tx, require_task(tx, task.id), command.actor)
            reply_to_command(tx, command, CommandStatus.APPLIED, render_changed("Goes on", [again]))
        return
    order = _build_resume_request(post, command, "Resumed")
    done = resume_pull(store, post.forge, post.watch, number, order)
    if not done.changed:
        with store.write(*COMMAND_SCOPES) as tx:
            text = f"Pull request `#{number}` is listened to already."
            reply_to_command(tx, command, CommandStatus.APPLIED, text)


def _build_resume_request(post: CommandContext, command: CommandRow, what: str) -> ResumeRequest:
    back = post.app.settings.runtime.comment_fetch_safe_backfill_seconds

    def noted(tx: Transaction, task: Task) -> None:
        text = f"{render_changed(what, [task])} It is {state_text(task)}."
        reply_to_command(tx, command, CommandStatus.APPLIED, text)

    return ResumeRequest(
        command.actor, command.arguments.get("head_sha", ""), timedelta(seconds=back), noted
    )


READ_COMMANDS: Mapping[OperatorVerb, Callable[[Transaction, CommandContext, CommandRow], str]] = {
    OperatorVerb.HELP: _show_help,
    OperatorVerb.STATUS: _show_status,
    OperatorVerb.WHY: _show_why,
}
# None: the answer comes later.
WRITE_COMMANDS: Mapping[
    OperatorVerb, Callable[[Transaction, CommandContext, CommandRow], str | None]
] = {
    OperatorVerb.STOP: _stop_task,
    OperatorVerb.RETRY: _retry_task,
    OperatorVerb.PAUSE: _pause_repo,
    OperatorVerb.UNPAUSE: _unpause_repo,
    OperatorVerb.RESTART: _request_restart,
}
GITHUB_COMMANDS: Mapping[OperatorVerb, Callable[[CommandContext, CommandRow], None]] = {
    OperatorVerb.UNBLOCK: _unblock_pull,
    OperatorVerb.RESUME: _resume_task,
}


# How long a command waits for a GitHub that does not answer.
MAX_GITHUB_WAIT = timedelta(hours=1)


class CommandExecutor:
    """Carries out what waits, in the order in which it was said; one look at a time."""

    def __init__(self, post: CommandContext, log: EventLog | None = None) -> None:
        self._post = post
        self._store = post.app.store
        self._log = log
        # Where the database stood when no command waited; None: look again.
        self._idle: int | None = None

    def execute_pending(self, taken: ProcessResult | None = None) -> list[CommandRow]:
        """Carry out every command that waits, those of a look among them; what was tried."""
        self._tell_heard(taken or ProcessResult())
        mark = self._store.change_mark()
        if self._idle == mark:
            return []
        with self._store.read() as tx:
            waiting = commands_in(tx, self._post.watch.repo, (CommandStatus.SEEN,))
        self._idle = None if waiting else mark
        for command in waiting:
            self._attempt(command)
        return waiting

    def _attempt(self, command: CommandRow) -> None:
        """One command; a look that began under other settings may have been faster."""
        try:
            self._try(command)
        except StoreConflict:
            with self._store.read() as tx:
                present = find_command(tx, command.command_key)
            if present is None or present.status is CommandStatus.SEEN:
                raise

    def _try(self, command: CommandRow) -> None:
        """Whatever happens to it keeps no other one from its turn."""
        try:
            over = self._carry_out(command)
        except StoreError:
            raise  # nothing can be stored about it now; it waits
        except ForgeError as error:
            if not self._is_late(command):
                return  # GitHub does not answer; it waits
            self._failed(command, render_error(error), error)
        except HostlerError as error:
            self._failed(command, render_public_error(error), error)
        except Exception as error:
            self._failed(command, DEFECT_REPLY, error)
        else:
            if over:
                self._say(names.OPERATOR_COMMAND_APPLIED, command)

    def _carry_out(self, command: CommandRow) -> bool:
        """Do it; whether it is over. A restart is only asked for, and says itself how it went."""
        verb = OperatorVerb(command.verb)
        if verb in GITHUB_COMMANDS:
            GITHUB_COMMANDS[verb](self._post, command)
            return True
        if verb in READ_COMMANDS:
            with self._store.read() as tx:
                text = READ_COMMANDS[verb](tx, self._post, command)
            with self._store.write(*COMMAND_SCOPES) as tx:
                reply_to_command(tx, command, CommandStatus.APPLIED, text)
            return True
        return self._change(command, verb)

    def _change(self, command: CommandRow, verb: OperatorVerb) -> bool:
        with self._store.write(*COMMAND_SCOPES) as tx:
            text = WRITE_COMMANDS[verb](tx, self._post, command)
            if text is None:
                change_command(tx, command, CommandStatus.WAITING)
            else:
                reply_to_command(tx, command, CommandStatus.APPLIED, text)
        return text is not None

    def _failed(self, command: CommandRow, text: str, error: Exception) -> None:
        with self._store.write(*COMMAND_SCOPES) as tx:
            reply_to_command(tx, command, CommandStatus.FAILED, text)
        known = isinstance(error, HostlerError)
        self._say(
            names.OPERATOR_COMMAND_FAILED,
            command,
            error=None if known else error,
            why=str(error),
        )

    def _is_late(self, command: CommandRow) -> bool:
        with self._store.read() as tx:
            return age(parse_timestamp(command.created_at), tx.now()) >= MAX_GITHUB_WAIT

    def _tell_heard(self, taken: ProcessResult) -> None:
        """Tell the log which commands have come."""
        for one in taken.events:
            for effect in one.decision.effects:
                if isinstance(effect, StoreCommand | RefuseCommand):
                    self._tell(effect)

    def _tell(self, effect: StoreCommand | RefuseCommand) -> None:
        said = effect.comment.row
        if self._log is None:
            return
        log = self._log.bind(
            repo=str(self._post.watch.repo),
            number=said.scope_number,
            actor=said.author,
            key=command_key(self._post.watch.repo, said.event_key),
        )
        if isinstance(effect, StoreCommand) and isinstance(effect.command, ParsedCommand):
            log.event(names.OPERATOR_COMMAND_SEEN, verb=effect.command.verb.value)
        else:
            log.event(names.OPERATOR_COMMAND_REFUSED)

    def _say(
        self,
        event: names.LogEvent,
        command: CommandRow,
        error: Exception | None = None,
        **more: str,
    ) -> None:
        if self._log is not None:
            self._log.event(
                event,
                error=error,
                repo=command.repo_full_name,
                number=command.thread_number,
                actor=command.actor,
                verb=command.verb,
                key=command.command_key,
                **more,
            )

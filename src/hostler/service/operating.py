"""Operator commands of one repository: each carried out once, and answered once.

A command is a row until it has its answer. Its effect, its end and its reply are one transaction.
"""

from __future__ import annotations

from datetime import timedelta

from hostler.errors import ForgeError, HostlerError, StoreConflict, StoreError
from hostler.intake import Taken
from hostler.intake.answering import answer
from hostler.intake.effects import Note, Refuse
from hostler.intake.operator import Asked, Verb, command_key
from hostler.model import parse_stamp
from hostler.service.operator_texts import DEFECT, error_text, public_text
from hostler.service.verb_targets import Post
from hostler.service.verbs import ASKING, CHANGING, LOOKING, SCOPES
from hostler.store.operator import (
    CommandRow,
    CommandStatus,
    change_command,
    commands_in,
    find_command,
)
from hostler.store.transaction import age
from hostler.telemetry import names
from hostler.telemetry.logs import Log

# How long a command waits for a GitHub that does not answer.
PATIENCE = timedelta(hours=1)


class Operator:
    """Carries out what waits, in the order in which it was said; one look at a time."""

    def __init__(self, post: Post, log: Log | None = None) -> None:
        self._post = post
        self._store = post.house.store
        self._log = log
        # Where the database stood when no command waited; None: look again.
        self._idle: int | None = None

    def obey(self, taken: Taken | None = None) -> list[CommandRow]:
        """Carry out every command that waits, those of a look among them; what was tried."""
        self._tell_heard(taken or Taken())
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
            self._failed(command, error_text(error), error)
        except HostlerError as error:
            self._failed(command, public_text(error), error)
        except Exception as error:
            self._failed(command, DEFECT, error)
        else:
            if over:
                self._say(names.OPERATOR_COMMAND_APPLIED, command)

    def _carry_out(self, command: CommandRow) -> bool:
        """Do it; whether it is over. A restart is only asked for, and says itself how it went."""
        verb = Verb(command.verb)
        if verb in ASKING:
            ASKING[verb](self._post, command)
            return True
        if verb in LOOKING:
            with self._store.read() as tx:
                text = LOOKING[verb](tx, self._post, command)
            with self._store.write(*SCOPES) as tx:
                answer(tx, command, CommandStatus.APPLIED, text)
            return True
        return self._change(command, verb)

    def _change(self, command: CommandRow, verb: Verb) -> bool:
        with self._store.write(*SCOPES) as tx:
            text = CHANGING[verb](tx, self._post, command)
            if text is None:
                change_command(tx, command, CommandStatus.WAITING)
            else:
                answer(tx, command, CommandStatus.APPLIED, text)
        return text is not None

    def _failed(self, command: CommandRow, text: str, error: Exception) -> None:
        with self._store.write(*SCOPES) as tx:
            answer(tx, command, CommandStatus.FAILED, text)
        known = isinstance(error, HostlerError)
        self._say(
            names.OPERATOR_COMMAND_FAILED,
            command,
            error=None if known else error,
            why=str(error),
        )

    def _is_late(self, command: CommandRow) -> bool:
        with self._store.read() as tx:
            return age(parse_stamp(command.created_at), tx.now()) >= PATIENCE

    def _tell_heard(self, taken: Taken) -> None:
        """Tell the log which commands have come."""
        for one in taken.heard:
            for effect in one.decision.effects:
                if isinstance(effect, Note | Refuse):
                    self._tell(effect)

    def _tell(self, effect: Note | Refuse) -> None:
        said = effect.remark.row
        if self._log is None:
            return
        log = self._log.bind(
            repo=str(self._post.watch.repo),
            number=said.scope_number,
            actor=said.author,
            key=command_key(self._post.watch.repo, said.event_key),
        )
        if isinstance(effect, Note) and isinstance(effect.asked, Asked):
            log.event(names.OPERATOR_COMMAND_SEEN, verb=effect.asked.verb.value)
        else:
            log.event(names.OPERATOR_COMMAND_REFUSED)

    def _say(
        self, event: names.Event, command: CommandRow, error: Exception | None = None, **more: str
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

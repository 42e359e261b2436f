"""The rules of commands: whose count, and where. Pure."""

from __future__ import annotations

from datetime import timedelta

from hostler.forge.markers import tokens_in
from hostler.intake.effects import Decision, Known, Note, Refuse
from hostler.intake.operator import Asked, Misspoken
from hostler.intake.people import Watch, is_bot
from hostler.intake.signals import Remark
from hostler.model import parse_stamp
from hostler.store.transaction import normal_stamp

# The longest usual pause between two looks.
SHORTLY = timedelta(minutes=10)


def on_command(said: Remark, asked: Asked | Misspoken, known: Known, watch: Watch) -> Decision:
    """What one version of a comment with a command in it causes."""
    who, number = said.row.author, said.row.scope_number
    if is_bot(who):
        return Decision(f"{who} is a bot, and bots give no commands.")
    if tokens_in(said.body):
        return Decision("It carries a mark of ours: what we write is no command.")
    if said.is_empty:
        return Decision("It asks for nothing.")
    tracked = bool(known.tasks) or known.pull is not None
    if not tracked and number != watch.operations_issue:
        if known.opening:
            return Decision("A pull request is just being opened; it may be there.", waits=True)
        return Decision("Commands count on the threads of tasks and on the operations issue.")
    if tracked and was_before(said, known):
        return Decision("It was said before there was a task here, and is history.")
    if not tracked and not known.operations_begun:
        return Decision("The operations issue was not read whole yet.", waits=True)
    if not watch.obeys(who):
        return Decision(f"{who} is not among operator_logins.", (Refuse(said, asked),))
    return Decision(f"{who} gives a command.", (Note(said, asked),))


def was_before(said: Remark, known: Known) -> bool:
    """Whether something was said long before the thread was followed.

    A scan that reads threads whole shows what people once commanded elsewhere. Shortly before
    counts: who labels an issue and commands at once may be faster than we are.
    """
    tasks = known.tasks or ((known.pull_task,) if known.pull_task else ())
    begun = min((task.created_at for task in tasks if task.created_at), default="")
    if not begun:
        return False
    return parse_stamp(normal_stamp(said.row.updated_at)) < parse_stamp(begun) - SHORTLY

"""What an operator is told on GitHub. Pure.

What others wrote (reasons, questions, titles) stands there as code: it names nobody, links
nowhere, and is cut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hostler.errors import HostlerError
from hostler.flows.commands import CommandRefused
from hostler.flows.standing import NotResumed
from hostler.intake.operator import quoted
from hostler.service.admission import GOVERNED
from hostler.service.candidates import Gate
from hostler.service.following import state_words
from hostler.service.snapshot.needy import PERSON
from hostler.service.verb_targets import NotSaid
from hostler.service.why import TURN, Why
from hostler.store.tasks import Task, TaskState

MOST_LISTED = 10
LONGEST_WORDS = 300
# Errors whose words were written for those who command.
MEANT_FOR_THEM = (CommandRefused, NotResumed, NotSaid)
TROUBLE = "It could not be done: something is wrong with the service or its settings. Nothing was \
changed; `hostler doctor` on the machine, and the log, say what."
DEFECT = "Something broke here that should not. Nothing was changed; the log has the details."

# Of these gates the whole sentence names folders, sums, accounts or other people's work: what it
# says on GitHub, everybody can read.
PUBLIC: dict[str, str] = {
    TURN: "Another task goes first.",
    Gate.DISK: "A disk of the machine has too little room.",
    Gate.BUDGET: "A budget is used up.",
    **dict.fromkeys(GOVERNED, "The machine or a provider takes no more agents now."),
}
ELSEWHERE = "Wait, or see `hostler why` on the machine."


@dataclass(frozen=True, slots=True)
class Scene:
    """A repository at one moment: its tasks that are not over or failed, and what holds it."""

    repo: str
    tasks: tuple[Task, ...] = ()
    paused: str = ""
    restarting: bool = False


def status_text(scene: Scene) -> str:
    """What is at work, waits and needs a person."""
    return "\n".join([f"`{scene.repo}` now:", "", *_status(scene)])


def _status(scene: Scene) -> Iterator[str]:
    if scene.paused:
        yield f"- paused: {_words(scene.paused)}"
    if scene.restarting:
        yield "- a restart of the service is under way"
    counts = Counter(task.state for task in scene.tasks)
    told = [f"{counts[state]} {state.replace('_', ' ')}" for state in TaskState if counts[state]]
    yield f"- tasks: {', '.join(told) or 'none'}"
    yield from _listed("at work", [t for t in scene.tasks if t.state is TaskState.RUNNING])
    yield from _listed("needs a person", [t for t in scene.tasks if t.state in PERSON])


def _listed(what: str, tasks: Sequence[Task]) -> Iterator[str]:
    for task in tasks[:MOST_LISTED]:
        why = task.question if task.state is TaskState.NEEDS_INPUT else task.reason
        shown = f": {_words(why)}" if why and task.state in PERSON else ""
        yield f"- {what}: {name(task)}, {state_words(task)}{shown}"
    if len(tasks) > MOST_LISTED:
        yield f"- {what}: {len(tasks) - MOST_LISTED} more"


def name(task: Task) -> str:
    """A task as people know it on GitHub."""
    if task.by_hand:
        return f"`{task.id}`"
    pull = f" with pull request `#{task.pr_number}`" if task.pr_number else ""
    return f"`#{task.number}`{pull} ({task.flow.replace('_', ' ')})"


def why_text(found: Why) -> str:
    """What holds a task, or what it does instead of waiting."""
    return "\n".join([f"{name(found.task)} is {state_words(found.task)}.", "", *_why(found)])


def _why(found: Why) -> Iterator[str]:
    if found.next is not None:
        yield f"- why: {_words(found.next.what)}"
        yield f"- then: {_words(found.next.then or 'Wait.')}"
    elif found.held is None:
        yield "- Nothing holds it: it starts now."
    else:
        yield f"- gate: `{found.held.gate}`"
        told = PUBLIC.get(found.held.gate)
        yield f"- why: {_words(told or found.held.why or found.task.reason)}"
        until = found.held.until
        yield f"- opens: {f'{until:%Y-%m-%d %H:%M} UTC' if until else 'not known'}"
        remedy = ELSEWHERE if told else found.held.remedy
        yield f"- do: {_words(remedy or 'Wait.')}"


def changed_text(what: str, tasks: Iterable[Task]) -> str:
    """Which tasks were changed."""
    return f"{what}: {', '.join(map(name, tasks))}."


def error_text(error: HostlerError) -> str:
    """Why something was not done, and what to do."""
    return " ".join(error.lines())


def public_text(error: HostlerError) -> str:
    """The same, where everybody can read it: only what was meant for those who command."""
    return error_text(error) if isinstance(error, MEANT_FOR_THEM) else TROUBLE


def _words(text: str) -> str:
    return quoted(text, LONGEST_WORDS)

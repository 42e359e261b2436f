"""Replies to operator commands on GitHub. Pure functions.

Text of others (reasons, questions, titles) is quoted as code and shortened: no mentions, no links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hostler.errors import HostlerError
from hostler.intake.operator_syntax import quote_text
from hostler.service.operator_commands.targets import CommandNotApplicable
from hostler.service.scheduling.admission import GOVERNOR_GATES
from hostler.service.scheduling.explain import TURN_GATE, Explanation
from hostler.service.scheduling.gates import HomeGate
from hostler.service.snapshot.activity import NEEDS_PERSON_STATES
from hostler.store.tasks import Task, TaskState
from hostler.task_states import state_text
from hostler.workflows.commands import CommandRefused
from hostler.workflows.resume import NotResumed

MAX_LISTED = 10
MAX_QUOTE_LENGTH = 300
# Errors whose words were written for those who command.
PUBLIC_ERRORS = (CommandRefused, NotResumed, CommandNotApplicable)
ERROR_REPLY = (
    "It could not be done: something is wrong with the service or its settings. Nothing was \
changed; `hostler doctor` on the machine, and the log, say what."
)
DEFECT_REPLY = "Something broke here that should not. Nothing was changed; the log has the details."

# Of these gates the whole sentence names folders, sums, accounts or other people's work: what it
# says on GitHub, everybody can read.
PUBLIC_GATE_TEXTS: dict[str, str] = {
    TURN_GATE: "Another task goes first.",
    HomeGate.DISK: "A disk of the machine has too little room.",
    HomeGate.BUDGET: "A budget is used up.",
    **dict.fromkeys(GOVERNOR_GATES, "The machine or a provider takes no more agents now."),
}
PUBLIC_REMEDY = "Wait, or see `hostler why` on the machine."


@dataclass(frozen=True, slots=True)
class RepoTasksStatus:
    """A repository at one moment: its tasks that are not over or failed, and what holds it."""

    repo: str
    tasks: tuple[Task, ...] = ()
    paused: str = ""
    restarting: bool = False


def render_status(scene: RepoTasksStatus) -> str:
    """What is at work, waits and needs a person."""
    return "\n".join([f"`{scene.repo}` now:", "", *_status_lines(scene)])


def _status_lines(scene: RepoTasksStatus) -> Iterator[str]:
    if scene.paused:
        yield f"- paused: {_quote(scene.paused)}"
    if scene.restarting:
        yield "- a restart of the service is under way"
    counts = Counter(task.state for task in scene.tasks)
    told = [f"{counts[state]} {state.replace('_', ' ')}" for state in TaskState if counts[state]]
    yield f"- tasks: {', '.join(told) or 'none'}"
    yield from _task_lines("at work", [t for t in scene.tasks if t.state is TaskState.RUNNING])
    yield from _task_lines(
        "needs a person", [t for t in scene.tasks if t.state in NEEDS_PERSON_STATES]
    )


def _task_lines(what: str, tasks: Sequence[Task]) -> Iterator[str]:
    for task in tasks[:MAX_LISTED]:
        why = task.question if task.state is TaskState.NEEDS_INPUT else task.reason
        shown = f": {_quote(why)}" if why and task.state in NEEDS_PERSON_STATES else ""
        yield f"- {what}: {task_name(task)}, {state_text(task)}{shown}"
    if len(tasks) > MAX_LISTED:
        yield f"- {what}: {len(tasks) - MAX_LISTED} more"


def task_name(task: Task) -> str:
    """A task as people know it on GitHub."""
    if task.by_hand:
        return f"`{task.id}`"
    pull = f" with pull request `#{task.pr_number}`" if task.pr_number else ""
    return f"`#{task.number}`{pull} ({task.flow.replace('_', ' ')})"


def render_why(found: Explanation) -> str:
    """What holds a task, or what it does instead of waiting."""
    return "\n".join(
        [f"{task_name(found.task)} is {state_text(found.task)}.", "", *_why_lines(found)]
    )


def _why_lines(found: Explanation) -> Iterator[str]:
    if found.next is not None:
        yield f"- why: {_quote(found.next.what)}"
        yield f"- then: {_quote(found.next.then or 'Wait.')}"
    elif found.denial is None:
        yield "- Nothing holds it: it starts now."
    else:
        yield f"- gate: `{found.denial.gate}`"
        told = PUBLIC_GATE_TEXTS.get(found.denial.gate)
        yield f"- why: {_quote(told or found.denial.why or found.task.reason)}"
        until = found.denial.until
        yield f"- opens: {f'{until:%Y-%m-%d %H:%M} UTC' if until else 'not known'}"
        remedy = PUBLIC_REMEDY if told else found.denial.remedy
        yield f"- do: {_quote(remedy or 'Wait.')}"


def render_changed(what: str, tasks: Iterable[Task]) -> str:
    """Which tasks were changed."""
    return f"{what}: {', '.join(map(task_name, tasks))}."


def render_error(error: HostlerError) -> str:
    """Why something was not done, and what to do."""
    return " ".join(error.lines())


def render_public_error(error: HostlerError) -> str:
    """The same, where everybody can read it: only what was meant for those who command."""
    return render_error(error) if isinstance(error, PUBLIC_ERRORS) else ERROR_REPLY


def _quote(text: str) -> str:
    return quote_text(text, MAX_QUOTE_LENGTH)

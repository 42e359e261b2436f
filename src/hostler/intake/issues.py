"""The rules of issues: which become tasks, and what ends a task. Pure."""

from __future__ import annotations

from dataclasses import replace

from hostler.intake.effects import Begin, Decision, Effect, Known, Move, Reword, TakeOver
from hostler.intake.people import Watch, flow_of, is_ignored, refusal
from hostler.intake.references import Named, references
from hostler.intake.signals import IssueSeen
from hostler.store.tasks import IssueRef, Task, TaskState

# Before an agent is at work, and before there is anything of its work to see.
_NOT_BEGUN = frozenset(
    {TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED, TaskState.NEEDS_INPUT}
)
# In the key of a version that the operator brought in.
BY_HAND = ":by-hand:"
VOID = "The issue's text was changed after it was approved, and its author is not allowed here."
UNTOLD = Decision("GitHub did not say yet what it is blocked by.", waits=True)
VOID_QUESTION = (
    "The text of this issue was changed after it was approved. "
    "Shall the work go on with the new text? A comment here by somebody allowed approves it."
)


def on_issue(seen: IssueSeen, known: Known, watch: Watch) -> Decision:
    """What one version of an issue causes."""
    if not known.newest:
        return Decision("A newer version of the issue is known.")
    if seen.is_pull:
        return _on_pull_as_issue(seen, known, watch)
    if not seen.is_open:
        return _stop(known.tasks, "The issue was closed.", "It is closed.")
    if is_ignored(watch, seen.labels):
        return _taken_over(known.tasks, f"The issue carries {watch.labels.ignore}.")
    if known.present is not None:
        return _changed(seen, known, known.present, watch)
    return pick_up(seen, known, watch)


def waits_for(seen: IssueSeen, known: Known, watch: Watch) -> Named:
    """What the task of an issue has to wait for: by its text, and by GitHub's own list."""
    own = IssueRef.of(watch.repo, seen.row.scope_number)
    said = references(seen.body, own)
    names = dict.fromkeys([*said.names, *(known.blocked_by or ())])
    return Named(tuple(name for name in names if name != str(own)), said.left_out)


def waits_no_more(task: Task) -> bool:
    """Whether a task is past waiting for others: it has begun, or the operator said now."""
    return task.over or task.attempt > 0 or BY_HAND in task.issue_key


def pick_up(seen: IssueSeen, known: Known, watch: Watch) -> Decision:
    """Whether an open issue without a task becomes one."""
    found = flow_of(watch, seen.labels)
    if found is None:
        wanted = ", ".join(label for label, _ in watch.flows())
        return Decision(f"It carries none of the labels {wanted}.")
    if watch.allows(seen.row.author):
        why = f"{seen.row.author}, who is allowed, wrote it, and it carries {found[0]}."
        return _begin(why, Begin(found[1], seen, seen.row.author), known, watch)
    if known.labellers is None:
        return Decision("Who put its label there is not known yet.", waits=True)
    return _by_label(seen, known, known.labellers, watch)


def _by_label(seen: IssueSeen, known: Known, labellers: dict[str, str], watch: Watch) -> Decision:
    """A stranger's issue: only labels put there by somebody allowed count."""
    who = {label.lower(): login for label, login in labellers.items()}
    trusted = [label for label in seen.labels if watch.allows(who.get(label.lower(), ""))]
    found = flow_of(watch, trusted)
    if found is None:
        return Decision(
            f"{refusal(seen.row.author)} Somebody who is may put the label there instead."
        )
    label, flow = found
    by = who[label.lower()]
    why = f"{by}, who is allowed, put {label} on it."
    return _begin(why, Begin(flow, seen, by), known, watch)


def _begin(why: str, begin: Begin, known: Known, watch: Watch) -> Decision:
    if known.blocked_by is None:
        return UNTOLD
    named = waits_for(begin.issue, known, watch)
    told = " ".join([why, *named.left_out])
    return Decision(told, (replace(begin, waits_for=named),))


def _changed(seen: IssueSeen, known: Known, task: Task, watch: Watch) -> Decision:
    """A new version of an issue that has a task."""
    if seen.digest == task.body_digest or task.over:
        return _same_text(seen, known, task, watch)
    named = None if waits_no_more(task) else waits_for(seen, known, watch)
    if watch.allows(seen.row.author):
        if known.blocked_by is None and named is not None:
            return UNTOLD
        return Decision("Its author changed the text.", (Reword(task, seen, named),))
    if task.state is TaskState.RUNNING:
        return Decision("Its text was changed; the agent at work keeps the old one.", waits=True)
    if task.state not in _NOT_BEGUN or task.pr_number is not None:
        return Decision("Its text was changed; the work goes on from the approved one.")
    asked = Move(task, TaskState.NEEDS_INPUT, VOID, VOID_QUESTION)
    return Decision(VOID, (Reword(task, seen, named), asked))


def _same_text(seen: IssueSeen, known: Known, task: Task, watch: Watch) -> Decision:
    """The same words as before; what GitHub lists as blocking it may be others."""
    if waits_no_more(task):
        return Decision("It has its task already.")
    if known.blocked_by is None:
        return UNTOLD
    named = waits_for(seen, known, watch)
    if named.names == task.depends_on:
        return Decision("It has its task already.")
    return Decision("What it waits for has changed.", (Reword(task, seen, named),))


def _on_pull_as_issue(seen: IssueSeen, known: Known, watch: Watch) -> Decision:
    going = known.pull is not None and not known.pull.final
    if going and known.pull_task is not None and is_ignored(watch, seen.labels):
        return _taken_over((known.pull_task,), f"The pull request carries {watch.labels.ignore}.")
    return Decision("It is a pull request: labels there start nothing.")


def _taken_over(tasks: tuple[Task, ...], reason: str) -> Decision:
    """People have the work; also that of a task that was stopped before."""
    stopped = _stop(tasks, reason, reason)
    return replace(stopped, effects=(*stopped.effects, *map(TakeOver, tasks)))


def _stop(tasks: tuple[Task, ...], reason: str, otherwise: str) -> Decision:
    going = [task for task in tasks if not task.over]
    effects: tuple[Effect, ...] = tuple(Move(task, TaskState.STOPPED, reason) for task in going)
    return Decision(reason if effects else otherwise, effects)

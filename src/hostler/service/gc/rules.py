"""Rules: what is old enough and safe to remove, and why the rest stays. Pure.

Stamps are text of fixed width: text order is time order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from enum import StrEnum

from hostler.forge.feeds.cursors import Window
from hostler.forge.port import ItemKind
from hostler.intake.effects import Begin, Known
from hostler.intake.issues import on_issue
from hostler.intake.people import Watch
from hostler.intake.signals import IssueSeen
from hostler.model import EPOCH, PollCursor, parse_stamp, stamp
from hostler.store.runs import RunState
from hostler.store.tasks import OVER, TaskState

# Before every stamp: nothing is older than this.
NEVER = ""
# Only pull requests that are watched show these; no feed has them.
_ON_WATCHED_PULLS = frozenset({ItemKind.PULL.value, ItemKind.REVIEW.value})


class Why(StrEnum):
    """Why something stays."""

    YOUNG = "it is not old enough"
    LIVE = "its run has not ended"
    UNFINISHED = "its task is not finished"
    AGAIN = "its task could be started again"
    NEWEST = "it is the newest run of its task"
    DIRTY = "work would be lost with it"
    STRANGE = "it cannot be told what it is"
    CHECKOUT = "its checkout is still there"
    FAMILY = "a task of its family stays"
    NAMED = "a task that is not done depends on it"
    PULL = "its pull request is open"
    UNSENT = "a write to GitHub is not sent yet"
    WORDS = "words wait for an answer"
    OPEN_ISSUE = "its issue is open"
    BEGUN_ANEW = "its issue could be begun anew if it was reopened"
    WATCHED = "the settings name its repository"
    SERVICE = "a service works on this home, perhaps with other settings"
    BUSY = "somebody works in it"
    BORROWED = "checkouts borrow from it"
    KEPT_WORK = "it keeps work that is nowhere else"
    PENDING = "an event waits to be heard"
    COMMANDED = "an operator's command has no answer yet"
    OPERATIONS = "it takes operator commands"
    SHOWN_AGAIN = "GitHub may show it again"
    OPEN_THREAD = "it is open on GitHub, as far as we know"
    OURS = "it says which comments are ours"
    REFUSED = "it could not be removed"


def before(now: datetime, days: int) -> str:
    """What is older than so many days has a lower stamp."""
    return stamp(max(now - timedelta(days=days), EPOCH))


def is_old(stamps: Iterable[str | None], limit: str) -> bool:
    """Whether all that is known of a thing's moments lies before the limit, and something is."""
    known = [one for one in stamps if one]
    return bool(known) and max(known) < limit


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The folder of one run. `locked`: a shim holds it."""

    state: RunState
    stamps: tuple[str | None, ...]
    newest: bool
    locked: bool
    task: TaskState | None


def judge_run(run: RunFacts, limit: str) -> Why | None:
    """Why the folder of a run stays; None: it may go."""
    if run.locked or run.state is not RunState.ENDED:
        return Why.LIVE
    if run.task is not None and run.task not in OVER:
        return Why.UNFINISHED
    if not is_old(run.stamps, limit):
        return Why.YOUNG
    return Why.NEWEST if run.newest else None


@dataclass(frozen=True, slots=True)
class CheckoutFacts:
    """One checkout. `lost`: what would be gone with it; None: nobody has looked yet."""

    task: TaskState | None
    stamps: tuple[str | None, ...]
    open_run: bool
    lost: tuple[str, ...] | None = None


def judge_checkout(checkout: CheckoutFacts, limit: str) -> Why | None:
    """Why a checkout stays. One that nobody has looked into may be dirty."""
    why = judge_owner(checkout, limit)
    if why is not None:
        return why
    return None if checkout.lost == () else Why.DIRTY


def judge_owner(checkout: CheckoutFacts, limit: str) -> Why | None:
    """Whether a checkout stays for its task's sake: then nobody need look into it."""
    if checkout.task is None:
        return Why.STRANGE
    if checkout.open_run:
        return Why.LIVE
    if checkout.task not in OVER:
        return Why.UNFINISHED
    return None if is_old(checkout.stamps, limit) else Why.YOUNG


class Issue(StrEnum):
    """What is known of a task's issue."""

    NONE = "none"
    OPEN = "open"
    MAY_BEGIN = "may_begin"
    AT_REST = "at_rest"


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """One task. `named`: a task that is not done, of another family, depends on it."""

    state: TaskState
    stamps: tuple[str | None, ...]
    open_run: bool = False
    checkout: bool = False
    open_pull: bool = False
    unsent: bool = False
    words: bool = False
    named: bool = False
    issue: Issue = Issue.NONE


def judge_task(task: TaskFacts, limit: str) -> Why | None:
    """Why a task stays, by itself alone."""
    if task.open_run:
        return Why.LIVE
    if task.state not in OVER:
        return Why.UNFINISHED
    if not is_old(task.stamps, limit):
        return Why.YOUNG
    held = {
        Why.CHECKOUT: task.checkout,
        Why.PULL: task.open_pull,
        Why.UNSENT: task.unsent,
        # Nothing leads out of done: nobody will answer them any more.
        Why.WORDS: task.words and task.state is not TaskState.DONE,
        Why.NAMED: task.named,
        Why.OPEN_ISSUE: task.issue is Issue.OPEN,
        Why.BEGUN_ANEW: task.issue is Issue.MAY_BEGIN,
    }
    return next((why for why, holds in held.items() if holds), None)


def judge_family(family: Iterable[TaskFacts], limit: str) -> list[Why | None]:
    """Why each of a family stays: all go, or none."""
    alone = [judge_task(task, limit) for task in family]
    return [why or Why.FAMILY for why in alone] if any(alone) else alone


def issue_of(seen: IssueSeen | None, watch: Watch | None) -> Issue:
    """Where an issue is, as last seen, and as intake would judge it if it was reopened now.

    Without a watch, nobody listens to its repository.
    """
    if seen is None:
        return Issue.MAY_BEGIN if watch is not None else Issue.AT_REST
    if seen.is_open:
        return Issue.OPEN
    return Issue.MAY_BEGIN if watch is not None and _would_begin(seen, watch) else Issue.AT_REST


def _would_begin(seen: IssueSeen, watch: Watch) -> bool:
    decision = on_issue(replace(seen, is_open=True), Known(), watch)
    return decision.waits or any(isinstance(effect, Begin) for effect in decision.effects)


@dataclass(frozen=True, slots=True)
class MirrorFacts:
    """One mirror. `keeps`: work that is nowhere else, or what cannot be told."""

    watched: bool
    service: bool
    changed: str
    unfinished: bool
    borrowed: bool
    keeps: bool
    busy: bool = False


def judge_mirror(mirror: MirrorFacts, limit: str) -> Why | None:
    """Why a mirror stays."""
    held = {
        Why.WATCHED: mirror.watched,
        Why.YOUNG: not is_old((mirror.changed,), limit),
        Why.UNFINISHED: mirror.unfinished,
        Why.BORROWED: mirror.borrowed,
        Why.KEPT_WORK: mirror.keeps,
        Why.SERVICE: mirror.service,
        Why.BUSY: mirror.busy,
    }
    return next((why for why, holds in held.items() if holds), None)


@dataclass(frozen=True, slots=True)
class ThreadFacts:
    """Everything in the inbox about one issue or pull request.

    `shown`: by kind, the newest moment by GitHub's time; `open`: as last seen, None if it was
    never said; `tasks`: the states of the tasks that it belongs to; `operations`: the settings
    name it as the issue for commands.
    """

    stamps: tuple[str | None, ...]
    shown: Mapping[str, str]
    pending: bool = False
    open: bool | None = None
    watched_pull: bool = False
    words: bool = False
    tasks: tuple[TaskState, ...] = ()
    commanded: bool = False
    operations: bool = False


def judge_thread(thread: ThreadFacts, limit: str, floors: Mapping[str, str]) -> Why | None:
    """Why a thread stays. `floors`: by kind, before which moment nothing is shown again."""
    undone = [state for state in thread.tasks if state is not TaskState.DONE]
    if not is_old(thread.stamps, limit):
        return Why.YOUNG
    held = {
        Why.PENDING: thread.pending,
        Why.COMMANDED: thread.commanded,
        Why.OPERATIONS: thread.operations,
        Why.UNFINISHED: any(state not in OVER for state in undone),
        Why.AGAIN: bool(undone),
        Why.WORDS: thread.words and not thread.tasks,
        Why.PULL: thread.watched_pull,
        Why.OPEN_THREAD: thread.open is True,
        Why.SHOWN_AGAIN: any(not _is_past(*each, floors) for each in thread.shown.items()),
    }
    return next((why for why, holds in held.items() if holds), None)


def _is_past(kind: str, newest: str, floors: Mapping[str, str]) -> bool:
    return kind in _ON_WATCHED_PULLS or newest < floors.get(kind, NEVER)


def floor(cursor: PollCursor | None, newest: str, now: datetime, window: Window) -> str:
    """Before which moment a feed shows nothing again, even if its cursor is set back.

    `newest`: the newest thing that the repository has shown, which is GitHub's own time; a
    cursor that is not believed is set back by a day from then at most.
    """
    if cursor is None or not cursor.bootstrap_complete or not newest:
        return NEVER
    try:
        at = min(parse_stamp(cursor.last_updated_at), parse_stamp(newest), now)
    except ValueError:
        return NEVER
    reach = window.overlap + window.late_visibility + window.safe_backfill
    return stamp(max(at - reach, EPOCH))


@dataclass(frozen=True, slots=True)
class WriteFacts:
    """One write to GitHub.

    `speaks`: it makes a comment; `superseded`: a later write of the same comment is there;
    `bare`: its text is gone already; `needed`: a write that is not sent yet depends on it.
    """

    settled: bool
    stamps: tuple[str | None, ...]
    speaks: bool = False
    superseded: bool = False
    bare: bool = False
    needed: bool = False
    tasks: tuple[TaskState, ...] = field(default=())


def judge_write(write: WriteFacts, limit: str) -> Why | None:
    """Why a write stays as it is; None: it may go, or its text may (`keeps_row`)."""
    held = {
        Why.UNSENT: not write.settled or write.needed,
        Why.UNFINISHED: any(state not in OVER for state in write.tasks),
        Why.YOUNG: not is_old(write.stamps, limit),
        Why.OURS: keeps_row(write) and write.bare,
    }
    return next((why for why, holds in held.items() if holds), None)


def keeps_row(write: WriteFacts) -> bool:
    """Whether the row itself must stay: it tells which comment is ours, and no later one does."""
    return write.speaks and not write.superseded


def judge_bus(task: TaskState | None) -> Why | None:
    """Why old files of a bus stay; None stands for a project, or a task that is gone."""
    return Why.UNFINISHED if task is not None and task not in OVER else None


def is_past_log(day: date, today: date, days: int, retention: int) -> bool:
    """Whether the log of a day may go: older than asked for, and than the settings keep."""
    return (today - day).days > max(days, retention)

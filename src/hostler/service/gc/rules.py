"""Decide what is old enough and safe to remove, and why the rest is kept. Pure functions.

Timestamps are text of fixed width: text order is time order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from enum import StrEnum

from hostler.forge.github.polling.cursors import PollWindow
from hostler.forge.port import ItemKind
from hostler.intake.model import IssueEvent, StartTask, ThreadState
from hostler.intake.repo_policy import RepoPolicy
from hostler.intake.rules import decide_on_issue
from hostler.model import EPOCH, PollCursor, format_timestamp, parse_timestamp
from hostler.store.runs import RunState
from hostler.store.tasks import OVER, TaskState

# Lower than every timestamp.
NEVER = ""
# Only followed pull requests have these; no feed lists them.
_WATCHED_PULL_KINDS = frozenset({ItemKind.PULL.value, ItemKind.REVIEW.value})


class KeepReason(StrEnum):
    """Why an item is kept."""

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


def age_limit(now: datetime, days: int) -> str:
    """Return the timestamp below which items are older than this many days."""
    return format_timestamp(max(now - timedelta(days=days), EPOCH))


def is_old(stamps: Iterable[str | None], limit: str) -> bool:
    """Return True if all known timestamps are before the limit, and one is known."""
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


def judge_run(run: RunFacts, limit: str) -> KeepReason | None:
    """Return why the folder of a run is kept; None: it may be removed."""
    if run.locked or run.state is not RunState.ENDED:
        return KeepReason.LIVE
    if run.task is not None and run.task not in OVER:
        return KeepReason.UNFINISHED
    if not is_old(run.stamps, limit):
        return KeepReason.YOUNG
    return KeepReason.NEWEST if run.newest else None


@dataclass(frozen=True, slots=True)
class CheckoutFacts:
    """One checkout. `lost` is the work that would be lost; None: not checked yet."""

    task: TaskState | None
    stamps: tuple[str | None, ...]
    open_run: bool
    lost: tuple[str, ...] | None = None


def judge_checkout(checkout: CheckoutFacts, limit: str) -> KeepReason | None:
    """Return why a checkout is kept. An unchecked one may be dirty."""
    why = judge_owner(checkout, limit)
    if why is not None:
        return why
    return None if checkout.lost == () else KeepReason.DIRTY


def judge_owner(checkout: CheckoutFacts, limit: str) -> KeepReason | None:
    """Return why a checkout is kept because of its task, without reading the checkout."""
    if checkout.task is None:
        return KeepReason.STRANGE
    if checkout.open_run:
        return KeepReason.LIVE
    if checkout.task not in OVER:
        return KeepReason.UNFINISHED
    return None if is_old(checkout.stamps, limit) else KeepReason.YOUNG


class IssueStatus(StrEnum):
    """What is known about the issue of a task."""

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
    issue: IssueStatus = IssueStatus.NONE


def judge_task(task: TaskFacts, limit: str) -> KeepReason | None:
    """Return why a task is kept, regardless of its family."""
    if task.open_run:
        return KeepReason.LIVE
    if task.state not in OVER:
        return KeepReason.UNFINISHED
    if not is_old(task.stamps, limit):
        return KeepReason.YOUNG
    held = {
        KeepReason.CHECKOUT: task.checkout,
        KeepReason.PULL: task.open_pull,
        KeepReason.UNSENT: task.unsent,
        # A done task never continues, so its comments need no answer.
        KeepReason.WORDS: task.words and task.state is not TaskState.DONE,
        KeepReason.NAMED: task.named,
        KeepReason.OPEN_ISSUE: task.issue is IssueStatus.OPEN,
        KeepReason.BEGUN_ANEW: task.issue is IssueStatus.MAY_BEGIN,
    }
    return next((why for why, holds in held.items() if holds), None)


def judge_family(family: Iterable[TaskFacts], limit: str) -> list[KeepReason | None]:
    """Return why each task of a family is kept: all are removed, or none."""
    alone = [judge_task(task, limit) for task in family]
    return [why or KeepReason.FAMILY for why in alone] if any(alone) else alone


def classify_issue(seen: IssueEvent | None, watch: RepoPolicy | None) -> IssueStatus:
    """Classify an issue as last seen, and as intake would decide if it was reopened now.

    Without a policy, its repository is not watched.
    """
    if seen is None:
        return IssueStatus.MAY_BEGIN if watch is not None else IssueStatus.AT_REST
    if seen.is_open:
        return IssueStatus.OPEN
    return (
        IssueStatus.MAY_BEGIN
        if watch is not None and _would_begin(seen, watch)
        else IssueStatus.AT_REST
    )


def _would_begin(seen: IssueEvent, watch: RepoPolicy) -> bool:
    decision = decide_on_issue(replace(seen, is_open=True), ThreadState(), watch)
    return decision.waits or any(isinstance(effect, StartTask) for effect in decision.effects)


@dataclass(frozen=True, slots=True)
class MirrorFacts:
    """One mirror. `keeps`: it may have work that is nowhere else."""

    watched: bool
    service: bool
    changed: str
    unfinished: bool
    borrowed: bool
    keeps: bool
    busy: bool = False


def judge_mirror(mirror: MirrorFacts, limit: str) -> KeepReason | None:
    """Return why a mirror is kept."""
    held = {
        KeepReason.WATCHED: mirror.watched,
        KeepReason.YOUNG: not is_old((mirror.changed,), limit),
        KeepReason.UNFINISHED: mirror.unfinished,
        KeepReason.BORROWED: mirror.borrowed,
        KeepReason.KEPT_WORK: mirror.keeps,
        KeepReason.SERVICE: mirror.service,
        KeepReason.BUSY: mirror.busy,
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


def judge_thread(thread: ThreadFacts, limit: str, floors: Mapping[str, str]) -> KeepReason | None:
    """Return why a thread is kept. `floors`: by kind, before when GitHub replays nothing."""
    undone = [state for state in thread.tasks if state is not TaskState.DONE]
    if not is_old(thread.stamps, limit):
        return KeepReason.YOUNG
    held = {
        KeepReason.PENDING: thread.pending,
        KeepReason.COMMANDED: thread.commanded,
        KeepReason.OPERATIONS: thread.operations,
        KeepReason.UNFINISHED: any(state not in OVER for state in undone),
        KeepReason.AGAIN: bool(undone),
        KeepReason.WORDS: thread.words and not thread.tasks,
        KeepReason.PULL: thread.watched_pull,
        KeepReason.OPEN_THREAD: thread.open is True,
        KeepReason.SHOWN_AGAIN: any(
            not _is_not_replayed(*each, floors) for each in thread.shown.items()
        ),
    }
    return next((why for why, holds in held.items() if holds), None)


def _is_not_replayed(kind: str, newest: str, floors: Mapping[str, str]) -> bool:
    return kind in _WATCHED_PULL_KINDS or newest < floors.get(kind, NEVER)


def earliest_replay(
    cursor: PollCursor | None, newest: str, now: datetime, window: PollWindow
) -> str:
    """Return before when a feed replays nothing, even if its cursor is set back.

    `newest` is the newest timestamp from GitHub in the repository; a damaged cursor is set back
    by at most a day from then.
    """
    if cursor is None or not cursor.bootstrap_complete or not newest:
        return NEVER
    try:
        at = min(parse_timestamp(cursor.last_updated_at), parse_timestamp(newest), now)
    except ValueError:
        return NEVER
    reach = window.overlap + window.late_visibility + window.safe_backfill
    return format_timestamp(max(at - reach, EPOCH))


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


def judge_write(write: WriteFacts, limit: str) -> KeepReason | None:
    """Return why a write is kept; None: it, or its text (`must_keep_row`), may be removed."""
    held = {
        KeepReason.UNSENT: not write.settled or write.needed,
        KeepReason.UNFINISHED: any(state not in OVER for state in write.tasks),
        KeepReason.YOUNG: not is_old(write.stamps, limit),
        KeepReason.OURS: must_keep_row(write) and write.bare,
    }
    return next((why for why, holds in held.items() if holds), None)


def must_keep_row(write: WriteFacts) -> bool:
    """Return True if only this row identifies a comment as Hostler's."""
    return write.speaks and not write.superseded


def judge_bus(task: TaskState | None) -> KeepReason | None:
    """Return why old files of a bus are kept. `task` is None for projects and deleted tasks."""
    return KeepReason.UNFINISHED if task is not None and task not in OVER else None


def is_expired_log(day: date, today: date, days: int, retention: int) -> bool:
    """Return True if a log is older than requested and than the settings keep."""
    return (today - day).days > max(days, retention)

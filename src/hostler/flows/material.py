"""What a turn is about: the approved text of the issue, and the words that wait for an answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from hostler.agents.outcomes import Outcome
from hostler.agents.result import Result
from hostler.flows.ci import Failure, still_fails
from hostler.forge.port import Forge, Item, ItemKind
from hostler.intake import IssueSeen, Remark, RunSeen, Watch, read
from hostler.intake.preview import row_of
from hostler.intake.takeover import thread_of
from hostler.store.inbox import rows_by_key, waiting_keys
from hostler.store.pull_requests import comment_floors
from hostler.store.runs import Run, RunState, runs_of
from hostler.store.tasks import Task
from hostler.store.transaction import Transaction, normal_stamp

# So many of the last attempts are told of.
REMEMBERED = 3


@dataclass(frozen=True, slots=True)
class Material:
    """Everything foreign that a prompt may hold.

    `remarks` wait for an answer, `failures` of CI for mending; `conversation` is what else was
    said on the issue by people who are allowed to; `history` says how the last attempts ended, if
    they came to nothing, `summary` what the last good one said of its work. What was said before
    `heard_from` is not for agents.
    """

    issue: IssueSeen | None = None
    remarks: tuple[Remark, ...] = ()
    failures: tuple[Failure, ...] = ()
    conversation: tuple[Remark, ...] = ()
    history: tuple[str, ...] = ()
    summary: str = ""
    heard_from: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        rows = [remark.row for remark in self.remarks] + [one.seen.row for one in self.failures]
        return tuple(row.event_key for row in rows)


def gather(tx: Transaction, task: Task, keys: Iterable[str] | None = None) -> Material:
    """The approved version of the issue, and the words of this turn (`task.turn_keys`)."""
    runs = runs_of(tx, task.id)
    history, summary = endings(runs), last_summary(runs)
    if task.repo_full_name is None:
        return Material(history=history, summary=summary)
    wanted = task.turn_keys if keys is None else tuple(keys)
    signals = [read(row) for row in rows_by_key(tx, task.repo, [task.issue_key, *wanted])]
    issue = next((seen for seen in signals if isinstance(seen, IssueSeen)), None)
    remarks = tuple(seen for seen in signals if isinstance(seen, Remark))
    floors = comment_floors(tx, task.repo, thread_of(task))
    failures = tuple(Failure(seen) for seen in signals if isinstance(seen, RunSeen))
    known = Material(issue, remarks, failures, history=history, summary=summary)
    return replace(known, heard_from=floors.heard_from)


def endings(runs: Sequence[Run]) -> tuple[str, ...]:
    """How the newest attempts ended, the last one last, back to one that went well."""
    ended = [run for run in runs if run.state is RunState.ENDED and run.counted]
    bad = list(takewhile(lambda run: run.outcome != Outcome.SUCCESS, reversed(ended)))
    return tuple(
        f"Attempt {run.attempt} ended as {run.outcome}. {run.why or ''}".strip()
        for run in reversed(bad[:REMEMBERED])
    )


def last_summary(runs: Sequence[Run]) -> str:
    """What the newest run that said anything of its work said."""
    told = (Result.model_validate_json(run.result).summary for run in reversed(runs) if run.result)
    return next((text.strip() for text in told if text.strip()), "")


def waiting(tx: Transaction, task: Task) -> list[str]:
    """Keys of everything said to a task that is not answered yet."""
    if task.repo_full_name is None:
        return []
    return waiting_keys(tx, task.repo, task.number, task.pr_number)


def with_conversation(material: Material, watch: Watch, thread: Iterable[Item]) -> Material:
    """The same, with what allowed people said on the issue before.

    Strangers are left out, and words of a takeover.
    """
    known = {remark.row.object_id for remark in material.remarks}
    earlier = [read(row_of(watch, item)) for item in thread if watch.allows(item.author)]
    said = (
        one
        for one in earlier
        if isinstance(one, Remark) and one.is_work(watch.obeys(one.row.author))
    )
    heard = (one for one in said if normal_stamp(one.row.updated_at) >= material.heard_from)
    return replace(
        material, conversation=tuple(one for one in heard if one.row.object_id not in known)
    )


def still_there(forge: Forge, material: Material) -> tuple[Material, tuple[str, ...]]:
    """The same without what was taken back meanwhile, and the keys of that. Asks the network."""
    passed = [one for one in material.failures if not still_fails(forge, one)]
    gone = [one for one in material.remarks if not _exists(forge, one)]
    for number in sorted({one.row.scope_number for one in gone}):
        forge.issue(number)  # Where all is hidden from us, nothing was taken back: this raises.
    left = replace(
        material,
        remarks=tuple(one for one in material.remarks if one not in gone),
        failures=tuple(one for one in material.failures if one not in passed),
    )
    return left, tuple(key for key in material.keys if key not in left.keys)


def _exists(forge: Forge, said: Remark) -> bool:
    kind = ItemKind(said.row.kind)
    if kind is ItemKind.REVIEW:
        return True  # A submitted review cannot be taken back.
    return forge.remark(kind, said.row.object_id) is not None

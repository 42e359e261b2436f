"""What would be picked up, and why the rest would not: for a look before the first run."""

from __future__ import annotations

import json
from dataclasses import dataclass

from hostler.errors import ForgeError
from hostler.forge.feeds.keys import event_key
from hostler.forge.port import Feed, Forge, Item
from hostler.intake.deciding import asks_for_labeller, decide
from hostler.intake.effects import Begin, Decision, Known
from hostler.intake.people import Watch
from hostler.intake.signals import IssueSeen, Signal, read
from hostler.store.inbox import InboxRow
from hostler.store.tasks import Flow, tasks_of_issue
from hostler.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Preview:
    """One open issue: the flow that would start, or none, and why."""

    number: int
    title: str
    author: str
    flow: Flow | None
    reason: str


def open_issues(forge: Forge, watch: Watch) -> list[tuple[IssueSeen, dict[str, str] | None]]:
    """The open issues as they are now, with who labelled them where that matters."""
    reading = forge.changes(Feed.ISSUES, None, only_open=True)
    signals = [read(row_of(watch, item)) for item in reading.items]
    issues = [seen for seen in signals if isinstance(seen, IssueSeen) and not seen.is_pull]
    return [(seen, _labellers(forge, watch, seen)) for seen in issues]


def preview(
    tx: Transaction, watch: Watch, issues: list[tuple[IssueSeen, dict[str, str] | None]]
) -> list[Preview]:
    """The decisions that a pass would make about these issues. Nothing is written."""
    return [
        _preview(seen, decide(seen, _known(tx, watch, seen, who), watch)) for seen, who in issues
    ]


def row_of(watch: Watch, item: Item) -> InboxRow:
    """An event that is only looked at."""
    return InboxRow(
        repo_full_name=str(watch.repo),
        event_key=event_key(item),
        kind=item.kind.value,
        scope_number=item.number,
        object_id=item.id,
        author=item.author,
        updated_at=item.updated_at,
        payload=json.dumps(item.payload),
    )


def _known(tx: Transaction, watch: Watch, seen: IssueSeen, who: dict[str, str] | None) -> Known:
    tasks = tuple(tasks_of_issue(tx, watch.repo, seen.row.scope_number))
    return Known(tasks=tasks, labellers=who)


def _preview(seen: IssueSeen, decision: Decision) -> Preview:
    begun = next((one.flow for one in decision.effects if isinstance(one, Begin)), None)
    return Preview(seen.row.scope_number, seen.title, seen.row.author, begun, decision.reason)


def _labellers(forge: Forge, watch: Watch, seen: Signal) -> dict[str, str] | None:
    if not asks_for_labeller(seen, watch):
        return None
    try:
        return forge.labellers(seen.row.scope_number)
    except ForgeError:
        return None

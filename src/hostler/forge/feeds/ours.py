"""The rule of our own words: what counts as written by us, and is therefore no news."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from hostler.forge.markers import tokens_in
from hostler.forge.port import Item, ItemKind
from hostler.store.outbox import OutboxRow

# Which deeds make which kind of event.
MADE_BY: dict[ItemKind, tuple[str, ...]] = {
    ItemKind.ISSUE_COMMENT: ("comment", "edit_comment"),
    ItemKind.REVIEW_COMMENT: ("reply",),
    ItemKind.ISSUE: ("open_issue", "open_pull"),
    ItemKind.PULL: ("open_pull", "update_pull"),
    ItemKind.REVIEW: (),
    ItemKind.WORKFLOW_RUN: (),
}
# News even when we made them: others close, label and merge them.
_ALWAYS_NEWS = (ItemKind.ISSUE, ItemKind.PULL)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an event is news, and which of our writes it is, if any."""

    news: bool
    write: OutboxRow | None = None


def judge(
    item: Item, me: str, writes: Mapping[str, OutboxRow], recorded: Set[tuple[ItemKind, int]]
) -> Verdict:
    """What an event means. `writes` holds the writes of the tokens in it; `recorded` our ids.

    A marker alone proves nothing: anybody can paste one, and so can a person whose account
    we use. It counts with our own account, a deed of the right kind on this thread, and a
    result that is this very event, or not recorded yet.
    """
    if item.author.lower() != me.lower():
        return Verdict(news=True)
    found = (writes.get(token) for token in tokens_in(item.body))
    write = next((row for row in found if row is not None and _is(item, row)), None)
    ours = write is not None or (item.kind, item.id) in recorded or _hollow(item)
    return Verdict(news=not ours or item.kind in _ALWAYS_NEWS, write=write)


def _is(item: Item, row: OutboxRow) -> bool:
    if row.kind not in MADE_BY[item.kind]:
        return False
    if row.kind in ("open_issue", "open_pull"):
        # These have a number of their own, and a pull request has two ids.
        return row.result_number in (None, item.number)
    return row.scope_number == item.number and row.result_id in (None, item.id)


def _hollow(item: Item) -> bool:
    """A review without words, which GitHub makes around each reply."""
    commented = item.payload.get("state") == "COMMENTED"
    return item.kind is ItemKind.REVIEW and commented and not item.body.strip()

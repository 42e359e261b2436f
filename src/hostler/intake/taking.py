"""The shell: events of a repository become effects, each consumed together with its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from hostler.errors import ForgeError, RateLimited, Refused, ServerFailed, Unauthorized
from hostler.forge.feeds import consume
from hostler.forge.port import Blocking, Forge, ItemKind
from hostler.intake.applying import apply
from hostler.intake.deciding import asks_for_blockers, asks_for_labeller, decide
from hostler.intake.effects import Decision, Known
from hostler.intake.looking import Blockers, Labellers, look
from hostler.intake.people import Watch
from hostler.intake.running import Unfinished
from hostler.intake.signals import KINDS, Signal, read
from hostler.store.inbox import InboxRow, hold, rows_by_key, rows_to_look_at
from hostler.store.tasks import Task, tasks_of_issue
from hostler.store.transaction import Transaction

# Issues that GitHub is asked about in one look; the events of further ones wait for the next.
MOST_ASKED = 100
# Of things that happened in one second: a merge closes its issue, not the other way round.
_RANKS = {kind.value: rank for rank, kind in enumerate((ItemKind.PULL, ItemKind.ISSUE))}


@dataclass(frozen=True, slots=True)
class Heard:
    """One event, and what was decided about it."""

    number: int
    kind: str
    key: str
    author: str
    decision: Decision


@dataclass(frozen=True, slots=True)
class Taken:
    """What a pass did."""

    heard: tuple[Heard, ...] = ()
    changed: tuple[str, ...] = ()

    def __add__(self, other: Taken) -> Taken:
        changed = dict.fromkeys((*self.changed, *other.changed))
        return Taken((*self.heard, *other.heard), tuple(changed))


def waiting_events(tx: Transaction, watch: Watch) -> list[str]:
    """The keys of all that is worth a look, as it happened."""
    return [row.event_key for row in in_order(_pending(tx, watch))]


def take(
    tx: Transaction,
    watch: Watch,
    labellers: Labellers,
    blockers: Blockers | None = None,
    keys: Collection[str] | None = None,
    unfinished: Unfinished | None = None,
) -> Taken:
    """Decide about every event that waits, and make it so. The order of arrival does not matter.

    `keys`: only about these, as far as they still wait.
    """
    heard: list[Heard] = []
    changed: dict[str, None] = {}
    rows = _pending(tx, watch) if keys is None else rows_by_key(tx, watch.repo, keys)
    for row in in_order(row for row in rows if row.consumed_at is None):
        signal = read(row)
        known = look(tx, watch, signal, labellers, blockers, unfinished)
        decision = decide(signal, known, watch)
        heard.append(_heard(row, decision))
        if decision.held:
            hold(tx, row)
        if decision.waits:
            continue
        for effect in decision.effects:
            task = apply(tx, watch, effect)
            if task is not None:
                changed[task] = None
        consume(tx, watch.repo, [row.event_key])
    return Taken(tuple(heard), tuple(changed))


def in_order(rows: Iterable[InboxRow]) -> list[InboxRow]:
    """Events as they happened, however they arrived."""
    return sorted(
        rows, key=lambda row: (row.updated_at, _RANKS.get(row.kind, 2), row.object_id, row.sequence)
    )


def ask_labellers(tx: Transaction, watch: Watch) -> list[int]:
    """Issues that wait and need to be asked who labelled them."""
    signals: list[Signal] = [read(row) for row in _pending(tx, watch)]
    numbers = {s.row.scope_number for s in signals if asks_for_labeller(s, watch)}
    return sorted(number for number in numbers if not tasks_of_issue(tx, watch.repo, number))


def labellers_of(forge: Forge, numbers: Iterable[int]) -> dict[int, dict[str, str]]:
    """Who labelled these issues; the network is asked here, outside of any transaction.

    An issue about which GitHub did not answer is left out: its event waits.
    """
    found: dict[int, dict[str, str]] = {}
    for number in numbers:
        try:
            found[number] = forge.labellers(number)
        except ForgeError:
            continue
    return found


def ask_blocked_by(tx: Transaction, watch: Watch) -> list[int]:
    """Issues that wait and need to be asked what blocks them, a bounded number at a time."""
    signals = [read(row) for row in in_order(_pending(tx, watch))]
    numbers = dict.fromkeys(
        signal.row.scope_number
        for signal in signals
        if asks_for_blockers(signal, _present(tx, watch, signal), watch)
    )
    return list(numbers)[:MOST_ASKED]


def blocked_by_of(forge: Forge, numbers: Iterable[int]) -> dict[int, tuple[Blocking, ...]]:
    """What blocks these issues; the network is asked here, outside of any transaction.

    An issue about which GitHub did not answer is left out, and one that it will not talk about
    is blocked by nothing.
    """
    found: dict[int, tuple[Blocking, ...]] = {}
    for number in numbers:
        try:
            found[number] = tuple(forge.blocked_by(number))
        except ServerFailed:
            continue
        except Refused as error:
            if isinstance(error, RateLimited | Unauthorized):
                break
            found[number] = ()
        except ForgeError:
            break
    return found


def _pending(tx: Transaction, watch: Watch) -> list[InboxRow]:
    """What is worth a look: words of a blocked task were looked at when they came."""
    return rows_to_look_at(tx, watch.repo, KINDS)


def _present(tx: Transaction, watch: Watch, signal: Signal) -> Task | None:
    return Known(tuple(tasks_of_issue(tx, watch.repo, signal.row.scope_number))).present


def _heard(row: InboxRow, decision: Decision) -> Heard:
    return Heard(row.scope_number, row.kind, row.event_key, row.author, decision)

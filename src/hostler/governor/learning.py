"""What agents meet, told to the policy of their pool, in an open transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hostler.governor.learned import control_of
from hostler.governor.overlay import Announced, Overlay, Report, Slot
from hostler.governor.policy import Policy
from hostler.governor.pools import pool_key
from hostler.governor.remembering import as_text, from_text
from hostler.store import Transaction
from hostler.store.overlays import find_overlay, put_overlay


@dataclass(frozen=True, slots=True)
class News:
    """What was heard of one agent since the last time.

    `answers`: healthy responses of its provider. `over`: its lease has ended, or counts no more;
    `reached`: its provider ever answered it.
    """

    slot: Slot
    limits: tuple[Report, ...] = ()
    words: tuple[Announced, ...] = ()
    answers: int = 0
    over: bool = False
    reached: bool = False


def hear(tx: Transaction, policy: Policy, pool: str, news: News) -> None:
    """Let a pool learn from one agent. Nothing is read or written where nothing is learned."""
    pool = pool_key(pool)
    knobs = policy.knobs(pool)
    if not knobs.adaptive:
        return
    control, now, stored = control_of(knobs), tx.now(), find_overlay(tx, pool)
    overlay = from_text(stored)
    for word in news.words:
        overlay = control.announced(knobs, overlay, now, word)
    # A refusal before an answer: what came first in one look is not known.
    for report in news.limits:
        overlay = control.limited(knobs, overlay, now, report)
    if news.answers > 0:
        overlay = control.answered(knobs, overlay, now, news.slot, news.answers)
    if news.over:
        overlay = control.released(knobs, overlay, now, news.slot, reached=news.reached)
    keep(tx, pool, stored, overlay)


def reset(tx: Transaction, pool: str) -> bool:
    """Forget what was learned of a pool; whether anything was known."""
    pool = pool_key(pool)
    known = bool(find_overlay(tx, pool))
    if known:
        put_overlay(tx, pool, "")
    return known


def reseed(tx: Transaction, pool: str, cap: int) -> None:
    """Start again from an operator's cap. Events, the breaker and all moments stay."""
    pool = pool_key(pool)
    stored = find_overlay(tx, pool)
    keep(tx, pool, stored, replace(from_text(stored), dynamic_cap=cap))


def keep(tx: Transaction, pool: str, stored: str, overlay: Overlay) -> None:
    """Store what is known now, if that is something else."""
    text = as_text(overlay)
    if text != stored:
        put_overlay(tx, pool, text)

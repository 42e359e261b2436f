"""What agents meet, told to the policy of their pool, in an open transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from hostler.governor.learned import control_of, load_of
from hostler.governor.overlay import Announced, Knobs, Overlay, Report, Slot
from hostler.governor.policy import Policy
from hostler.governor.pools import pool_key
from hostler.governor.remembering import as_text, from_text
from hostler.store import Transaction
from hostler.store.governor import (
    Standing,
    all_overlays,
    find_overlay,
    put_overlay,
    standing,
    whose,
)


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
    if knobs.adaptive:
        counts = standing(tx, pool, news.slot.project, None)
        # What time has changed comes first: a measure that begins anew must not lose this news. Who
        # is heard of is still there, though its lease may have gone a moment ago.
        overlay = _passed(tx, knobs, pool, counts, frozenset({news.slot}))
        keep(tx, pool, counts.overlay, after(knobs, overlay, tx.now(), news))


def look(tx: Transaction, policy: Policy, pool: str) -> None:
    """Let a pool note what runs, and what time alone has changed."""
    pool = pool_key(pool)
    knobs = policy.knobs(pool)
    if knobs.adaptive:
        counts = standing(tx, pool, "", None)
        keep(tx, pool, counts.overlay, _passed(tx, knobs, pool, counts))


def after(knobs: Knobs, overlay: Overlay, now: datetime, news: News) -> Overlay:
    """What is known after the news of one agent. Pure."""
    control = control_of(knobs)
    for word in news.words:
        overlay = control.announced(knobs, overlay, now, word)
    # A refusal before an answer: what came first in one look is not known.
    for report in news.limits:
        overlay = control.limited(knobs, overlay, now, report)
    if news.answers > 0:
        overlay = control.answered(knobs, overlay, now, news.slot, news.answers)
    if news.over:
        overlay = control.released(knobs, overlay, now, news.slot, reached=news.reached)
    return overlay


def _passed(
    tx: Transaction,
    knobs: Knobs,
    pool: str,
    counts: Standing,
    heard: frozenset[Slot] = frozenset(),
) -> Overlay:
    load = load_of(counts.in_pool, whose(tx, pool), waiting=counts.wishes > 0, heard=heard)
    return control_of(knobs).passed(knobs, from_text(counts.overlay), tx.now(), load)


def reset(tx: Transaction, pool: str) -> bool:
    """Forget what was learned of a pool; whether anything was known."""
    pool = pool_key(pool)
    known = bool(find_overlay(tx, pool))
    if known:
        put_overlay(tx, pool, "")
    return known


def reseed(tx: Transaction, policy: Policy, pool: str) -> None:
    """Start again from the operator's cap of a pool, and so do accounts that have it from there.

    Events and the breaker stay. It grows from now on: time before it was set is not its own.
    """
    pool = pool_key(pool)
    for name in (pool, *policy.heirs(pool, all_overlays(tx))):
        stored = find_overlay(tx, name)
        anew = replace(from_text(stored), dynamic_cap=policy.cap(name), last_probe_at=tx.now())
        keep(tx, name, stored, anew)


def keep(tx: Transaction, pool: str, stored: str, overlay: Overlay) -> None:
    """Store what is known now, if that is something else."""
    text = as_text(overlay)
    if text != stored:
        put_overlay(tx, pool, text)

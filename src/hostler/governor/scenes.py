"""What the gates look at, read from rows: by counting, or by looking at every holder."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from hostler.governor.gates import Ask, Scene
from hostler.governor.holders import Here
from hostler.governor.learned import Learned, learned, load_of
from hostler.governor.overlay import Slot
from hostler.governor.parking import closed
from hostler.governor.policy import Policy
from hostler.governor.pruning import Survey, is_stale, silent_ends
from hostler.governor.shares import ENDLESS, Wish
from hostler.store import Transaction
from hostler.store.governor import (
    Claim,
    Lease,
    Parked,
    Standing,
    claims,
    find_overlay,
    parked_pool,
    standing,
    whose,
)

# Of settings too; what a damaged row says must not make a circle without end.
HEAVIEST = 100


def quick_scene(tx: Transaction, ask: Ask, policy: Policy, here: Here) -> Scene:
    """Counted by the database. The dead may still be among those counted."""
    boot_id = here.holder.boot_id if policy.machine_max_agents > 0 else None
    counts = standing(tx, ask.pool, ask.project, boot_id)
    found = claims(tx, ask.pool) if counts.wishes else []
    now = tx.now()
    fresh = [c for c in found if not is_stale(c.demand, now, policy)]
    # Whose agents run matters only where something is learned.
    rows = whose(tx, ask.pool) if policy.is_adaptive(ask.pool) else []
    return _scene(ask, counts, fresh, here, _known(ask, counts, policy, now, rows), now)


def settled_scene(tx: Transaction, ask: Ask, policy: Policy, here: Here, found: Survey) -> Scene:
    """Counted from those who live, as far as anybody can tell."""
    overlay = find_overlay(tx, ask.pool) if policy.is_adaptive(ask.pool) else ""
    return scene_of(ask, policy, here, found, parked_pool(tx, ask.pool), overlay, tx.now())


def scene_of(
    ask: Ask,
    policy: Policy,
    here: Here,
    found: Survey,
    parked: Parked | None,
    overlay: str,
    now: datetime,
) -> Scene:
    """The same from what was read already."""
    counting = [lease for lease in found.leases if not lease.lent]
    counts = Standing(
        in_pool=_count(counting, pool=ask.pool),
        own_in_pool=_count(counting, pool=ask.pool, project=ask.project),
        own=_count(counting, project=ask.project),
        on_machine=count_on_machine(counting, here),
        parked=parked,
        overlay=overlay,
    )
    claimed = [
        Claim(
            wish,
            _count(counting, pool=ask.pool, project=wish.project),
            _count(counting, project=wish.project),
        )
        for wish in found.demand
        if wish.pool == ask.pool
    ]
    rows = [(one.project, one.task_id, one.lease) for one in found.leases if one.pool == ask.pool]
    known = _known(ask, counts, policy, now, rows, silent_ends(found, ask.pool))
    return _scene(ask, counts, claimed, here, known, now)


def _known(
    ask: Ask,
    counts: Standing,
    policy: Policy,
    now: datetime,
    rows: Sequence[tuple[str, str, str]],
    ended: Iterable[Slot] = (),
) -> Learned | None:
    """What was learned of the pool; None where nothing is. Whoever asks waits for a place."""
    if not policy.is_adaptive(ask.pool):
        return None
    load = load_of(counts.in_pool, rows, waiting=True)
    return learned(policy.knobs(ask.pool), counts.overlay, now, load, ended)


def count_on_machine(leases: Iterable[Lease], here: Here) -> int:
    """How many of them are, or may be, on this machine."""
    return sum(lease.holder.boot_id in {here.holder.boot_id, ""} for lease in leases)


def wishes_of(found: Iterable[Claim]) -> dict[str, Wish]:
    """One wish per project: what all its processes want together, and no more than its width."""
    by_project: dict[str, list[Claim]] = {}
    for claim in found:
        by_project.setdefault(claim.demand.project, []).append(claim)
    return {project: _together(project, same) for project, same in by_project.items()}


def _together(project: str, same: list[Claim]) -> Wish:
    wanted = [claim.demand.wanted for claim in same]
    known = [max(0, number) for number in wanted if number is not None]
    more = min(sum(known), ENDLESS) if len(known) == len(wanted) else None
    widths = [claim.demand.width for claim in same]
    if min(widths) > 0:
        room = max(0, max(widths) - same[0].everywhere)
        more = room if more is None else min(more, room)
    return Wish(project, same[0].active, more, _weight(max(c.demand.weight for c in same)))


def _scene(
    ask: Ask,
    counts: Standing,
    found: Collection[Claim],
    here: Here,
    known: Learned | None,
    now: datetime,
) -> Scene:
    wishes = wishes_of(found)
    wishes[ask.project] = _asking(ask, counts, wishes.get(ask.project))
    said = any((c.demand.project, c.demand.holder) == (ask.project, here.holder) for c in found)
    return Scene(
        now=now,
        pool=ask.pool,
        in_pool=counts.in_pool,
        own_in_pool=counts.own_in_pool,
        own=counts.own,
        on_machine=counts.on_machine,
        free_mb=here.free_mb,
        wishes=tuple(wishes.values()),
        parked=closed(counts.parked, now),
        said=said,
        learned=known,
    )


def _asking(ask: Ask, counts: Standing, known: Wish | None) -> Wish:
    """Whoever asks wants one more at least."""
    if known is None:
        return Wish(ask.project, counts.own_in_pool, 1, _weight(ask.weight))
    more = None if known.more is None else max(1, known.more)
    return Wish(ask.project, counts.own_in_pool, more, known.weight)


def _weight(weight: int) -> int:
    return min(max(1, weight), HEAVIEST)


def _count(leases: Iterable[Lease], *, pool: str = "", project: str = "") -> int:
    return sum(
        (not pool or lease.pool == pool) and (not project or lease.project == project)
        for lease in leases
    )

"""Format the governor's status for the terminal, one block per pool."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from hostler.cli.output import YELLOW, colourise

if TYPE_CHECKING:
    from hostler.governor.adaptive.controller import AdaptivePool
    from hostler.governor.status import GovernorStatus, PoolStatus
    from hostler.store.governor import Lease


def format_pools(found: GovernorStatus) -> list[str]:
    """Format all pools, and the leases of exited processes."""
    lines = [line for pool in found.pools for line in _format_pool(pool, found)]
    if found.ended:
        names = ", ".join(lease.lease for lease in found.ended)
        lines.append(f"leases of exited processes, released at the next start: {names}")
    return lines


def format_caps(found: GovernorStatus) -> Iterator[str]:
    """Format only the configured caps of each pool."""
    for pool in found.pools:
        config = pool.config
        learns = f"on ({config.policy}), hard max {config.hard_max}" if config.adaptive else "off"
        yield f"{pool.pool}: operator cap {config.max_global}, adaptive {learns}"


def format_machine(found: GovernorStatus) -> str:
    """Format the agents and the memory of this machine."""
    ceiling = f" of {found.machine_max_agents}" if found.machine_max_agents else ""
    free = "unknown" if found.free_mb is None else f"{found.free_mb:,} MB"
    reserved = f"{found.memory_floor_mb:,} MB" if found.memory_floor_mb else "none"
    many = (
        f"{found.on_machine}{ceiling} agent{'' if found.on_machine == 1 and not ceiling else 's'}"
    )
    return f"machine: {many}; memory: {free} free, {reserved} reserved"


def _format_pool(pool: PoolStatus, found: GovernorStatus) -> Iterator[str]:
    yield f"{pool.pool}: {pool.active} of {pool.cap} agents, {pool.free} free"
    config = pool.config
    if pool.learned is None:
        yield f"  operator cap {config.max_global}, adaptive off"
    else:
        yield from _format_adaptive(pool.learned)
    if pool.parked:
        why = f" ({pool.parked.why})" if pool.parked.why else ""
        yield "  " + colourise(f"parked {pool.parked.text}{why}", YELLOW)
    for lease in pool.leases:
        yield f"  {_format_lease(lease, found)}"
    for project in pool.shares:
        yield from _format_project(project, pool)


def _format_adaptive(known: AdaptivePool) -> Iterator[str]:
    from hostler.governor.status import settles_until

    config, state = known.config, known.state
    yield (
        f"  operator cap {config.max_global}, adaptive on ({config.policy}), "
        f"dynamic cap {known.cap}, hard max {config.hard_max}"
    )
    settles = settles_until(known)
    yield (
        f"  last decrease {_format_time(state.last_decrease_at)}, "
        f"{state.rate_limit_events} rate-limit events, "
        + (f"settle window until {_format_time(settles)}" if settles else "no settle window")
    )
    apart = config.min_dispatch_interval_seconds
    yield f"  breaker {_format_breaker(known)}; starts about {apart:g} s apart"
    if state.gate_until is not None and state.gate_until > known.now:
        yield "  " + colourise(f"no starts until {_format_time(state.gate_until)}", YELLOW)
    if state.damaged_at is not None:
        found = f"adaptive state from before {_format_time(state.damaged_at)} was damaged"
        yield "  " + colourise(f"{found}; safe defaults are used", YELLOW)


def _format_breaker(known: AdaptivePool) -> str:
    from hostler.governor.adaptive.model import BreakerState
    from hostler.governor.status import breaker_until

    state = known.state
    if state.breaker_state is BreakerState.CLOSED:
        return "closed"
    again = f", opened {state.breaker_reopen_count + 1} times in a row"
    again = again if state.breaker_reopen_count else ""
    if state.breaker_state is BreakerState.OPEN:
        return colourise(f"open until {_format_time(breaker_until(state))}{again}", YELLOW)
    probe = state.probe
    if probe is None:
        return colourise(f"half-open, the next agent is the probe{again}", YELLOW)
    since = _format_time(state.probe_admitted_at)
    return colourise(
        f"half-open, probing with {probe.project} {probe.task} since {since}{again}", YELLOW
    )


def _format_project(project: str, pool: PoolStatus) -> Iterator[str]:
    wants = pool.wanted_by(project)
    more = "some" if wants is None else str(wants)
    holds, share = pool.held_by(project), pool.shares[project]
    yield f"  {project}: {holds} in use, {more} more wanted, share {share}"
    no = pool.denials.get(project)
    if no is not None:
        until = f" Retry at {_format_time(no.opens_at)}." if no.opens_at else ""
        yield f"    next one waits ({no.gate.value}): {no.what}{until}"


def _format_lease(lease: Lease, found: GovernorStatus) -> str:
    from hostler.governor.parking import age_of

    minutes = int(age_of(lease.acquired_at, found.now).total_seconds()) // 60
    who = lease.task_id or lease.program
    unseen = lease.lease in found.unverified
    marks = [
        word
        for word, applies in (("waiting for children", lease.released), ("not verifiable", unseen))
        if applies
    ]
    return "  ".join(
        [lease.project, who, lease.lease, f"pid {lease.holder.pid}", f"{minutes} min", *marks]
    )


def _format_time(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment else "never"

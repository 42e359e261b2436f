"""Store every change of a run's row, guarded by its fence and state.

Also: what a run has used itself, if its program counts the whole session.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hostler.agents.adapters.registry import KINDS
from hostler.agents.events import StreamTally, Usage
from hostler.runs.outcome import (
    NEVER_STARTED,
    Limit,
    Offsets,
    RunEnding,
    death_signals,
    live_signals,
    storable_text,
    usage_columns,
    verdict_columns,
)
from hostler.runs.states import (
    MOVES_REFUSED_AFTER_STOP,
    RUN_MOVES,
    FenceLost,
    RunMove,
    RunStopped,
    TaskHasRun,
    UnknownRun,
    run_folder_path,
    run_id,
)
from hostler.store import Transaction
from hostler.store.governor import add_signals
from hostler.store.runs import (
    Run,
    RunState,
    add_run,
    change_run,
    counted_runs,
    find_run,
    last_fence,
    open_runs,
    set_stop,
    spent_in_session,
)

USAGE, USD = "usage", "usd"


def _usage_of_run(tx: Transaction, run: Run, tally: StreamTally) -> StreamTally:
    """Return the tally with only what this run has used, without earlier runs of its session.

    Usage that an earlier run could not report before it ended is counted here.
    """
    kind = KINDS.get(run.agent_kind)
    carried = kind.program.carried if kind and kind.program else frozenset()
    if not carried or not tally.session:
        return tally
    tokens_in, tokens_out, cached, usd = spent_in_session(tx, run.task_id, tally.session, run.fence)
    before = Usage(tokens_in, tokens_out, cached)
    usage = subtract_usage(tally.usage, before) if USAGE in carried else tally.usage
    return replace(
        tally, usage=usage, usd=max(tally.usd - usd, 0.0) if USD in carried else tally.usd
    )


def subtract_usage(total: Usage, before: Usage) -> Usage:
    """Return the tokens used in a session since an earlier point, never negative."""
    return Usage(
        max(total.input_tokens - before.input_tokens, 0),
        max(total.output_tokens - before.output_tokens, 0),
        max(total.cached_tokens - before.cached_tokens, 0),
        total=True,
    )


@dataclass(frozen=True, slots=True)
class NewRun:
    """The arguments of `admit_run`. Attempt 0 means: number of the task's counted runs plus one."""

    task_id: str
    project: str
    kind: str
    agent: str
    agent_kind: str
    pool: str = ""
    attempt: int = 0


def admit_run(tx: Transaction, new: NewRun) -> Run:
    """Add a run with the task's next fence. Raise `TaskHasRun` if the task has an open run."""
    for other in open_runs(tx, task_id=new.task_id):
        raise TaskHasRun(new.task_id, other.run)
    name = run_id(tx.now(), secrets.token_hex(3))
    run = Run(
        run=name,
        task_id=new.task_id,
        project=new.project,
        fence=last_fence(tx, new.task_id) + 1,
        attempt=new.attempt or counted_runs(tx, new.task_id) + 1,
        kind=new.kind,
        agent=new.agent,
        agent_kind=new.agent_kind,
        pool=new.pool,
        folder=run_folder_path(new.project, new.task_id, name),
        admitted_at=tx.stamp(),
    )
    add_run(tx, run)
    return run


def request_stop(tx: Transaction, run: str, why: str) -> bool:
    """Request that a run stop. Return True if no stop was requested before.

    This is the only write that user interfaces make to a run.
    """
    return set_stop(tx, run, storable_text(why) or "asked")


def store_starting(tx: Transaction, run: Run, shim: Mapping[str, Any]) -> Run:
    """Store that the shim has locked the run folder and waits for its go."""
    return _move(tx, run, RunMove.LOCKED, {"shim": json.dumps(dict(shim))})


def store_running(tx: Transaction, run: Run) -> Run:
    """Store that there may be an agent from now on; the go follows the commit. Raise if stopped."""
    return _move(tx, run, RunMove.GO)


def store_progress(
    tx: Transaction, run: Run, tally: StreamTally, offsets: Offsets, limits: Sequence[Limit] = ()
) -> Run:
    """Store what was read from the streams together with the offsets. Only one reader may do so."""
    only_if = {"stdout_offset": run.stdout_offset, "stderr_offset": run.stderr_offset}
    values = usage_columns(tally, offsets, _usage_of_run(tx, run, tally))
    changed = _change(tx, run, (RunState.RUNNING,), values, only_if)
    add_signals(tx, live_signals(run, limits))
    return changed


def store_exited(tx: Transaction, run: Run, ending: RunEnding) -> Run:
    """Store the outcome of a run whose processes have all exited; a stop request overrides it."""
    own = _usage_of_run(tx, run, ending.tally)
    changed = _move(
        tx, run, RunMove.OVER, verdict_columns(ending, read_current(tx, run).stop_why, own)
    )
    live = live_signals(run, ending.live_limits(changed))
    add_signals(tx, [*live, *death_signals(changed)])
    return changed


def store_never_started(tx: Transaction, run: Run) -> Run:
    """End a run without an agent; its attempt does not count.

    Raise `RunStopped` after a stop request.
    """
    why = "Its agent was never started."
    facts = {"outcome": NEVER_STARTED, "decided_by": NEVER_STARTED, "why": why, "counted": 0}
    return _move(tx, run, RunMove.NEVER_STARTED, facts)


def store_finishing(tx: Transaction, run: Run) -> Run:
    """Store that its work is being checked, committed and pushed."""
    return _move(tx, run, RunMove.FINISH)


def store_ended(tx: Transaction, run: Run) -> Run:
    """End the run. What follows for its task belongs in the same transaction."""
    return _move(tx, run, RunMove.END)


def read_current(tx: Transaction, run: Run) -> Run:
    """Return the run as stored now. Raise `FenceLost` if it has another fence."""
    found = find_run(tx, run.run)
    if found is None:
        raise UnknownRun(run.run)
    if found.fence != run.fence:
        raise FenceLost(run.run, run.fence, "ours", f"its fence is {found.fence}")
    return found


def require_newest(tx: Transaction, run: Run) -> Run:
    """Raise unless this is its task's open run.

    Call it before every write outside of the database.
    """
    found = read_current(tx, run)
    if found.state is RunState.ENDED or last_fence(tx, run.task_id) != run.fence:
        raise FenceLost(run.run, run.fence, "its task's open run", f"it is {found.state}")
    return found


def _move(tx: Transaction, run: Run, move: RunMove, facts: Mapping[str, Any] | None = None) -> Run:
    allowed, to = RUN_MOVES[move]
    values = {**(facts or {}), "state": to.value, f"{to.value}_at": tx.stamp()}
    # Only from the state that the caller has read, not from any allowed one.
    states = (run.state,) if run.state in allowed else ()
    return _change(
        tx, run, states, values, {"stop_why": None} if move in MOVES_REFUSED_AFTER_STOP else {}
    )


def _change(
    tx: Transaction,
    run: Run,
    states: tuple[RunState, ...],
    values: Mapping[str, Any],
    only_if: Mapping[str, Any],
) -> Run:
    hit = change_run(tx, run.run, fence=run.fence, states=states, values=values, only_if=only_if)
    found = read_current(tx, run)
    if hit:
        return found
    if "stop_why" in only_if and found.stop_why is not None and found.state in states:
        raise RunStopped(run.run, found.stop_why)
    raise FenceLost(run.run, run.fence, run.state.value, f"it is {found.state.value}")

"""Every change of a run's row, guarded by its fence and state; usage within a session."""

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
    Ending,
    Limit,
    Offsets,
    death_signals,
    live_signals,
    printable,
    usage_columns,
    verdict_columns,
)
from hostler.runs.states import (
    BARRED_BY_STOP,
    MOVES,
    FenceLost,
    Move,
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


def usage_of_run(tx: Transaction, run: Run, tally: StreamTally) -> StreamTally:
    """The tally with what this run has spent itself, without what earlier ones in its session did.

    What an earlier run did not live to say is counted here, by the first that does.
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
    """Tokens of a session since an earlier moment; never fewer than none. Pure."""
    return Usage(
        max(total.input_tokens - before.input_tokens, 0),
        max(total.output_tokens - before.output_tokens, 0),
        max(total.cached_tokens - before.cached_tokens, 0),
        total=True,
    )


@dataclass(frozen=True, slots=True)
class NewRun:
    """What is asked of `admit`. Attempt 0: one more than the task's runs that had an agent."""

    task_id: str
    project: str
    kind: str
    agent: str
    agent_kind: str
    pool: str = ""
    attempt: int = 0


def admit(tx: Transaction, new: NewRun) -> Run:
    """Add a run with the task's next fence; refused while the task has one that is not ended."""
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
    """Ask for a run's end. All that a face ever writes; whether it was the first to ask."""
    return set_stop(tx, run, printable(why) or "asked")


def begin(tx: Transaction, run: Run, shim: Mapping[str, Any]) -> Run:
    """Its shim has the lock and waits for go."""
    return _move(tx, run, Move.LOCKED, {"shim": json.dumps(dict(shim))})


def attach(tx: Transaction, run: Run) -> Run:
    """From now on there may be an agent; the go byte follows this commit. A stop refuses it."""
    return _move(tx, run, Move.GO)


def progress(
    tx: Transaction, run: Run, tally: StreamTally, offsets: Offsets, limits: Sequence[Limit] = ()
) -> Run:
    """What the streams said, with how far they were read; one reader only."""
    only_if = {"stdout_offset": run.stdout_offset, "stderr_offset": run.stderr_offset}
    values = usage_columns(tally, offsets, usage_of_run(tx, run, tally))
    changed = _change(tx, run, (RunState.RUNNING,), values, only_if)
    add_signals(tx, live_signals(run, limits))
    return changed


def exited(tx: Transaction, run: Run, ending: Ending) -> Run:
    """Nothing of the agent is left: its outcome, under whatever stop was asked for by now."""
    own = usage_of_run(tx, run, ending.tally)
    changed = _move(tx, run, Move.OVER, verdict_columns(ending, current(tx, run).stop_why, own))
    live = live_signals(run, ending.told_alive(changed))
    add_signals(tx, [*live, *death_signals(changed)])
    return changed


def never_started(tx: Transaction, run: Run) -> Run:
    """There was no agent, and the attempt does not count. A stop refuses it: see `exited`."""
    why = "Its agent was never started."
    facts = {"outcome": NEVER_STARTED, "decided_by": NEVER_STARTED, "why": why, "counted": 0}
    return _move(tx, run, Move.NEVER_STARTED, facts)


def finishing(tx: Transaction, run: Run) -> Run:
    """Its work is being looked through, committed and handed on."""
    return _move(tx, run, Move.FINISH)


def ended(tx: Transaction, run: Run) -> Run:
    """Nothing is left to do; what follows for the task belongs in the same transaction."""
    return _move(tx, run, Move.END)


def current(tx: Transaction, run: Run) -> Run:
    """The run as it is now, if it still has this fence."""
    found = find_run(tx, run.run)
    if found is None:
        raise UnknownRun(run.run)
    if found.fence != run.fence:
        raise FenceLost(run.run, run.fence, "ours", f"its fence is {found.fence}")
    return found


def require_newest(tx: Transaction, run: Run) -> Run:
    """Raise unless this is its task's open run: to be asked before anything leaves the house."""
    found = current(tx, run)
    if found.state is RunState.ENDED or last_fence(tx, run.task_id) != run.fence:
        raise FenceLost(run.run, run.fence, "its task's open run", f"it is {found.state}")
    return found


def _move(tx: Transaction, run: Run, move: Move, facts: Mapping[str, Any] | None = None) -> Run:
    allowed, to = MOVES[move]
    values = {**(facts or {}), "state": to.value, f"{to.value}_at": tx.stamp()}
    # One row of one state: the state that the caller believes in, not any that would do.
    states = (run.state,) if run.state in allowed else ()
    return _change(tx, run, states, values, {"stop_why": None} if move in BARRED_BY_STOP else {})


def _change(
    tx: Transaction,
    run: Run,
    states: tuple[RunState, ...],
    values: Mapping[str, Any],
    only_if: Mapping[str, Any],
) -> Run:
    hit = change_run(tx, run.run, fence=run.fence, states=states, values=values, only_if=only_if)
    found = current(tx, run)
    if hit:
        return found
    if "stop_why" in only_if and found.stop_why is not None and found.state in states:
        raise RunStopped(run.run, found.stop_why)
    raise FenceLost(run.run, run.fence, run.state.value, f"it is {found.state.value}")

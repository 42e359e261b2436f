"""The edge: end what a run's killed supervisor left behind."""

from __future__ import annotations

from hostler.runs.errors import OutOfReach
from hostler.runs.evidence import shim_of
from hostler.shim import identity, sweep
from hostler.store.runs import Run


def sweep_up(run: Run, grace: float) -> int:
    """End all processes that carry the run's mark; how many there were.

    The mark is that of the row: the agent can write to its folder, but not here.
    """
    known = shim_of(run)
    if known is None:
        return 0  # no go byte was ever sent
    reach = identity.within_reach(known)
    if reach is None:
        raise OutOfReach(run.run, f"it ran on {known.get('host')}, or in another container.")
    if not reach:
        return 0  # that machine has been started anew
    try:
        return sweep.end(str(known["mark"]), grace).found
    except sweep.OutOfReach as error:
        raise OutOfReach(run.run, f"{error}.") from error

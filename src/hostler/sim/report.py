"""Results for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hostler.sim.scenario import Scenario
from hostler.sim.tally import METRICS
from hostler.sim.tournament import Standing

# What was not measured.
_NOTHING = "–"
_DECIMALS = {"utilisation": 3, "worst_share": 3, "recovery_min": 1, "idle_slot_hours": 1}


def table(standings: Sequence[Standing]) -> str:
    """A line for each policy, a column for each metric."""
    rows = [["policy", *METRICS]]
    for standing in standings:
        means = standing.means()
        rows.append([standing.policy, *(_shown(name, means.get(name)) for name in METRICS)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def _shown(name: str, value: float | None) -> str:
    return _NOTHING if value is None else f"{value:,.{_DECIMALS.get(name, 0)}f}"


def parameters(scenario: Scenario) -> str:
    """Everything that the model was told."""
    return "\n".join(f"{name} = {value}" for name, value in scenario.model_dump().items())


def as_json(scenario: Scenario, seeds: int, standings: Sequence[Standing]) -> dict[str, Any]:
    """The same, with the numbers of each seed."""
    return {
        "scenario": scenario.model_dump(),
        "seeds": seeds,
        "policies": {
            one.policy: {
                "mean": one.means(),
                "by_seed": [{"seed": entry.seed, **entry.metrics} for entry in one.entries],
            }
            for one in standings
        },
    }

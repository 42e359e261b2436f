"""What a campaign has shown: which mutants no test has noticed, and the score."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

EXPLAINED = Path(__file__).with_name("explained.toml")
KILLS = frozenset({"killed", "timeout"})
# A mutant and what became of it: see `Outcome` in mutation_worker.py.
Record = dict[str, object]


def read_explained(text: str) -> dict[str, str]:
    """Return the mutants that no test can notice, each with the reason."""
    found = tomllib.loads(text).get("mutant", [])
    return {name: one["why"] for one in found for name in (one.get("ids") or [one["id"]])}


def report(
    records: list[Record], explained: dict[str, str], *, whole: bool, every: bool
) -> Iterator[str]:
    """Return the lines of the summary: a row per module, what survived, and the score."""
    yield f"{'module':<44}{'mutants':>8}{'killed':>8}{'hung':>6}{'equal':>7}{'alive':>7}  score"
    for module in dict.fromkeys(str(one["module"]) for one in records):
        yield _row(module, [one for one in records if one["module"] == module], explained)
    yield _row("all", records, explained)
    for one in survivors(records, explained) if every else ():
        yield f"{one['status']}: line {one['line']}: {one['id']} ({one['tests']} tests)"
    for name in stale(records, explained, whole=whole):
        yield f"explained.toml: not a survivor any more: {name}"


def _row(name: str, records: list[Record], explained: dict[str, str]) -> str:
    counts = Counter(str(one["status"]) for one in records)
    equal = sum(1 for one in records if one["status"] not in KILLS and one["id"] in explained)
    alive = len(survivors(records, explained))
    return (
        f"{name:<44}{len(records):>8}{counts['killed']:>8}{counts['timeout']:>6}{equal:>7}"
        f"{alive:>7}  {score(records, explained):.1f} %"
    )


def survivors(records: list[Record], explained: dict[str, str]) -> list[Record]:
    """Return the mutants that no test noticed and nobody has explained."""
    return [
        one
        for one in records
        if one["status"] in ("survived", "uncovered") and one["id"] not in explained
    ]


def score(records: list[Record], explained: dict[str, str]) -> float:
    """Return how many percent of the mutants that can be noticed were."""
    killed = sum(1 for one in records if one["status"] in KILLS)
    missed = len(survivors(records, explained))
    return 100.0 * killed / (killed + missed) if killed + missed else 100.0


def stale(records: list[Record], explained: dict[str, str], *, whole: bool) -> list[str]:
    """Return explained mutants that were killed or, if all were run, that do not exist."""
    status = {str(one["id"]): one["status"] for one in records}
    gone = [name for name in explained if whole and name not in status]
    return gone + [name for name in explained if status.get(name) in KILLS]


def is_good(records: list[Record], explained: dict[str, str], least: float, *, whole: bool) -> bool:
    """Return whether enough mutants were noticed and the list of explained ones is right."""
    return score(records, explained) >= least and not stale(records, explained, whole=whole)

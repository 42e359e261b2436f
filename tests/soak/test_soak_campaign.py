"""The whole program for a long time: people, kills, faults, and what must hold after all of it."""

from __future__ import annotations

import json

import pytest
from soak_campaign import campaign
from soak_evidence import gathered
from soak_invariants import violations
from soak_sizes import FULL, SEED_VARIABLE, SMALL, TINY, Size, seed


def played(root, size: Size, default_seed: int | None = None) -> dict[str, object]:
    """Play, print what happened, and require that enough happened and nothing went wrong."""
    chosen = seed(default_seed)
    hint = f"{SEED_VARIABLE}={chosen}; the evidence is in {root}"
    print(f"\n{size.name} campaign: {hint}", flush=True)
    with campaign(root, size, chosen) as life:
        try:
            life.play()
        except AssertionError as error:
            pytest.fail(f"{error}\n{hint}")
        found = violations(gathered(life))
        counts = life.counts()
    for name, value in counts.items():
        print(f"{name:>14}  {value}")
    (root / "violations.json").write_text(json.dumps(found, indent=1))
    assert not found, f"{json.dumps(found, indent=1)[:20_000]}\n{hint}"
    for name in ("repositories", "tasks", "kills", "faults", "restarts"):
        assert counts[name] >= getattr(size, name), f"too few {name}: {counts}\n{hint}"
    return counts


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_tiny_campaign_violates_nothing(tmp_path):
    # The same stories in every run; the longer campaigns choose theirs at random.
    played(tmp_path, TINY, default_seed=10)


@pytest.mark.soak
def test_a_small_campaign_violates_nothing(tmp_path):
    played(tmp_path, SMALL)


@pytest.mark.soak
def test_a_full_campaign_violates_nothing(tmp_path):
    counts = played(tmp_path, FULL)
    # A cap that nobody meets shows nothing.
    assert counts["together"] == FULL.together

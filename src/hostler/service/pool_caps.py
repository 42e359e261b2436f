"""An operator's word on a pool: file and database together, or neither."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hostler.config.settings import Settings
from hostler.governor import read_policy, reseed
from hostler.governor.caps import move_state, set_caps
from hostler.store import Store


def set_pool(
    home: Path, settings: Settings, store: Store, pool: str, caps: Mapping[str, Any]
) -> None:
    """Set a pool anew: what is not named goes back to its default. Agents at work go on."""
    read_policy(home, settings)  # a damaged file is said before anything else
    move_state(home, store)
    with store.write("admission") as tx:
        set_caps(home, pool, caps)
        reseed(tx, pool, read_policy(home, settings).cap(pool))

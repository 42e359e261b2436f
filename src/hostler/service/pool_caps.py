"""An operator's word on a pool: file and database together, or neither."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hostler.config import PoolCaps, load_pools
from hostler.config.pools import FILE_NAME
from hostler.config.settings import Settings
from hostler.governor import park as close_pool
from hostler.governor import pool_key, read_policy, reseed
from hostler.governor import reset as forget
from hostler.governor import resume as open_pool
from hostler.governor.caps import move_state, set_caps
from hostler.governor.gates import UNTIL_RESUMED, Closed
from hostler.governor.parking import closed
from hostler.store import Store
from hostler.store.governor import parked_pool


@dataclass(frozen=True, slots=True)
class StoredPools:
    """The pools of a home, for an operator."""

    home: Path
    settings: Settings
    store: Store

    def set(self, pool: str, caps: Mapping[str, Any]) -> None:
        """Set a pool anew."""
        set_pool(self.home, self.settings, self.store, pool, caps)

    def reset(self, pool: str) -> bool:
        """Forget what was learned of it; whether there was anything."""
        with self.store.write("admission") as tx:
            return forget(tx, pool_key(pool))

    def park(self, pool: str, term: datetime | timedelta | None, why: str) -> Closed | None:
        """Close it for a while, until a moment, or until it is resumed; how it is closed then."""
        with self.store.write("admission") as tx:
            ends = tx.now() + term if isinstance(term, timedelta) else term or UNTIL_RESUMED
            close_pool(tx, pool_key(pool), ends, why)
            return closed(parked_pool(tx, pool_key(pool)), tx.now())

    def resume(self, pool: str) -> bool:
        """Open it; whether it was closed."""
        with self.store.write("admission") as tx:
            return open_pool(tx, pool_key(pool))


def change_pool(
    home: Path, settings: Settings, store: Store, pool: str, caps: Mapping[str, Any]
) -> None:
    """Change some of what a pool is set to. Agents at work go on."""
    _write(home, settings, store, pool, lambda: {**_set_keys(home, pool), **caps})


def set_pool(
    home: Path, settings: Settings, store: Store, pool: str, caps: Mapping[str, Any]
) -> None:
    """Set a pool anew: what is not named goes back to its default. Agents at work go on."""
    _write(home, settings, store, pool, lambda: caps)


def _write(
    home: Path, settings: Settings, store: Store, pool: str, caps: Callable[[], Mapping[str, Any]]
) -> None:
    read_policy(home, settings)  # a damaged file is said before anything else
    move_state(home, store)
    with store.write("admission") as tx:
        # What is set already is read here: others may change it until now, and not from now on.
        set_caps(home, pool, caps())
        reseed(tx, read_policy(home, settings), pool)


def _set_keys(home: Path, pool: str) -> dict[str, Any]:
    known = load_pools(home / FILE_NAME).get(pool_key(pool), PoolCaps())
    return known.model_dump(include=set(PoolCaps.model_fields), exclude_unset=True)

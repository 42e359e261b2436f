"""Caps of pools: re-read the caps file, change pools for operators, report adaptive changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hostler.config.pools import POOLS_FILE_NAME, PoolCaps, load_pools
from hostler.config.settings import Settings
from hostler.errors import ConfigError, HostlerError
from hostler.governor.adaptive.controller import policy_for, reset_cap
from hostler.governor.adaptive.controller import reset as forget
from hostler.governor.adaptive.model import BreakerState, PoolConfig, PoolState
from hostler.governor.adaptive.state import load_state
from hostler.governor.caps_file import move_state, set_caps
from hostler.governor.gates import UNTIL_RESUMED, ParkedPool
from hostler.governor.parking import active_parking
from hostler.governor.parking import park as close_pool
from hostler.governor.parking import resume as open_pool
from hostler.governor.policy import Policy, pool_key, read_policy
from hostler.service.service_log import ServiceLog
from hostler.store import Store
from hostler.store.governor import all_pool_states, parked_pool
from hostler.telemetry import names
from hostler.telemetry.metrics import metrics

_FileVersion = tuple[int, int, int]


class PolicyCache:
    """The last policy that could be read. A damaged file is reported once and changes nothing."""

    def __init__(
        self,
        home: Path,
        settings: Settings,
        troubled: Callable[[BaseException], None],
        store: Store | None = None,
    ) -> None:
        """`store` receives state that an older program kept in the file."""
        self._home = home
        self._settings = settings
        self._troubled = troubled
        self._store = store
        self.tidy()
        # A service does not start with a damaged file: it would not know its caps.
        self._mark = self._look()
        self._policy = read_policy(home, settings)

    def current(self) -> Policy:
        """Return the effective policy."""
        mark = self._look()
        if mark != self._mark:
            self._mark = mark
            try:
                self._policy = read_policy(self._home, self._settings)
            except ConfigError as error:
                self._troubled(error)
        return self._policy

    def tidy(self) -> None:
        """Move state out of the file. Call it outside of transactions.

        State that cannot be moved stays in the file and is ignored there.
        """
        if self._store is None:
            return
        try:
            move_state(self._home, self._store)
        except ConfigError:
            return  # reading the caps reports this
        except HostlerError as error:
            self._troubled(error)

    def _look(self) -> _FileVersion | None:
        try:
            found = (self._home / POOLS_FILE_NAME).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


@dataclass(frozen=True, slots=True)
class LocalPoolControl:
    """Changes pools of a home for an operator."""

    home: Path
    settings: Settings
    store: Store

    def set(self, pool: str, caps: Mapping[str, Any]) -> None:
        """Set all caps of a pool."""
        set_pool(self.home, self.settings, self.store, pool, caps)

    def reset(self, pool: str) -> bool:
        """Forget what was learned about a pool. Return False if there was nothing."""
        with self.store.write("admission") as tx:
            return forget(tx, pool_key(pool))

    def park(self, pool: str, term: datetime | timedelta | None, why: str) -> ParkedPool | None:
        """Close a pool for a time, until a time, or until it is resumed."""
        with self.store.write("admission") as tx:
            ends = tx.now() + term if isinstance(term, timedelta) else term or UNTIL_RESUMED
            close_pool(tx, pool_key(pool), ends, why)
            return active_parking(parked_pool(tx, pool_key(pool)), tx.now())

    def resume(self, pool: str) -> bool:
        """Open a pool. Return False if it was open."""
        with self.store.write("admission") as tx:
            return open_pool(tx, pool_key(pool))


def change_pool(
    home: Path, settings: Settings, store: Store, pool: str, caps: Mapping[str, Any]
) -> None:
    """Change some caps of a pool. Running agents continue."""
    _write_caps(home, settings, store, pool, lambda: {**_configured_caps(home, pool), **caps})


def set_pool(
    home: Path, settings: Settings, store: Store, pool: str, caps: Mapping[str, Any]
) -> None:
    """Set all caps of a pool; those not given become the default. Running agents continue."""
    _write_caps(home, settings, store, pool, lambda: caps)


def _write_caps(
    home: Path, settings: Settings, store: Store, pool: str, caps: Callable[[], Mapping[str, Any]]
) -> None:
    read_policy(home, settings)  # raises first if the file is damaged
    move_state(home, store)
    with store.write("admission") as tx:
        # Read the present caps with the lock held.
        set_caps(home, pool, caps())
        reset_cap(tx, read_policy(home, settings), pool)


def _configured_caps(home: Path, pool: str) -> dict[str, Any]:
    known = load_pools(home / POOLS_FILE_NAME).get(pool_key(pool), PoolCaps())
    return known.model_dump(include=set(PoolCaps.model_fields), exclude_unset=True)


# The state as a number, for charts.
_BREAKER_LEVELS = {BreakerState.CLOSED: 0, BreakerState.HALF_OPEN: 1, BreakerState.OPEN: 2}


class AdaptivePoolReporter:
    """Reports changes of adaptive pools."""

    def __init__(self, store: Store, policies: PolicyCache, service_log: ServiceLog) -> None:
        self._store = store
        self._policies = policies
        self._service_log = service_log
        self._caps: dict[str, int] = {}
        self._breakers: dict[str, BreakerState] = {}
        self._damaged: set[str] = set()

    def report_changes(self) -> None:
        """Report changes since the last call. The first call only stores the state."""
        policy = self._policies.current()
        if not policy.is_any_adaptive:
            return
        with self._store.read() as tx:
            found = all_pool_states(tx)
        for pool, text in found.items():
            if policy.is_adaptive(pool):
                self._tell(pool, policy.pool_config(pool), load_state(text))

    def _tell(self, pool: str, config: PoolConfig, state: PoolState) -> None:
        cap, breaker = policy_for(config).cap(config, state), state.breaker_state
        metrics.set(names.GOVERNOR_CAP, cap, pool=pool)
        metrics.set(names.GOVERNOR_BREAKER, _BREAKER_LEVELS[breaker], pool=pool)
        metrics.set(names.GOVERNOR_RATE_LIMIT_EVENTS, state.rate_limit_events, pool=pool)
        before = self._caps.get(pool, cap)
        if cap != before:
            self._service_log.cap_changed(pool, before, cap, state.rate_limit_events)
        if breaker is not self._breakers.get(pool, breaker):
            self._service_log.breaker_changed(pool, breaker.value or "closed")
        self._caps[pool], self._breakers[pool] = cap, breaker
        self._tell_damage(pool, damaged=state.damaged_at is not None)

    def _tell_damage(self, pool: str, *, damaged: bool) -> None:
        """Report damage once, even if it existed before the service started."""
        if damaged and pool not in self._damaged:
            self._service_log.damaged(pool)
        (self._damaged.add if damaged else self._damaged.discard)(pool)

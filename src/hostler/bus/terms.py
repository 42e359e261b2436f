"""How a bus behaves, as the operator's settings say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hostler.config.settings import Tasks

_MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Terms:
    """The keys `bus_*` of `[tasks]`."""

    sync: bool = False
    lock_timeout_seconds: float = 10.0
    max_retries: int = 3
    retry_backoff_seconds: float = 0.1
    max_bytes: int = 8 * _MEGABYTE

    @classmethod
    def of(cls, tasks: Tasks) -> Terms:
        """From the settings."""
        return cls(
            sync=tasks.bus_sync,
            lock_timeout_seconds=tasks.bus_lock_timeout_seconds,
            max_retries=tasks.bus_max_retries,
            retry_backoff_seconds=tasks.bus_retry_backoff_seconds,
            max_bytes=tasks.bus_max_mb * _MEGABYTE,
        )

    def pause_after(self, attempt: int) -> float:
        """Seconds between an attempt in vain and the next one."""
        return float(self.retry_backoff_seconds * 2 ** (attempt - 1))

"""GitHub's limits: the hourly budget of a caller, and the secondary ones against haste."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hostler.sandbox.auth import Identity
from hostler.sandbox.http.errors import ApiError
from hostler.sandbox.state.world import SandboxSettings

SECONDARY_LIMIT_MESSAGE = (
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
)


UNLIMITED = 10**9


class SlidingSum:
    """A sum over the last so many seconds."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds
        self._entries: deque[tuple[float, int]] = deque()
        self._total = 0

    def total(self, now: float) -> int:
        """Return the sum over the window that ends now."""
        entries = self._entries
        while entries and (entries[0][0] <= now - self._seconds or entries[0][0] > now):
            self._total -= entries.popleft()[1]
        return self._total

    def add(self, now: float, amount: int) -> None:
        """Count something."""
        self._entries.append((now, amount))
        self._total += amount


@dataclass
class RateAccount:
    """What one user, installation or App has used."""

    limit: int
    used: int = 0
    reset: int = 0
    concurrent: int = 0
    points: SlidingSum = field(default_factory=lambda: SlidingSum(60))
    minute: SlidingSum = field(default_factory=lambda: SlidingSum(60))
    hour: SlidingSum = field(default_factory=lambda: SlidingSum(3600))
    missing: SlidingSum = field(default_factory=lambda: SlidingSum(60))

    def renew(self, now: float) -> None:
        """Start a new hour if the old one is over (or the clock was set back before it)."""
        if now >= self.reset or self.reset > now + 3600:
            self.used, self.reset = 0, int(now) + 3600

    def headers(self) -> dict[str, str]:
        """Return the x-ratelimit headers."""
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(max(self.limit - self.used, 0)),
            "X-RateLimit-Reset": str(self.reset),
            "X-RateLimit-Used": str(self.used),
            "X-RateLimit-Resource": "core",
        }


class RateLimits:
    """The accounts of all callers."""

    def __init__(self, settings: SandboxSettings) -> None:
        self._settings = settings
        self._accounts: dict[str, RateAccount] = {}

    def account(self, who: Identity, now: float) -> RateAccount:
        """Return the account that pays for `who`, in its current hour."""
        account = self._accounts.get(who.budget_key)
        if account is None:
            account = self._accounts[who.budget_key] = RateAccount(0)
        account.limit = self._limit(who)
        account.renew(now)
        return account

    def admit(self, account: RateAccount, now: float, points: int, creates: bool) -> None:
        """Count an arriving request; raise if a secondary limit is exceeded."""
        settings = self._settings
        over = (
            _is_reached(account.concurrent, settings.concurrent_limit)
            or _is_reached(account.points.total(now) + points - 1, settings.points_per_minute)
            or _is_reached(account.missing.total(now), settings.missing_per_minute)
            or (creates and self._creating_too_fast(account, now))
        )
        account.points.add(now, points)
        if over:
            raise self.secondary()
        if creates:
            account.minute.add(now, 1)
            account.hour.add(now, 1)

    def check_primary(self, account: RateAccount) -> None:
        """Raise if the hour's budget is gone."""
        if account.used >= account.limit:
            raise self.primary()

    def primary(self, shape: int | None = None) -> ApiError:
        """Return the error for a caller whose hourly budget is used up."""
        return ApiError(shape or self._settings.primary_shape, "API rate limit exceeded")

    def secondary(self, shape: int | None = None) -> ApiError:
        """Return the error for a caller who sends too much too fast."""
        wait = str(self._settings.secondary_retry_after)
        status = shape or self._settings.secondary_shape
        return ApiError(
            status, SECONDARY_LIMIT_MESSAGE, headers={"Retry-After": wait} if wait != "0" else {}
        )

    def clear(self) -> None:
        """Reset all rate limits."""
        self._accounts.clear()

    def _creating_too_fast(self, account: RateAccount, now: float) -> bool:
        settings = self._settings
        return _is_reached(account.minute.total(now), settings.creations_per_minute) or _is_reached(
            account.hour.total(now), settings.creations_per_hour
        )

    def _limit(self, who: Identity) -> int:
        settings = self._settings
        if who.anonymous:
            return settings.anonymous_limit or UNLIMITED
        if who.installation_id is not None:
            return settings.installation_limit or UNLIMITED
        return settings.primary_limit or UNLIMITED


def _is_reached(count: int, limit: int) -> bool:
    return limit > 0 and count >= limit

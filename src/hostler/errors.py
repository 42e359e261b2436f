"""Every error that Hostler raises on purpose.

    HostlerError                  what happened, what is safe, what to do next
    ├── ConfigError               hostler.toml has mistakes (all of them, at once)
    ├── StoreError                the database
    │   ├── StoreMissing          there is none yet
    │   ├── StoreBusy             another process holds the write lock for too long
    │   ├── StoreUnsteady         it could not be opened, but could a moment later
    │   ├── StoreNewer            written by a newer Hostler
    │   ├── StoreOutdated         needs `hostler db upgrade`
    │   ├── StoreReadOnly         its file or folder cannot be written
    │   ├── StoreFull             no space is left
    │   ├── StoreCorrupt          its content is damaged
    │   ├── StoreUnreachable      the PostgreSQL server does not answer or refuses us
    │   └── StoreConflict         a write met a row that is not as expected
    ├── CheckoutError             git and checkouts; its branch is drawn in checkouts/errors.py
    ├── HomeLocked                another process is using this home
    ├── ForgeError                GitHub
    │   ├── CredentialsMissing    there is no token, key or login to use
    │   ├── Refused               it rejected the request and did nothing
    │   │   ├── Unauthorized      the token is not valid
    │   │   ├── Forbidden         the account has no permission
    │   │   ├── NotFound          it does not exist, or is hidden from the account
    │   │   ├── Gone              it was deleted
    │   │   ├── Moved             it moved to an address that is not followed
    │   │   ├── Conflict          its state does not allow the request now
    │   │   ├── Invalid           the request's content is not valid
    │   │   └── RateLimited       too many requests; says until when to wait
    │   ├── ServerFailed          a read failed on the server
    │   ├── Unreachable           no answer, and nothing was changed
    │   ├── Unclear               no clear answer to a write, which may have happened
    │   └── GitHubPollingError    a feed could not be read
    ├── SandboxError              the local GitHub could not start or read its file
    └── MissingExtra              an optional dependency is not installed

Callers match types and read facts from attributes, never the wording.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path


class HostlerError(Exception):
    """An error for users: what happened, what is safe, what to do next."""

    exit_code = 1

    def __init__(self, what: str, *, safe: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.safe = safe
        self.remedy = remedy

    def lines(self) -> list[str]:
        """Return the sentences to show, without empty ones."""
        return [part for part in (self.what, self.safe, self.remedy) if part]


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a settings file.

    `line` is 0 if it is not known. `message` replaces "expected …, found …" where that would not
    be good English; it has no full stop.
    """

    key: str
    found: str
    allowed: str
    suggestion: str = ""
    line: int = 0
    message: str = ""

    def sentence(self) -> str:
        """Return the mistake in one line."""
        place = f"line {self.line}: " if self.line else ""
        hint = f" {self.suggestion}" if self.suggestion else ""
        message = self.message or f"{self.key}: expected {self.allowed}, found {self.found}"
        return f"{place}{message}.{hint}"


class ConfigError(HostlerError):
    """The settings have mistakes; `problems` has all of them."""

    exit_code = 2

    def __init__(self, path: Path, problems: Iterable[Problem]) -> None:
        self.path = path
        self.problems = sorted(problems, key=lambda problem: (problem.line, problem.key))
        count = len(self.problems)
        super().__init__(
            f"{path} has {count} mistake{'s' if count != 1 else ''}:",
            remedy="`hostler config reference` describes every key.",
        )

    def lines(self) -> list[str]:
        return [self.what, *(problem.sentence() for problem in self.problems), self.remedy]


class StoreError(HostlerError):
    """The database could not do what was asked."""


class StoreMissing(StoreError):
    """There is no database yet."""


class StoreBusy(StoreError):
    """Another process kept the write lock for longer than we wait."""

    def __init__(self, holder: str, waited_seconds: float) -> None:
        super().__init__(
            f"The database is busy: {holder} holds its write lock (waited {waited_seconds:.0f} s).",
            safe="Nothing was written.",
            remedy="Try again. If it stays busy, check that process.",
        )
        self.holder = holder
        self.waited_seconds = waited_seconds


class StoreUnsteady(StoreError):
    """The database could not be opened, but could a moment later."""


class StoreNewer(StoreError):
    """The database was written by a newer Hostler."""


class StoreOutdated(StoreError):
    """The database has an older schema than this program."""


class StoreReadOnly(StoreError):
    """The database cannot be written."""


class StoreFull(StoreError):
    """No space is left for the database."""


class StoreCorrupt(StoreError):
    """The database's content is damaged."""


class StoreUnreachable(StoreError):
    """The database server does not answer or rejects the connection."""


class StoreConflict(StoreError):
    """A write found a row in an unexpected state."""


class CheckoutError(HostlerError):
    """Git failed, or an agent left its checkout in an unusable state."""


class HomeLocked(HostlerError):
    """Another process is using this home."""

    def __init__(self, home: object, holder: object | None) -> None:
        super().__init__(
            f"{holder or 'Another process'} is already running on the home {home}.",
            safe="Nothing was changed.",
            remedy="Wait until it has finished, or stop it.",
        )
        self.holder = holder


class ForgeError(HostlerError):
    """A request to GitHub failed, or its result is not known."""


class CredentialsMissing(ForgeError):
    """There is no token, key or login to use."""


class Refused(ForgeError):
    """GitHub rejected the request and did nothing."""

    def __init__(self, request: str, status: int, message: str, *, remedy: str = "") -> None:
        sentence = message if message.endswith((".", "!", "?")) else f"{message}."
        super().__init__(f"GitHub answered {request} with {status}: {sentence}", remedy=remedy)
        self.request = request
        self.status = status
        self.message = message


class Unauthorized(Refused):
    """The token is not valid."""


class Forbidden(Refused):
    """The account has no permission."""


class NotFound(Refused):
    """The object does not exist, or is hidden from the account."""


class Gone(Refused):
    """The object was deleted."""


class Conflict(Refused):
    """The object's state does not allow the request now."""


class Moved(Refused):
    """The object moved to an address that is not followed. `repository_id` is 0 if unknown."""

    def __init__(self, request: str, status: int, location: str, repository_id: int = 0) -> None:
        super().__init__(request, status, f"it moved to {location or 'an unknown address'}")
        self.location = location
        self.repository_id = repository_id


class Invalid(Refused):
    """The request's content is not valid. `fields` has (field, code, message) as far as known."""

    def __init__(
        self, request: str, status: int, message: str, fields: tuple[tuple[str, str, str], ...] = ()
    ) -> None:
        detail = "; ".join(" ".join(part for part in field if part) for field in fields)
        super().__init__(request, status, f"{message} ({detail})" if detail else message)
        self.fields = fields


class RateLimited(Refused):
    """GitHub's hourly (primary) or short-term (secondary) rate limit is reached.

    Status 0 means that the request was not sent, because GitHub would have rejected it or to
    keep a reserve.
    """

    def __init__(self, request: str, status: int, until: datetime, limit: str) -> None:
        wait = f"the {limit} limit is reached; wait until {until:%H:%M:%S} UTC"
        super().__init__(request, status, wait)
        if not status:
            self.what = f"Did not send {request} to GitHub: {wait}."
            self.args = (self.what,)
        self.until = until
        self.limit = limit


class ServerFailed(ForgeError):
    """A read failed on the server, or its answer cannot be parsed."""

    def __init__(self, request: str, status: int) -> None:
        failed = f"GitHub failed to answer {request} ({status})."
        unreadable = f"GitHub's answer to {request} cannot be parsed."
        super().__init__(
            failed if status >= 400 else unreadable,
            safe="Nothing was changed.",
            remedy="It is retried automatically. If it persists, check `github.api_url`.",
        )
        self.status = status


class Unreachable(ForgeError):
    """No answer came, and nothing was changed."""

    def __init__(self, request: str, reason: str) -> None:
        super().__init__(
            f"GitHub could not be reached for {request}: {reason}.",
            safe="Nothing was changed there.",
            remedy="Check the network and `github.api_url`.",
        )
        self.reason = reason


class Unclear(ForgeError):
    """No clear answer to a write, which may have happened: look it up before repeating it."""

    def __init__(self, request: str, reason: str) -> None:
        super().__init__(
            f"It is not known whether GitHub executed {request}: {reason}.",
            safe="The result is looked up before the request is repeated.",
        )
        self.reason = reason


class GitHubPollingError(ForgeError):
    """A feed could not be read; nothing of it was stored."""

    def __init__(self, repo: str, surface: str, cause: ForgeError) -> None:
        super().__init__(
            f"{surface} of {repo} could not be read. {cause.what}",
            safe="The next poll continues from the same position.",
            remedy=cause.remedy,
        )
        self.repo = repo
        self.surface = surface
        self.cause = cause
        self.until = cause.until if isinstance(cause, RateLimited) else None


class SandboxError(HostlerError):
    """The local GitHub could not start or read its file."""


class MissingExtra(HostlerError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs packages that are not installed.",
            remedy=f"Install them with: pip install 'hostler[{extra}]'",
        )
        self.extra = extra

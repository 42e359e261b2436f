"""Every error that Hostler raises on purpose.

    HostlerError                  what happened, what is safe, what to do next
    ├── ConfigError               hostler.toml has mistakes (all of them, at once)
    ├── StoreError                the database
    │   ├── StoreMissing          there is none yet
    │   ├── StoreBusy             another process holds the write lock for too long
    │   ├── StoreUnsteady         it could not be opened for a moment
    │   ├── StoreNewer            written by a newer Hostler
    │   ├── StoreOutdated         needs `hostler db upgrade`
    │   ├── StoreReadOnly         its file or folder cannot be written
    │   ├── StoreFull             no space is left
    │   ├── StoreCorrupt          its content is damaged
    │   ├── StoreUnreachable      the PostgreSQL server does not answer or refuses us
    │   └── StoreConflict         a write met a row that is not as expected
    ├── CheckoutError             git and checkouts; its branch is drawn in checkouts/errors.py
    ├── HomeLocked                another process works on this home
    ├── ForgeError                GitHub
    │   ├── CredentialsMissing    there is no token, key or login to use
    │   ├── Refused               it said no, and did nothing
    │   │   ├── Unauthorized      it does not know us
    │   │   ├── Forbidden         it knows us, and we may not
    │   │   ├── NotFound          it is not there, or hidden from us
    │   │   ├── Gone              it was there and will not come back
    │   │   ├── Moved             it is somewhere we do not follow to
    │   │   ├── Conflict          its state does not allow it now
    │   │   ├── Invalid           what we sent is not acceptable
    │   │   └── RateLimited       we asked too much, and are told until when to wait
    │   ├── ServerFailed          a read met a failing server
    │   ├── Unreachable           no answer, and nothing was changed
    │   ├── Unclear               no clear answer to a write: perhaps it happened
    │   └── GitHubPollingError    a feed could not be read
    ├── SandboxError              the local GitHub could not start or read its file
    └── MissingExtra              an optional dependency is not installed

Callers match types and read facts from attributes; nobody matches the wording.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path


class HostlerError(Exception):
    """Something a person should read: what happened, what is safe, what to do next."""

    exit_code = 1

    def __init__(self, what: str, *, safe: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.safe = safe
        self.remedy = remedy

    def lines(self) -> list[str]:
        """The sentences to show, in order, without empty ones."""
        return [part for part in (self.what, self.safe, self.remedy) if part]


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a settings file. `line` is 0 where no single line is to blame."""

    key: str
    found: str
    allowed: str
    suggestion: str = ""
    line: int = 0

    def sentence(self) -> str:
        """The mistake in one line for a person."""
        place = f"line {self.line}: " if self.line else ""
        hint = f" {self.suggestion}" if self.suggestion else ""
        return f"{place}{self.key}: found {self.found}; allowed: {self.allowed}.{hint}"


class ConfigError(HostlerError):
    """The settings have mistakes; all of them are here."""

    exit_code = 2

    def __init__(self, path: Path, problems: Iterable[Problem]) -> None:
        self.path = path
        self.problems = sorted(problems, key=lambda problem: (problem.line, problem.key))
        count = len(self.problems)
        super().__init__(
            f"{path} has {count} mistake{'s' if count != 1 else ''}:",
            remedy="`hostler config schema` and docs/reference/configuration.md list every key.",
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
            remedy="Try again; if it stays so, look at that process.",
        )
        self.holder = holder
        self.waited_seconds = waited_seconds


class StoreUnsteady(StoreError):
    """It could not be opened, and a moment later it could."""


class StoreNewer(StoreError):
    """The database was written by a newer Hostler."""


class StoreOutdated(StoreError):
    """The database has an older layout than this program."""


class StoreReadOnly(StoreError):
    """The database cannot be written."""


class StoreFull(StoreError):
    """No space is left for the database."""


class StoreCorrupt(StoreError):
    """The database's content is damaged."""


class StoreUnreachable(StoreError):
    """The database server does not answer or refuses us."""


class StoreConflict(StoreError):
    """A write met a row that is not as the writer expected."""


class CheckoutError(HostlerError):
    """Git, or what an agent left in its checkout, keeps us from going on."""


class HomeLocked(HostlerError):
    """Another process works on this home."""

    def __init__(self, home: object, holder: object | None) -> None:
        super().__init__(
            f"{holder or 'Another process'} works on the home {home}.",
            safe="Nothing was touched.",
            remedy="Wait until it has ended, or stop it.",
        )
        self.holder = holder


class ForgeError(HostlerError):
    """GitHub did not do, or did not clearly do, what was asked."""


class CredentialsMissing(ForgeError):
    """There is no token, key or login to use."""


class Refused(ForgeError):
    """GitHub said no, and did nothing."""

    def __init__(self, request: str, status: int, message: str, *, remedy: str = "") -> None:
        said = message if message.endswith((".", "!", "?")) else f"{message}."
        super().__init__(f"GitHub answered {request} with {status}: {said}", remedy=remedy)
        self.request = request
        self.status = status
        self.message = message


class Unauthorized(Refused):
    """GitHub does not know us."""


class Forbidden(Refused):
    """GitHub knows us, and we may not."""


class NotFound(Refused):
    """It is not there, or hidden from us."""


class Gone(Refused):
    """It was there and will not come back."""


class Conflict(Refused):
    """Its state does not allow it now."""


class Moved(Refused):
    """It is somewhere we do not follow to. `repository_id` is 0 where none was named."""

    def __init__(self, request: str, status: int, location: str, repository_id: int = 0) -> None:
        super().__init__(request, status, f"it is now at {location or 'an unnamed place'}")
        self.location = location
        self.repository_id = repository_id


class Invalid(Refused):
    """What we sent is not acceptable. `fields` holds (field, code, message) as far as named."""

    def __init__(
        self, request: str, status: int, message: str, fields: tuple[tuple[str, str, str], ...] = ()
    ) -> None:
        detail = "; ".join(" ".join(part for part in field if part) for field in fields)
        super().__init__(request, status, f"{message} ({detail})" if detail else message)
        self.fields = fields


class RateLimited(Refused):
    """Asked to wait: the budget of the hour is spent (primary), or we were hasty (secondary).

    A status of 0: GitHub was not even asked, as it would have refused, or to keep a reserve.
    """

    def __init__(self, request: str, status: int, until: datetime, limit: str) -> None:
        wait = f"the {limit} limit is reached; wait until {until:%H:%M:%S} UTC"
        super().__init__(request, status, wait)
        if not status:
            self.what = f"GitHub was not asked for {request}: {wait}."
            self.args = (self.what,)
        self.until = until
        self.limit = limit


class ServerFailed(ForgeError):
    """A read met a failing server, or an answer that cannot be read."""

    def __init__(self, request: str, status: int) -> None:
        failed = f"GitHub failed to answer {request} ({status})."
        strange = f"What GitHub answered to {request} cannot be understood."
        super().__init__(
            failed if status >= 400 else strange,
            safe="Nothing changed.",
            remedy="It is asked again by itself; if it stays so, look at `github.api_url`.",
        )
        self.status = status


class Unreachable(ForgeError):
    """No answer came, and nothing was changed."""

    def __init__(self, request: str, reason: str) -> None:
        super().__init__(
            f"GitHub could not be reached for {request}: {reason}.",
            safe="Nothing was changed there.",
            remedy="Look at the network and at `github.api_url`.",
        )
        self.reason = reason


class Unclear(ForgeError):
    """No clear answer came to a write: perhaps it happened. It must be looked for first."""

    def __init__(self, request: str, reason: str) -> None:
        super().__init__(
            f"It is not clear whether GitHub did {request}: {reason}.",
            safe="It is looked for before it is sent again.",
        )
        self.reason = reason


class GitHubPollingError(ForgeError):
    """A feed could not be read; nothing of it was stored."""

    def __init__(self, repo: str, surface: str, cause: ForgeError) -> None:
        super().__init__(
            f"{surface} of {repo} could not be read. {cause.what}",
            safe="The next poll reads it from the same place.",
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

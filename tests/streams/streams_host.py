"""A host in memory that shows things late, writes moments askew, and changes while it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from fake_forge import FakeForge

from hostler.forge.events import event_key
from hostler.forge.github.payloads import parse_item
from hostler.forge.port import ActionResult, ItemKind, ListReading, SurfaceFeed
from hostler.model import EPOCH, RepoName

START = EPOCH + timedelta(days=20_000)
COMMENT, LINE, REVIEW = ItemKind.ISSUE_COMMENT, ItemKind.REVIEW_COMMENT, ItemKind.REVIEW
Payload = dict[str, Any]
# Kind, thread, event key.
Version = tuple[str, int, str]


class HostClock:
    """The host's time, which no thread waits for: so it can be copied with its world."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> datetime:
        return self.at

    def advance(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@dataclass
class Change:
    """Something that has happened and is not shown yet."""

    due: datetime
    kind: ItemKind
    row: Payload
    # A new thing, or new words for an old one.
    created: bool


@dataclass
class Eyes:
    """What can be seen during one poll: at every moment of it, and at some moment."""

    throughout: frozenset[Version] | None = None
    sometimes: set[Version] = field(default_factory=set)
    asked: set[tuple[SurfaceFeed, int]] = field(default_factory=set)

    def see(self, shown: frozenset[Version]) -> None:
        self.throughout = shown if self.throughout is None else self.throughout & shown
        self.sometimes |= shown


@dataclass
class Host(FakeForge):
    """One repository. `meanwhile` is called between any two pages that are asked for."""

    # How far the moments of changes, and the moment of answers, are off.
    askew: int = 0
    date_askew: int = 0
    unshown: list[Change] = field(default_factory=list)
    # Every thread that was closed or taken over at some time.
    ended: set[int] = field(default_factory=set)
    eyes: Eyes = field(default_factory=Eyes)
    meanwhile: Callable[[], None] | None = None
    _versions: dict[tuple[str, int, str, str], Version] = field(default_factory=dict)

    # -- what people do -----------------------------------------------------------------------

    def moment(self) -> str:
        at = self.clock.now() + timedelta(seconds=self.askew)
        return at.strftime("%Y-%m-%dT%H:%M:%SZ")

    def pass_time(self, seconds: float) -> None:
        assert isinstance(self.clock, HostClock)
        self.clock.advance(seconds)
        due = [change for change in self.unshown if change.due <= self.clock.now()]
        self.unshown = [change for change in self.unshown if change not in due]
        for change in due:
            self._show(change)

    def delay(self, kind: ItemKind, which: int, seconds: int) -> None:
        """Show something new only later, as a host of many machines does."""
        rows = self.rows(kind)
        row = next(row for row in rows if row["id"] == which)
        self._remove(kind, row)
        self.unshown.append(Change(self._later(seconds), kind, row, created=True))

    def reword(self, kind: ItemKind, which: int, body: str, late: int = 0) -> None:
        """Say something differently; whoever reads early still reads the old words."""
        row = dict(next(row for row in self.rows(kind) if row["id"] == which))
        row |= {"body": body, "updated_at": self.moment()}
        change = Change(self._later(late), kind, row, created=False)
        if late:
            self.unshown.append(change)
        else:
            self._show(change)

    def remove(self, kind: ItemKind, which: int) -> None:
        self._remove(kind, next(row for row in self.rows(kind) if row["id"] == which))

    def change(self, number: int, **fields: Any) -> None:
        super().change(number, **fields)
        if fields.get("state") == "closed":
            self.ended.add(number)

    def rows(self, kind: ItemKind) -> list[Payload]:
        """Everything of a kind that is shown."""
        if kind is REVIEW:
            return [row for rows in self.verdicts.values() for row in rows]
        return list(self.remarks(kind).values())

    def _later(self, seconds: int) -> datetime:
        return self.clock.now() + timedelta(seconds=seconds)

    def _show(self, change: Change) -> None:
        kind, row = change.kind, change.row
        if kind is REVIEW:
            number = self._thread(kind, row)
            rows = self.verdicts.setdefault(number, [])
            kept = [one for one in rows if one["id"] != row["id"]]
            if change.created or len(kept) < len(rows):
                self.verdicts[number] = [*kept, row]
            return
        rows_by_id = self.remarks(kind)
        present = rows_by_id.get(row["id"])
        if change.created or (present and present["updated_at"] <= row["updated_at"]):
            rows_by_id[row["id"]] = row

    def _remove(self, kind: ItemKind, row: Payload) -> None:
        if kind is REVIEW:
            number = self._thread(kind, row)
            self.verdicts[number] = [one for one in self.verdicts[number] if one is not row]
        else:
            del self.remarks(kind)[row["id"]]

    def review(self, number: int, state: str, body: str, *, by: str) -> int:
        made = super().review(number, state, body, by=by)
        url = f"https://stub.example/pulls/{number}"
        self.verdicts[number][-1]["pull_request_url"] = url
        return made

    # -- the port, and what is seen through it ------------------------------------------------

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.date_askew)

    def changes(self, feed: SurfaceFeed, since: datetime | None, **how: Any) -> ListReading:
        self.eyes.asked.add((feed, how.get("number", 0)))
        return super().changes(feed, since, **how)

    def push(self, branch: str) -> None:
        """An agent's work arrives."""
        self.branches[branch] = "1" * 40

    def perform(self, deed: Any, *, token: str) -> ActionResult:
        made = super().perform(deed, token=token)
        self.eyes.see(self.shown_now())
        return made

    def watch(self) -> Eyes:
        """Begin to note what can be seen."""
        self.eyes = Eyes()
        self.eyes.see(self.shown_now())
        return self.eyes

    def _count(self) -> None:
        super()._count()
        if self.meanwhile is not None:
            self.meanwhile()
            self.eyes.see(self.shown_now())

    def shown_now(self) -> frozenset[Version]:
        """Every version of people's words that can be seen now."""
        kinds = (COMMENT, LINE, REVIEW)
        return frozenset(self._version(kind, row) for kind in kinds for row in self.rows(kind))

    def _version(self, kind: ItemKind, row: Payload) -> Version:
        said = (kind.value, row["id"], row["updated_at"], f"{row['body']}{row.get('state')}")
        if said not in self._versions:
            number = self._thread(kind, row)
            version = (kind.value, number, event_key(parse_item(kind, dict(row), number)))
            self._versions[said] = version
        return self._versions[said]

    def _thread(self, kind: ItemKind, row: Payload) -> int:
        url = row["issue_url"] if kind is COMMENT else row["pull_request_url"]
        return int(url.rpartition("/")[2])


def new_host() -> Host:
    return Host(HostClock(), RepoName("octo", "stable"))  # type: ignore[arg-type]

"""The port `Forge` on a repository in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from hostler.errors import ForgeError
from hostler.forge import payloads
from hostler.forge.deeds import Deed
from hostler.forge.port import (
    Blocking,
    Cost,
    Feed,
    Issue,
    Item,
    ItemKind,
    Made,
    Reading,
    Repository,
)
from hostler.forge.stub.acting import act, look
from hostler.forge.stub.world import World


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with a write, before or after it has had its effect."""

    error: ForgeError
    after_effect: bool = False


@dataclass
class Stub(World):
    """A forge. Put into `faults` what shall go wrong, one per coming write."""

    login: str = "hostler-bot"
    faults: list[Fault] = field(default_factory=list)
    made: list[tuple[str, Deed]] = field(default_factory=list)

    def myself(self) -> str:
        return self.login

    def now(self) -> datetime:
        return self.clock.now().replace(microsecond=0)

    def cost(self) -> Cost:
        return Cost(0, None)

    def renamed(self) -> bool:
        return False

    def repository(self) -> Repository:
        return Repository(1, self.name, "main", private=False, can_push=True)

    def issue(self, number: int) -> Issue:
        return payloads.issue(self.one(self.issues, number))

    def pull(self, number: int) -> Item:
        return payloads.item(ItemKind.PULL, dict(self.one(self.pulls, number)))

    def reviews(self, number: int) -> list[Item]:
        self.one(self.pulls, number)
        found = self.verdicts.get(number, [])
        return [payloads.item(ItemKind.REVIEW, dict(one), number) for one in found]

    def remark(self, kind: ItemKind, comment_id: int) -> Item | None:
        found = self.remarks(kind).get(comment_id)
        return payloads.item(kind, dict(found)) if found else None

    def thread(self, number: int) -> list[Item]:
        self.one(self.issues, number)
        found = (payloads.item(ItemKind.ISSUE_COMMENT, dict(one)) for one in self.comments.values())
        return [item for item in found if item.number == number]

    def labellers(self, number: int) -> dict[str, str]:
        return {label: by for (where, label), by in self.labelled.items() if where == number}

    def blocked_by(self, number: int) -> list[Blocking]:
        return [payloads.blocking(one) for one in self.blockers.get(number, [])]

    def labels(self) -> frozenset[str]:
        return frozenset(self.known_labels)

    def changes(self, feed: Feed, since: datetime | None, *, only_open: bool = False) -> Reading:
        rows, kind = {
            Feed.ISSUES: (self.issues, ItemKind.ISSUE),
            Feed.ISSUE_COMMENTS: (self.comments, ItemKind.ISSUE_COMMENT),
            Feed.REVIEW_COMMENTS: (self.review_comments, ItemKind.REVIEW_COMMENT),
        }[feed]
        start = since.strftime("%Y-%m-%dT%H:%M:%SZ") if since else ""
        found = [
            payloads.item(kind, dict(row))
            for row in rows.values()
            if row["updated_at"] >= start and not (only_open and row["state"] == "closed")
        ]
        return Reading(tuple(sorted(found, key=lambda item: (item.updated_at, item.id))))

    def make(self, deed: Deed, *, key: str) -> Made:
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None and not fault.after_effect:
            raise fault.error
        done = act(self, self.login, deed, key)
        self.made.append((key, deed))
        if fault is not None:
            raise fault.error
        return done

    def find(self, deed: Deed, *, key: str, since: datetime) -> Made | None:
        return look(self, self.login, deed, key, since.strftime("%Y-%m-%dT%H:%M:%SZ"))

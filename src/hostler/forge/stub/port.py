"""The port `Forge` on a repository in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from hostler.errors import ForgeError
from hostler.forge import payloads
from hostler.forge.changing import since_text
from hostler.forge.ci import Job
from hostler.forge.deeds import Deed
from hostler.forge.port import (
    Blocking,
    Chain,
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
from hostler.forge.stub.listing import Asked, listed
from hostler.forge.stub.world import World
from hostler.model import RepoName


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
    requests: int = 0

    def myself(self) -> str:
        return self.login

    def now(self) -> datetime:
        return self.clock.now().replace(microsecond=0)

    def cost(self) -> Cost:
        return Cost(self.requests, None)

    def renamed(self) -> bool:
        return False

    def repository(self) -> Repository:
        return Repository(1, self.name, "main", private=False, can_push=True)

    def name_of(self, number: int) -> RepoName | None:
        return self.name if number == self.repository().id else None

    def issue(self, number: int) -> Issue:
        return payloads.issue(self.one(self.issues, number))

    def pull(self, number: int) -> Item:
        return self.changes(Feed.PULL, None, number=number).items[0]

    def reviews(self, number: int) -> list[Item]:
        return list(self.changes(Feed.REVIEWS, None, number=number).items)

    def remark(self, kind: ItemKind, comment_id: int) -> Item | None:
        found = self.remarks(kind).get(comment_id)
        return payloads.item(kind, dict(found)) if found else None

    def thread(self, number: int) -> list[Item]:
        found = self.changes(Feed.THREAD_COMMENTS, None, number=number).items
        return sorted(found, key=lambda item: item.id)

    def labellers(self, number: int) -> dict[str, str]:
        return {label: by for (where, label), by in self.labelled.items() if where == number}

    def blocked_by(self, number: int) -> list[Blocking]:
        return [payloads.blocking(one) for one in self.blockers.get(number, [])]

    def labels(self) -> frozenset[str]:
        return frozenset(self.known_labels)

    def changes(
        self,
        feed: Feed,
        since: datetime | None,
        *,
        number: int = 0,
        only_open: bool = False,
        known: Chain = (),
        one_page: bool = False,
    ) -> Reading:
        asked = Asked(feed, since_text(since), number, only_open, known, one_page)
        return listed(self, asked, self._count)

    def workflow_run(self, run_id: int) -> Item | None:
        found = self.runs.get(run_id)
        return payloads.item(ItemKind.WORKFLOW_RUN, dict(found)) if found else None

    def runs_of(self, head_sha: str, *, known: Chain = ()) -> Reading:
        asked = Asked(Feed.WORKFLOW_RUNS, known=known, one_page=True, head_sha=head_sha)
        return listed(self, asked, self._count)

    def failed_jobs(self, run_id: int) -> list[Job]:
        run = self.one(self.runs, run_id)
        job = Job(run_id, "build", str(run["conclusion"] or ""))
        return [job] if job.failed else []

    def job_log(self, job_id: int) -> str:
        return self.logs.get(job_id, "")

    def _count(self) -> None:
        self.requests += 1

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

"""What polls cost by the sandbox's ledger: quiet, with one comment, idle, after a day, in a fleet.

The sandbox runs in a process of its own, and both clocks are moved by hand. Every number of
requests is of real polls; the fleet is polled for an hour.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from bench.harness import Figures
from hostler.clock import FakeClock, SystemClock
from hostler.forge.github.client.transport import HttpTransport
from hostler.forge.github.hub import GitHubHub
from hostler.forge.github.polling.context import PollContext
from hostler.forge.github.polling.full_scan import read_everything
from hostler.forge.github.polling.poller import Poller, PollPlan
from hostler.forge.github.rate_limit.accounts import RateLimitAccounts
from hostler.forge.github.rate_limit.limits import RequestCaps
from hostler.model import RepoName
from hostler.sandbox.auth import token_for
from hostler.store import Patience, Store, open_store
from hostler.store.admin.migrate import upgrade
from hostler.store.engine.backend import find_place
from hostler.store.pull_requests import PullRow, PullStatus, add_pull

CONTEXT = multiprocessing.get_context("spawn")
US, PERSON = "bot", "alice"
HOUR, MINUTE = 3600, 60
QUIET_POLLS = 24
CASES = {"10pr_1000c": (10, 2, 1000), "10pr_10000c": (10, 2, 10_000), "200pr_1000c": (200, 2, 1000)}
LENGTHS = (100, 1000, 10_000)
CHANGES = (0, 100, 1000)
ACTIVE, IDLE, ROUNDS = 30, 270, 60
WITHOUT_LIMITS = dict.fromkeys(
    (
        "primary_limit",
        "points_per_minute",
        "concurrent_limit",
        "creations_per_minute",
        "creations_per_hour",
    ),
    0,
)


def run() -> Figures:
    """Every figure that the feeds promise."""
    with _host() as host:
        figures: dict[str, Any] = {}
        for name, (pulls, blocked, comments) in CASES.items():
            print(f"  {name} ...", flush=True)
            figures[name] = _case(host, pulls, blocked, comments)
        quiet = {
            f"quiet_{what}": {name: figures[name][what] for name in CASES}
            for what in ("requests", "primary_cost", "comments_fetched")
        }
        more = {
            key: {name: figures[name][key] for name in CASES}
            for key in (
                "full_scan_requests",
                "per_thread_formula_requests",
                "new_comment_extra_requests",
                "cpu_ms_per_quiet_poll",
            )
        }
        flat = {f"{length}c": _case(host, 1, 0, length)["requests"] for length in LENGTHS}
        return {
            **quiet,
            **more,
            "quiet_requests_1pr_by_length": flat,
            "quiet_requests_after_200_pulls_in_one_second": _burst(host),
            "idle_repo_requests_per_poll": _idle(host),
            "outage_day_requests": {f"{count}_changes": _outage(host, count) for count in CHANGES},
            **_fleet(host),
        }


# -- one repository that is polled ------------------------------------------------------------


@dataclass
class Spent:
    """What one poll asked for, by the ledger, and the time of its own process."""

    rows: list[dict[str, Any]]
    cpu_ms: float

    @property
    def requests(self) -> int:
        return len(self.rows)

    @property
    def primary(self) -> int:
        return sum(row["primary"] for row in self.rows)

    @property
    def comments_fetched(self) -> int:
        """Answers with content of lists of comments; none means that no comment came."""
        talk = [row for row in self.rows if row["path"].endswith(("/comments", "/reviews"))]
        return sum(row["status"] == 200 for row in talk)


class Home:
    """One home that polls one repository of the host."""

    def __init__(self, host: Host, store: Store, name: RepoName, **plan: Any) -> None:
        self.host, self.store, self.name = host, store, name
        self.plan = PollPlan(**plan)
        self.wake()

    def wake(self) -> None:
        """A new service, which remembers what is stored."""
        forge = self.host.hub.repo(self.name)
        self.poller = Poller(PollContext(self.store, forge, self.name), self.plan)

    def follow(self, number: int, status: PullStatus = PullStatus.AWAITING_FEEDBACK) -> None:
        row = PullRow(str(self.name), number, 1, f"task-{number}", "topic", status)
        with self.store.write() as tx:
            add_pull(tx, row)

    def poll(self, seconds: float = MINUTE) -> Spent:
        """One poll, so much later."""
        self.host.pass_time(seconds)
        self.host.forget()
        before = time.process_time()
        self.poller.poll()
        cpu = (time.process_time() - before) * 1000
        return Spent(self.host.ledger(), cpu)

    def settle(self) -> None:
        """Poll until everything is read and every address is known: until nothing costs."""
        quiet = 0
        while quiet < QUIET_POLLS // 2 + 1:
            quiet = quiet + 1 if not self.poll().primary else 0


def _case(host: Host, pulls: int, blocked: int, comments: int) -> dict[str, Any]:
    """The worst of some quiet polls, an hour after the last word; and what one word more costs."""
    with _home(host) as home:
        numbers = host.pulls(home.name, pulls)
        for place, number in enumerate(numbers):
            host.chatter(home.name, number, comments)
            stuck = PullStatus.BLOCKED if place < blocked else PullStatus.AWAITING_FEEDBACK
            home.follow(number, stuck)
        host.pass_time(HOUR)
        home.settle()
        spent = [home.poll() for _ in range(QUIET_POLLS)]
        worst = max(one.requests for one in spent)
        host.say(home.name, numbers[-1])
        told = home.poll().requests
        return {
            "requests": worst,
            "primary_cost": max(one.primary for one in spent),
            "comments_fetched": max(one.comments_fetched for one in spent),
            "cpu_ms_per_quiet_poll": median(one.cpu_ms for one in spent),
            "new_comment_extra_requests": told - worst,
            "full_scan_requests": _full_scan(host, home, numbers),
            "per_thread_formula_requests": _formula(pulls - blocked, blocked, comments),
        }


def _burst(host: Host) -> int:
    """The worst quiet poll after as much has happened at once as does not fit on one page."""
    with _home(host) as home:
        for number in host.pulls(home.name, 200, apart=0):
            home.follow(number)
        host.pass_time(HOUR)
        home.settle()
        return max(home.poll().requests for _ in range(QUIET_POLLS))


def _formula(pulls: int, blocked: int, comments: int) -> int:
    """What polling thread by thread would ask for."""
    threads = pulls + blocked
    return 3 + 10 * threads + 4 * blocked + 1 + (threads + blocked) * (comments // 100)


def _full_scan(host: Host, home: Home, pulls: list[int]) -> int:
    """What a poll would ask for without feeds; what it reads is not stored."""
    host.forget()
    read_everything(PollContext(home.store, host.hub.repo(home.name), home.name), pulls, ())
    return len(host.ledger())


def _idle(host: Host) -> float:
    """A repository without pull requests of ours, over twenty polls."""
    with _home(host) as home:
        host.issue(home.name)
        host.pass_time(HOUR)
        home.settle()
        return sum(home.poll().requests for _ in range(20)) / 20


def _outage(host: Host, changes: int) -> int:
    """The first poll after a day away in which so many comments were written."""
    with _home(host) as home:
        numbers = host.pulls(home.name, 10)
        for number in numbers:
            host.chatter(home.name, number, 100)
            home.follow(number)
        host.pass_time(HOUR)
        home.settle()
        host.pass_time(24 * HOUR)
        for number in numbers if changes else ():
            host.chatter(home.name, number, changes // 10, days_ago=0)
        home.wake()
        return home.poll().requests


# -- many repositories ------------------------------------------------------------------------


def _fleet(host: Host) -> dict[str, Any]:
    """Thirty active repositories and 270 idle ones, quiet, polled every minute."""
    with ExitStack() as stack:
        store = stack.enter_context(_store(host.clock))
        homes = [Home(host, store, host.repo()) for _ in range(ACTIVE + IDLE)]
        for home in homes:
            host.issue(home.name)
        for home in homes[:ACTIVE]:
            (number,) = host.pulls(home.name, 1)
            home.follow(number)
        host.pass_time(HOUR)
        rounds = [_round(host, homes) for _ in range(ROUNDS)]
        points = [sum(row["secondary"] for row in rows) for rows in rounds]
        # The first two minutes read what there is: once for all, and once more for its tags.
        return {
            "points_per_minute_300_repos": max(points[2:]),
            "points_per_minute_300_repos_on_average": sum(points[2:]) / len(points[2:]),
            "points_in_the_first_two_minutes_300_repos": points[:2],
            "primary_per_hour_300_repos": sum(row["primary"] for rows in rounds for row in rows),
        }


def _round(host: Host, homes: list[Home]) -> list[dict[str, Any]]:
    """Every repository is polled once, within a minute."""
    host.pass_time(MINUTE)
    host.forget()
    for home in homes:
        home.poller.poll()
    return host.ledger()


# -- the host, in a process of its own --------------------------------------------------------


@dataclass
class Host:
    """A sandbox far away: everything that people do there, and its ledger."""

    url: str
    pipe: Connection
    clock: FakeClock
    hub: GitHubHub
    made: list[RepoName] = field(default_factory=list)

    def repo(self) -> RepoName:
        """A new repository of alice's in which we may write."""
        name = RepoName(PERSON, f"repo{len(self.made)}")
        self.made.append(name)
        access = {US: "write"}
        self._control("POST", "/seed", {"repos": [{"name": str(name), "collaborators": access}]})
        return name

    def issue(self, name: RepoName) -> int:
        return int(self._do(name, "POST", "issues", title="something")["number"])

    def say(self, name: RepoName, number: int) -> None:
        self._do(name, "POST", f"issues/{number}/comments", body="a word more")

    def pulls(self, name: RepoName, count: int, apart: float = MINUTE) -> list[int]:
        """Pull requests, all of the same commit: git's own work is not what is measured."""
        base = self._do(name, "GET", "git/ref/heads/main")["object"]["sha"]
        self._do(name, "POST", "git/refs", ref="refs/heads/b0", sha=base)
        text = {"message": "Add", "content": "aGVsbG8K", "branch": "b0"}
        head = self._do(name, "PUT", "contents/b0.txt", **text)["commit"]["sha"]
        for place in range(1, count):
            self._do(name, "POST", "git/refs", ref=f"refs/heads/b{place}", sha=head)
        opened: list[int] = []
        for place in range(count):
            self.pass_time(apart)
            made = self._do(name, "POST", "pulls", title="Add", head=f"b{place}", base="main")
            opened.append(int(made["number"]))
        return opened

    def chatter(self, name: RepoName, number: int, count: int, days_ago: int = 3) -> None:
        """So many comments, said over the twenty hours before some days ago."""
        self.pipe.send((str(name), number, count, days_ago))
        self.pipe.recv()

    def pass_time(self, seconds: float) -> None:
        self._control("POST", "/clock", {"advance": seconds})
        self.clock.advance(seconds)

    def forget(self) -> None:
        self._control("DELETE", "/ledger")

    def ledger(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._control("GET", "/ledger?limit=100000")["entries"]
        return found

    def _do(self, name: RepoName, method: str, path: str, **fields: Any) -> Any:
        headers = {"Authorization": f"Bearer {token_for(PERSON)}", "User-Agent": "bench"}
        url = f"/repos/{name}/{path}"
        return self._ask(method, url, fields or None, headers)

    def _control(self, method: str, path: str, fields: Any = None) -> Any:
        return self._ask(method, f"/_sandbox{path}", fields, {})

    def _ask(self, method: str, path: str, fields: Any, headers: dict[str, str]) -> Any:
        answer = self.client.request(method, path, json=fields, headers=headers)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def __post_init__(self) -> None:
        self.client = httpx.Client(base_url=self.url, trust_env=False, timeout=60)


class Known:
    """Credentials that need not be asked for."""

    def get_secret(self, repo: RepoName) -> str:  # noqa: ARG002
        return token_for(US)

    def renew(self, stale: str) -> bool:  # noqa: ARG002
        return False

    def login(self) -> str:
        return US

    def account(self, repo: RepoName) -> str:  # noqa: ARG002
        return "known"


@contextmanager
def _host() -> Iterator[Host]:
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=_serve, args=(theirs,))
    process.start()
    theirs.close()
    url, now = ours.recv()
    clock = FakeClock(datetime.fromtimestamp(now, UTC))
    # Costs are counted here, not kept below a limit: a full scan would be refused half-way.
    budget = RateLimitAccounts(clock, RequestCaps(points_per_minute=1 << 30))
    hub = GitHubHub(HttpTransport(url, clock, budget=budget), Known(), clock, pauses=(0.0, 0.0))
    host = Host(url, ours, clock, hub)
    try:
        yield host
    finally:
        hub.close()
        host.client.close()
        ours.close()
        process.join()


def _serve(pipe: Connection) -> None:
    """A sandbox without limits, whose clock stands still, until the pipe ends."""
    from hostler.sandbox.server import running

    seed = {"users": [{"login": US}, {"login": PERSON}]}
    with running(seed, git=True, **WITHOUT_LIMITS) as sandbox:
        sandbox.control.post("/clock", json={"frozen": True}).raise_for_status()
        pipe.send((sandbox.url, sandbox.app.world.clock.now()))
        while True:
            try:
                wanted = pipe.recv()
            except EOFError:
                return
            # No request is under way.
            _seed(sandbox.app.world, *wanted)
            pipe.send("done")


def _seed(world: Any, name: str, number: int, count: int, days_ago: int) -> None:
    from hostler.sandbox.state.entities import Issue
    from hostler.sandbox.state.seed import Seeder

    seeder, repo, span = Seeder(world), world.repo(name), 20 * HOUR
    begun = world.now() - 24 * HOUR * days_ago - span
    issues = (one for one in world.truth.all(Issue) if one.repo_id == repo.id)
    issue = next(one for one in issues if one.number == number)
    with world.hiding(0):
        for place in range(count):
            at = begun + place * span // count
            seeder.comment(issue, PERSON, f"word {place}", created_at=at, updated_at=at)


@contextmanager
def _home(host: Host) -> Iterator[Home]:
    with _store(host.clock) as store:
        yield Home(host, store, host.repo())


@contextmanager
def _store(clock: FakeClock) -> Iterator[Store]:
    patience = Patience(queue_seconds=60.0, begin_seconds=60.0)
    quiet: Callable[[int, int], None] = lambda _done, _total: None  # noqa: E731
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        place = find_place(home)
        upgrade(home, place, clock=SystemClock(), patience=patience, progress=quiet)
        with closing(open_store(home, clock=clock, patience=patience)) as store:
            yield store

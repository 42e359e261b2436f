"""One service for many repositories: cadence with busy workers, a quiet turn, comment to start.

The sandbox and the service are processes of their own; agents are real ones under shims.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx

from bench.harness import Figures
from hostler.sandbox.auth import token_for

CONTEXT = multiprocessing.get_context("spawn")
US, PERSON, LABEL = "bot", "alice", "agent:small-job"
SECRET = "a secret of the bench"
MANY, INTERVAL, ROUNDS, WORKERS = 50, 10, 20, 4
FLEET, PULLS, QUIET_SECONDS = 200, 1000, 90
WORDS, WORD_INTERVAL, DAY = 6, 5, 86_400
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
PLAY = """
version = 1

[[scene]]
when = { flow = "feedback" }
steps = [{ result = { status = "done", reply_each = "Seen." } }]

[[scene]]
steps = [
  { write = { path = "notes.md", text = "Notes\\n" } },
  { result = { status = "done", summary = "Wrote notes.", pr_title = "Add notes" } },
]
"""


def run() -> Figures:
    """Every figure that the scheduler promises."""
    return {**_cadence(), **_quiet(), **_words()}


# -- the three questions ----------------------------------------------------------------------


def _cadence() -> dict[str, Any]:
    """Fifty repositories every ten seconds, with every worker busy for hours."""
    with _host([f"{PERSON}/r{n}" for n in range(MANY)]) as host:
        runtime = {"poll_interval_seconds": INTERVAL, "worker_count": WORKERS}
        with _service(host, runtime, agent=["sleep", "3600"], tasks=WORKERS) as service:
            service.wait_for("admitted", WORKERS)
            time.sleep(INTERVAL * (ROUNDS + 2))
            steps = service.report()["steps"]
    looks: dict[str, list[float]] = {}
    for at, step, about in steps:
        if step == "scanned":
            looks.setdefault(about, []).append(at)
    # The first looks all begin at the start; what is asked is the rhythm after it.
    gaps = [b - a for times in looks.values() for a, b in pairwise(times[1:])]
    ratios = sorted(gap / INTERVAL for gap in gaps)
    return {
        "cadence_p99_ratio": quantiles(ratios, n=100)[98],
        "cadence_p50_ratio": median(ratios),
        "cadence_worst_ratio": ratios[-1],
        "cadence_rounds": min(len(times) for times in looks.values()),
        "cadence_repositories": len(looks),
    }


def _quiet() -> dict[str, Any]:
    """Two hundred repositories with five pull requests each, and nobody says anything."""
    names = [f"{PERSON}/r{n}" for n in range(FLEET)]
    with _host(names) as host:
        pulls = [(name, number) for name in names for number in host.pulls(name, PULLS // FLEET)]
        with _service(host, {"poll_interval_seconds": 30}, pulls=pulls) as service:
            service.wait_for("heard", FLEET)
            first = len(service.report()["turns"])
            time.sleep(QUIET_SECONDS)
            told = service.report()
    turns = told["turns"][first:]
    return {
        "turn_cpu_ms": median(turns) * 1000,
        "turn_cpu_p99_ms": quantiles(turns, n=100)[98] * 1000,
        "turns_in_quiet": len(turns),
        "rss_mb": told["rss_mb"],
    }


def _words() -> dict[str, Any]:
    """From a comment on a pull request to its agent's place; by polls, and by a webhook."""
    polled = _answers(WORD_INTERVAL, [WORD_INTERVAL * n / WORDS for n in range(WORDS)])
    hooked = _answers(DAY, [0.1 * n for n in range(WORDS)], hook=True)
    return {
        "comment_interval_s": WORD_INTERVAL,
        "comment_to_start_s": max(polled),
        "webhook_to_start_s": max(hooked),
    }


def _answers(interval: int, pauses: list[float], *, hook: bool = False) -> list[float]:
    name = f"{PERSON}/r0"
    runtime = {"poll_interval_seconds": interval}
    with _host([name]) as host, _service(host, runtime, hook=hook) as service:
        if hook:
            host.hook(name, service.port)
        pull = service.first_pull(name)
        return [service.answer_to(name, pull, pause) for pause in pauses]


# -- the sandbox ------------------------------------------------------------------------------


@dataclass
class Host:
    """A sandbox far away, and what people do there."""

    url: str
    names: list[str]
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        headers = {"Authorization": f"Bearer {token_for(PERSON)}", "User-Agent": "bench"}
        self.client = httpx.Client(
            base_url=self.url, headers=headers, trust_env=False, timeout=60.0
        )

    def do(self, name: str, method: str, path: str, **fields: Any) -> Any:
        answer = self.client.request(method, f"/repos/{name}/{path}", json=fields or None)
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def pulls(self, name: str, count: int) -> list[int]:
        """Pull requests, all of the same commit: git's own work is not what is measured."""
        base = self.do(name, "GET", "git/ref/heads/main")["object"]["sha"]
        self.do(name, "POST", "git/refs", ref="refs/heads/b0", sha=base)
        text = {"message": "Add", "content": "aGVsbG8K", "branch": "b0"}
        head = self.do(name, "PUT", "contents/b0.txt", **text)["commit"]["sha"]
        for place in range(1, count):
            self.do(name, "POST", "git/refs", ref=f"refs/heads/b{place}", sha=head)
        opened = [
            self.do(name, "POST", "pulls", title="Add", head=f"b{place}", base="main")
            for place in range(count)
        ]
        return [int(one["number"]) for one in opened]

    def hook(self, name: str, port: int) -> None:
        url = f"http://127.0.0.1:{port}/webhook"
        config = {"url": url, "content_type": "json", "secret": SECRET}
        events = ["issues", "issue_comment", "pull_request"]
        self.do(name, "POST", "hooks", config=config, events=events)


@contextmanager
def _host(names: list[str]) -> Iterator[Host]:
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=_serve_host, args=(theirs, names))
    process.start()
    theirs.close()
    host = Host(ours.recv(), names)
    try:
        yield host
    finally:
        host.client.close()
        ours.close()
        process.join()


def _serve_host(pipe: Connection, names: list[str]) -> None:
    from hostler.sandbox.server import running

    repos = [
        {"name": name, "auto_init": True, "collaborators": {US: "write"}, "labels": [LABEL]}
        for name in names
    ]
    seed = {"users": [{"login": US}, {"login": PERSON}], "repos": repos}
    with running(seed, git=True, **WITHOUT_LIMITS) as sandbox:
        pipe.send(sandbox.url)
        _until_end(pipe)


def _until_end(pipe: Connection) -> None:
    try:
        pipe.recv()
    except EOFError:
        return


# -- the service ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    """What a service has to do. `pulls` are followed from the start, `tasks` are by hand."""

    folder: str
    url: str
    names: list[str]
    runtime: dict[str, Any]
    agent: list[str]
    tasks: int
    pulls: list[tuple[str, int]]
    hook: bool


class Service:
    """A service in a process of its own."""

    def __init__(self, pipe: Connection, host: Host) -> None:
        self._pipe = pipe
        self._host = host
        self.port: int = pipe.recv()

    def report(self) -> dict[str, Any]:
        """Turns, steps and memory until now."""
        self._pipe.send("report")
        told: dict[str, Any] = self._pipe.recv()
        return told

    def wait_for(self, step: str, count: int) -> None:
        """Until a step was taken so many times."""
        self._until(lambda steps: sum(one[1] == step for one in steps) >= count)

    def first_pull(self, name: str) -> int:
        """An issue's pull request, when its agent and all writes are through."""
        before = len(self.report()["steps"])
        issue = {"title": "Notes", "body": "Please.", "labels": [LABEL]}
        self._host.do(name, "POST", "issues", **issue)
        self._until(lambda steps: any(one[1] == "ended" for one in steps[before:]))
        pulls: list[Any] = []
        while not pulls:
            pulls = self._host.do(name, "GET", "pulls")
            time.sleep(0.1)
        return int(pulls[0]["number"])

    def answer_to(self, name: str, pull: int, after: float) -> float:
        """Seconds from a comment to the place of the agent that answers it."""
        time.sleep(after)
        before = len(self.report()["steps"])
        self._host.do(name, "POST", f"issues/{pull}/comments", body="Shorter, please.")
        said = time.monotonic()
        steps = self._until(lambda found: any(one[1] == "ended" for one in found[before:]))
        begun = next(at for at, step, _ in steps[before:] if step == "admitted")
        return float(begun - said)

    def _until(self, seen: Callable[[list[Any]], bool]) -> list[Any]:
        end = time.monotonic() + 180
        while time.monotonic() < end:
            steps: list[Any] = self.report()["steps"]
            if seen(steps):
                return steps
            time.sleep(0.05)
        raise TimeoutError(f"the service does not come that far: {steps[-5:]}")


@contextmanager
def _service(
    host: Host,
    runtime: dict[str, Any],
    *,
    agent: list[str] | None = None,
    tasks: int = 0,
    pulls: list[tuple[str, int]] | None = None,
    hook: bool = False,
) -> Iterator[Service]:
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = CONTEXT.Pipe()
        more = (agent or [], tasks, pulls or [], hook)
        order = Order(folder, host.url, host.names, runtime, *more)
        process = CONTEXT.Process(target=_serve, args=(theirs, order))
        process.start()
        theirs.close()
        try:
            yield Service(ours, host)
        finally:
            ours.close()
            process.join()


def _serve(pipe: Connection, order: Order) -> None:
    import os

    import psutil  # type: ignore[import-untyped]

    from hostler.clock import SystemClock
    from hostler.service.context import open_context
    from hostler.service.polling.webhooks import receive_webhooks
    from hostler.service.runner import ServiceRunner
    from hostler.service.service_log import ServiceLog
    from hostler.service.tasks.summary import TaskFollower
    from hostler.telemetry.logs import LogDestinations

    os.environ["BENCH_HOOK"] = SECRET
    folder, clock = Path(order.folder), SystemClock()
    turns: list[float] = []
    steps: list[tuple[float, str, str]] = []

    class Measured(ServiceRunner):
        """Knows what each turn took of the processor, on the scheduler's own thread."""

        def _turn(self) -> float | None:
            before = time.thread_time()
            seconds = super()._turn()
            # As `hostler service` does after each turn.
            follower.report_changes()
            turns.append(time.thread_time() - before)
            return seconds

    settings = _settings(order)
    logging = LogDestinations(clock, folder / "logs")
    with open_context(folder, settings, clock) as app:
        _fill(app.store, order)

        def observe(step: str, about: str) -> None:
            steps.append((time.monotonic(), step, about))

        follower = TaskFollower(app.store, lambda _: None)
        runner = Measured(app, clock, ServiceLog(logging.log), observe=observe)
        thread = threading.Thread(target=runner.run)
        with receive_webhooks(
            settings.github, runner.poll_repository_soon, lambda _: None
        ) as receiver:
            thread.start()
            pipe.send(receiver.port if receiver else 0)
            for _ in iter(lambda: _asked(pipe), False):
                rss = psutil.Process().memory_info().rss / 2**20
                pipe.send({"turns": turns, "steps": steps, "rss_mb": rss})
            runner.leave(stop_agents=True)
            thread.join()
    logging.close()
    sys.stdout.flush()
    os._exit(0)


def _asked(pipe: Connection) -> bool:
    try:
        pipe.recv()
    except EOFError:
        return False
    return True


def _settings(order: Order) -> Any:
    from hostler.config.settings import Agent, GitHub, Repo, Runtime, Settings

    folder = Path(order.folder)
    token = folder / "token"
    token.write_text(token_for(US))
    token.chmod(0o600)
    (folder / "play.toml").write_text(PLAY)
    scripted: dict[str, Any] = {"kind": "scripted", "script": str(folder / "play.toml")}
    command: dict[str, Any] = {"kind": "command", "command": order.agent}
    hook: dict[str, Any] = {"webhook_listen": "127.0.0.1:0", "webhook_secret_env": "BENCH_HOOK"}
    github = GitHub(
        api_url=order.url,
        web_url=order.url,
        token_file=str(token),
        **(hook if order.hook else {}),
    )
    repos = [name.split("/") for name in order.names]
    return Settings(
        github=github,
        runtime=Runtime(memory_floor_mb=0, **order.runtime),
        repo={n: Repo(owner=owner, name=n, allowed_users=[PERSON]) for owner, n in repos},
        agent={"helper": Agent(**(command if order.agent else scripted))},
    )


def _fill(store: Any, order: Order) -> None:
    """Pull requests that are followed, of which all was said before, and tasks by hand."""
    from dataclasses import replace

    from hostler.store.pull_requests import PullRow, PullStatus, add_pull
    from hostler.store.tasks import Flow, Task, TaskState, add_task
    from hostler.workflows.manual_tasks import TaskSubmission as Wanted
    from hostler.workflows.manual_tasks import submit_task
    from hostler.workflows.status_comment import render_status_comment, text_digest

    with store.write("tasks", "admission", "outbox") as tx:
        for place, (name, number) in enumerate(order.pulls, start=1):
            task = Task(
                id=f"old-{place}",
                project=name.partition("/")[2],
                repo_full_name=name,
                issue_number=10_000 + place,
                pr_number=number,
                flow=Flow.BUGFIX,
                title="Add",
                author=PERSON,
                state=TaskState.AWAITING_FEEDBACK,
                state_since=tx.stamp(),
                order=place,
                attempt=1,
            )
            add_task(tx, replace(task, status_digest=text_digest(render_status_comment(task))))
            waiting = PullStatus.AWAITING_FEEDBACK
            add_pull(tx, PullRow(name, number, 10_000 + place, task.id, "topic", waiting))
        for place in range(order.tasks):
            submit_task(tx, Wanted(f"by-hand-{place}", "Work", PERSON, cwd=order.folder))

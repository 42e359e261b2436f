"""A town: a GitHub with people, real git, real shims and agents, and our service in the middle."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, TypeVar

from intake_yard import lay_database

from hostler.checkouts.process import allow_children
from hostler.clock import Clock, SystemClock
from hostler.config.settings import Agent, GitHub, Repo, Runtime, Settings, Tasks
from hostler.sandbox.auth import token_for
from hostler.sandbox.server import Running, running
from hostler.service.context import AppContext, open_context
from hostler.service.runner import ServiceRunner
from hostler.service.running.run_hooks import ignore_step
from hostler.service.service_log import ServiceLog
from hostler.service.wiring import ServiceMode
from hostler.store.runs import Run, open_runs, runs_of
from hostler.store.tasks import Task, TaskState, tasks_in
from hostler.telemetry.logs import LogDestinations

US, ALICE, BOB, EVE = "hostler-bot", "alice", "bob", "eve"
REPO = "alice/stable"
PATIENCE = 60.0
NO_LIMITS = {
    "primary_limit": 0,
    "anonymous_limit": 0,
    "installation_limit": 0,
    "points_per_minute": 0,
    "creations_per_minute": 0,
    "creations_per_hour": 0,
}
LABELS = ["agent:design", "agent:bugfix", "agent:small-job", "agent:ignore"]
T = TypeVar("T")

# What most tests want of an agent: work, then answers to a review.
PLAY = """
version = 1

[[scene]]
when = { flow = "feedback" }
steps = [
  { append = { path = "notes.md", text = "{{ attempt }}\\n" } },
  { result = { status = "done", reply_each = "Done: {{ comment.body }}" } },
]

[[scene]]
when = { flow = "design" }
steps = [
  { write = { path = "{{ design_path }}", text = "# Design of #{{ issue.number }}\\n" } },
  { result = { status = "done", summary = "Designed." } },
]

[[scene]]
steps = [
  { session = "s-{{ issue.number }}" },
  { write = { path = "notes.md", text = "For #{{ issue.number }}\\n" } },
  { result = { status = "done", summary = "Wrote notes.", pr_title = "Add notes" } },
]
"""


@contextmanager
def github(**settings: Any) -> Iterator[Running]:
    """A GitHub with a repository of alice's, in which we and bob may write."""
    access = {US: "write", BOB: "write", EVE: "read"}
    repos = [
        {"name": name, "auto_init": True, "collaborators": access, "labels": LABELS}
        for name in (REPO, "alice/barn")
    ]
    users = [{"login": login} for login in (ALICE, BOB, EVE, US)]
    with running({"users": users, "repos": repos}, git=True, **{**NO_LIMITS, **settings}) as hub:
        yield hub


class Person:
    """Somebody with an account, in one repository."""

    def __init__(self, hub: Running, login: str, repo: str = REPO) -> None:
        self._client = hub.client(login)
        self._repo = repo

    def __call__(self, method: str, path: str, /, **body: Any) -> Any:
        answer = self._client.request(method, f"/repos/{self._repo}{path}", json=body or None)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def file(self, title: str, *labels: str, body: str = "Please.") -> int:
        return int(self("POST", "/issues", title=title, body=body, labels=list(labels))["number"])

    def issue(self, number: int) -> dict[str, Any]:
        return dict(self("GET", f"/issues/{number}"))

    def say(self, number: int, text: str) -> int:
        return int(self("POST", f"/issues/{number}/comments", body=text)["id"])

    def remark(self, pull: int, text: str, path: str = "notes.md", line: int = 1) -> int:
        head = self("GET", f"/pulls/{pull}")["head"]["sha"]
        where = {"commit_id": head, "path": path, "line": line, "side": "RIGHT"}
        return int(self("POST", f"/pulls/{pull}/comments", body=text, **where)["id"])

    def edit_remark(self, comment: int, text: str) -> None:
        self("PATCH", f"/pulls/comments/{comment}", body=text)

    def merge(self, pull: int) -> None:
        # Whether it can be merged is computed when somebody asks, as on the real one.
        self("GET", f"/pulls/{pull}")
        self("PUT", f"/pulls/{pull}/merge")

    def comments(self, number: int) -> list[dict[str, Any]]:
        return list(self("GET", f"/issues/{number}/comments?per_page=100"))

    def remarks(self, pull: int) -> list[dict[str, Any]]:
        return list(self("GET", f"/pulls/{pull}/comments?per_page=100"))

    def pulls(self) -> list[dict[str, Any]]:
        return list(self("GET", "/pulls?state=all&per_page=100"))

    def read(self, path: str, ref: str = "main") -> str:
        content = self("GET", f"/contents/{path}?ref={ref}")["content"]
        return base64.b64decode(content).decode()


@dataclass
class Town:
    """Settings, a home and a GitHub; services come and go."""

    hub: Running
    root: Path
    play: str = PLAY
    repo: dict[str, Any] = field(default_factory=dict)
    tasks: dict[str, Any] = field(default_factory=dict)
    runtime: dict[str, Any] = field(default_factory=dict)
    agent: dict[str, Any] = field(default_factory=dict)
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        lay_database(self.home)
        self.script.write_text(self.play)
        token = self.root / "token"
        token.write_text(token_for(US))
        token.chmod(0o600)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def script(self) -> Path:
        return self.root / "play.toml"

    def person(self, login: str, repo: str = REPO) -> Person:
        return Person(self.hub, login, repo)

    def settings(self, more: dict[str, dict[str, Any]] | None = None) -> Settings:
        """Ours, with pauses that a person would not be allowed to ask for; `more` repositories."""
        github = GitHub(
            api_url=self.hub.url, web_url=self.hub.url, token_file=str(self.root / "token")
        )
        agent = self.agent or {"kind": "scripted", "script": str(self.script)}
        owner, name = REPO.split("/")
        repo = Repo(owner=owner, name=name, allowed_users=[ALICE, BOB], **self.repo)
        # A busy machine must not make requests time out.
        pace = {"seconds_between_writes": 0.0, "request_timeout_seconds": 300}
        return Settings(
            github=github.model_copy(update=pace),
            runtime=Runtime(**{"poll_interval_seconds": 5, **self.runtime}),
            tasks=Tasks(**{"restart_delay_seconds": 0.0, **self.tasks}),
            repo={"stable": repo, **{id: Repo(**each) for id, each in (more or {}).items()}},
            agent={"helper": Agent(**agent)},
        )

    @contextmanager
    def service(
        self,
        observe: Callable[[str, str], None] | None = None,
        mode: ServiceMode | None = None,
        more: dict[str, dict[str, Any]] | None = None,
    ) -> Iterator[Service]:
        """A service at work, for the length of a block."""
        clock, lines = self.clock, StringIO()
        logging = LogDestinations(clock, self.home / "logs", terminal=lines)
        with open_context(self.home, self.settings(more), clock) as app:
            told: list[str] = []
            seen = observe or ignore_step
            service_log = ServiceLog(logging.log, told.append)
            runner = ServiceRunner(app, clock, service_log, mode, observe=seen)
            service = Service(app, runner, told, lines)
            service.thread.start()
            try:
                yield service
            finally:
                runner.leave(stop_agents=True)
                service.thread.join(PATIENCE)
                alive = service.thread.is_alive()
                allow_children()
                logging.close()
        assert not alive, "the service does not leave"
        if service.error is not None:
            raise service.error


class Service:
    """A service in a thread of its own, and eyes on its database."""

    def __init__(
        self, app: AppContext, runner: ServiceRunner, told: list[str], lines: StringIO
    ) -> None:
        self.app = app
        self.runner = runner
        self.told = told
        self.lines = lines
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="service")

    def _run(self) -> None:
        try:
            self.runner.run()
        except BaseException as error:
            self.error = error

    def until(self, seen: Callable[[], T], what: str = "", seconds: float = PATIENCE) -> T:
        """What a function says, as soon as it says anything; looked at after every commit."""
        store = self.app.store
        end = SystemClock().monotonic() + seconds
        while True:
            mark = store.change_mark()
            found = seen()
            if found:
                return found
            left = end - SystemClock().monotonic()
            assert left > 0 and self.error is None, self._story(what)
            store.wait_for_change(mark, min(left, 0.5))

    def task(self, issue: int, state: TaskState | None = None, flow: str = "") -> Task:
        """The newest task of an issue, when it is in that state."""

        def seen() -> Task | None:
            found = [t for t in self.all_tasks() if t.number == issue and flow in ("", t.flow)]
            right = found and (state is None or found[-1].state is state)
            return found[-1] if right else None

        return self.until(seen, f"#{issue} {flow} {state or ''}")

    def poll(self) -> None:
        self.runner.poll_all_soon()

    def rested(self) -> None:
        """Until nothing is under way: no run, no write."""
        from hostler.store.outbox import open_writes

        def seen() -> bool:
            with self.app.store.read() as tx:
                return not open_runs(tx) and not open_writes(tx)

        self.until(seen, "rest")

    def all_tasks(self) -> list[Task]:
        with self.app.store.read() as tx:
            return tasks_in(tx, tuple(TaskState))

    def runs(self, task: Task) -> list[Run]:
        with self.app.store.read() as tx:
            return runs_of(tx, task.id)

    def _story(self, what: str) -> str:
        states = [(t.number, t.flow.value, t.state.value, t.reason) for t in self.all_tasks()]
        return (
            f"waited for {what}; tasks: {states}; told: {self.told}; error: {self.error!r}\n"
            + (self.lines.getvalue()[-6000:])
        )


def token_in(folder: Path, secret: str) -> list[str]:
    """Files below a folder that hold a secret."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and secret.encode() in path.read_bytes():
            found.append(str(path))
    return found


__all__ = ["ALICE", "BOB", "EVE", "PLAY", "REPO", "US", "Person", "Service", "Town", "github"]

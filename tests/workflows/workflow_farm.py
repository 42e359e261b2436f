"""A yard with real git: a remote, a mirror, checkouts, and the sender between us and GitHub."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from checkout_fixture import ANN, Agent
from intake_yard import Yard

from hostler.agents.outcomes import Outcome
from hostler.agents.result import AgentResult
from hostler.agents.verdict import DecidedBy, RunVerdict
from hostler.checkouts.checkout import Checkout
from hostler.checkouts.mirror import Remote, open_mirror
from hostler.clock import FakeClock
from hostler.config.settings import Repo, Tasks
from hostler.forge.github.polling.poller import scan_repository
from hostler.forge.outbox.rules import OutboxPolicy
from hostler.forge.outbox.sender import OutboxSender
from hostler.intake.process import ProcessResult
from hostler.store import Store
from hostler.store.outbox import OutboxRow, open_writes
from hostler.store.pull_requests import pulls_in
from hostler.store.tasks import Task, require_task
from hostler.workflows.effects import handle_settled_write
from hostler.workflows.finish import FinishObserver, finish_run, ignore_stage
from hostler.workflows.ingest import ingest_events
from hostler.workflows.turns import begin_turn
from hostler.workflows.workspace import RepoContext, set_up_checkout

SCOPES = ("tasks", "outbox")


def said(status: str = "done", **words: Any) -> RunVerdict:
    """An agent that says how it went."""
    outcome = {"done": Outcome.SUCCESS, "blocked": Outcome.BLOCKED}.get(status, Outcome.NEEDS_INPUT)
    result = AgentResult.model_validate({"status": status, **words})
    return RunVerdict(outcome, DecidedBy.RESULT, "It says so.", result)


def ended(outcome: Outcome, why: str = "It broke.") -> RunVerdict:
    """An agent that says nothing."""
    return RunVerdict(outcome, DecidedBy.EXIT_CODE, why)


class Farm(Yard):
    """The walk of an issue, step by step, with the agent's part played by the test."""

    def __init__(self, store: Store, clock: FakeClock, root: Path, **settings: Any) -> None:
        super().__init__(store, clock)
        self.root = root
        self.origin = root / "origin.git"
        self.git = Agent(root / "agent-home")
        self.remote = Remote(f"file://{self.origin}")
        self.tune(**settings)

    def tune(self, limits: Tasks | None = None, **settings: Any) -> None:
        self.desk = RepoContext(
            store=self.store,
            policy=self.watch,
            settings=Repo(owner="octo", name="stable", **settings),
            mirror=open_mirror(self.root / "mirrors", self.name),
            remote=self.remote,
            checkouts=self.root / "checkouts",
            identity=ANN,
            limits=limits or Tasks(),
            env={"PATH": os.environ["PATH"]},
        )

    def poll(self) -> ProcessResult:
        self.tick()
        with self.store.read() as tx:
            watched = [pull.pr_number for pull in pulls_in(tx, self.name)]
        scan_repository(
            self.store, self.hub, self.name, pulls=watched, settled=handle_settled_write
        )
        return ingest_events(self.store, self.hub, self.watch)

    def begin(self, task: Task | None = None) -> tuple[Task, Checkout]:
        """Admission and setting up."""
        chosen = task or self.task()
        with self.store.write(*SCOPES) as tx:
            begun = begin_turn(tx, require_task(tx, chosen.id))
        return begun, set_up_checkout(self.desk, begun)

    def close(
        self,
        task: Task,
        verdict: RunVerdict,
        session: str = "",
        observe: FinishObserver = ignore_stage,
    ) -> Task:
        """From the agent's end to what is stored about it."""
        ending = finish_run(self.desk, task, verdict, session, observe)
        with self.store.write(*SCOPES) as tx:
            return ending.apply(tx)

    def send(self) -> None:
        """Everything that waits goes to GitHub."""
        listed = self.git(
            "for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads", cwd=self.origin
        )
        self.hub.branches = dict(line.split(" ") for line in listed.splitlines())
        sender = OutboxSender(
            self.store, lambda _: self.hub, self.clock, OutboxPolicy(), settled=handle_settled_write
        )
        while (until := sender.send_due()) is not None:
            self.clock.advance(max((until - self.clock.now()).total_seconds(), 0.001))

    def walk(self, label: str = "agent:bugfix", title: str = "Crash on start") -> Task:
        """From an issue to an open pull request."""
        self.file(title, "ann", label)
        self.poll()
        task, checkout = self.begin(self.tasks()[-1])
        self.git.commit(checkout.path, "fix.py", "fixed = True\n")
        self.close(task, said(pr_title="Mend it", summary="Mended."), session="s1")
        self.send()
        return self.reread(task)

    def reread(self, task: Task) -> Task:
        with self.store.read() as tx:
            return require_task(tx, task.id)

    def texts(self, number: int) -> list[str]:
        """What stands in a conversation, without markers."""
        return [
            comment["body"].rpartition("\n\n<!--")[0] or comment["body"]
            for comment in self.hub.comments.values()
            if comment["issue_url"].endswith(f"/{number}")
        ]

    def open(self) -> list[OutboxRow]:
        with self.store.read() as tx:
            return open_writes(tx)

    def on_remote(self, branch: str) -> str:
        ref = f"refs/heads/{branch}"
        return self.git("rev-parse", "-q", "--verify", ref, cwd=self.origin, check=False)

    def branches(self) -> list[str]:
        listed = self.git("for-each-ref", "--format=%(refname:short)", cwd=self.origin)
        return sorted(listed.splitlines())

    def person(self) -> Path:
        folder = self.root / "person"
        if not folder.exists():
            self.git("clone", "-q", self.remote.url, str(folder), cwd=self.root)
        self.git("fetch", "-q", "origin", cwd=folder)
        return folder

    def limits(self, **changes: Any) -> None:
        self.desk = replace(self.desk, limits=Tasks(**changes))

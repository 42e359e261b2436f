"""What is left of a campaign, as plain data: GitHub, git, rows, stamps, processes, texts."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from hostile_yard import received, stored
from soak_campaign import Campaign
from soak_people import Tale
from soak_town import OWNER, US, Town

from hostler.model import RepoName
from hostler.sandbox.auth import token_for
from hostler.sandbox.control.ledger import LedgerEntry
from hostler.sandbox.pulls.entities import PullRequest, ReviewComment
from hostler.sandbox.state.entities import Comment, Issue, Repo
from hostler.sandbox.state.world import World
from hostler.store.governor import all_leases
from hostler.store.operator import CommandRow, CommandStatus, commands_in
from hostler.store.outbox import open_writes
from hostler.store.runs import Run, open_runs, runs_of
from hostler.store.tasks import Task, TaskState, tasks_in
from hostler.telemetry.redaction import encoded_forms

# A text, and where it was found.
Place = tuple[str, bytes]
# Shorter forms of a secret would be found in any text.
LEAST_FORM = 8


@dataclass(frozen=True)
class Said:
    """A comment, or a remark on a line."""

    repo: str
    thread: int
    author: str
    body: str


@dataclass(frozen=True)
class Request:
    """A pull request, and what its head has of the agents' notes."""

    repo: str
    number: int
    author: str
    body: str
    branch: str = ""
    open: bool = True
    merged: bool = False
    notes: tuple[str, ...] = ()


@dataclass
class Evidence:
    """Everything that the invariants ask about. Threads are (repository, number)."""

    tales: list[Tale] = field(default_factory=list)
    stamps: list[dict[str, Any]] = field(default_factory=list)
    # GitHub, as it is in truth
    said: list[Said] = field(default_factory=list)
    pulls: list[Request] = field(default_factory=list)
    closed: set[tuple[str, int]] = field(default_factory=set)
    ledger: list[LedgerEntry] = field(default_factory=list)
    # our rows
    tasks: list[Task] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    open_runs: list[str] = field(default_factory=list)
    leases: list[str] = field(default_factory=list)
    unsent: list[str] = field(default_factory=list)
    commands: list[CommandRow] = field(default_factory=list)
    # what was seen while it lasted, and what is there after it
    homeless: list[str] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)
    surprises: list[str] = field(default_factory=list)
    log: str = ""
    secrets: set[bytes] = field(default_factory=set)
    places: Iterable[Place] = ()

    def task_of(self, tale: Tale) -> Task | None:
        """The newest task of a story."""
        repo, number = tale.key
        found = [t for t in self.tasks if (t.repo_full_name, t.number) == (repo, number)]
        return found[-1] if found else None

    def ours(self) -> list[Said]:
        return [one for one in self.said if one.author == US]


def gathered(campaign: Campaign) -> Evidence:
    """After the service has left."""
    town = campaign.town
    evidence = town.look(_github)
    evidence.pulls = [_with_notes(town, pull) for pull in evidence.pulls]
    _add_rows(town, evidence)
    evidence.tales = campaign.tales
    evidence.stamps = town.stamps()
    evidence.ledger = town.asked()
    evidence.homeless = campaign.samples.homeless
    evidence.processes = [f"{one.pid} {one.name}" for one in town.left()]
    evidence.surprises = town.surprises
    evidence.log = _log(town)
    evidence.secrets = _forms(token_for(US))
    evidence.places = _places(campaign, evidence)
    return evidence


def _github(world: World) -> Evidence:
    names = {repo.id: repo.full_name for repo in world.truth.all(Repo)}
    found = Evidence()
    for issue in world.truth.all(Issue):
        if issue.state == "closed":
            found.closed.add((names[issue.repo_id], issue.number))
    pulls = {pull.id: pull for pull in world.truth.all(PullRequest)}
    issues = {issue.id: issue for issue in world.truth.all(Issue)}
    for pull in pulls.values():
        found.pulls.append(_request(names[pull.repo_id], pull, issues[pull.issue_id]))
    for said in world.truth.all(Comment):
        number = issues[said.issue_id].number
        found.said.append(Said(names[said.repo_id], number, said.user, said.body))
    for remark in world.truth.all(ReviewComment):
        number = pulls[remark.pull_id].number
        found.said.append(Said(names[remark.repo_id], number, remark.user, remark.body))
    return found


def _request(repo: str, pull: PullRequest, issue: Issue) -> Request:
    return Request(
        repo,
        pull.number,
        issue.user,
        issue.body or "",
        branch=pull.head_ref,
        open=issue.state == "open",
        merged=pull.merged_at is not None,
        # The place of the notes is known by the head; they are read outside of GitHub's thread.
        notes=(pull.head_sha,),
    )


def _with_notes(town: Town, pull: Request) -> Request:
    repo_store = town.hub.app.world.repo_store
    assert repo_store is not None
    folder = repo_store.path(town.ids[pull.repo.partition("/")[2]])
    (head,) = pull.notes
    issue = pull.body.rpartition("Fixes #")[2].split()[0]
    show = ["git", "-C", str(folder), "show", f"{head}:notes/{issue}.md"]
    shown = subprocess.run(show, capture_output=True, text=True, check=False)
    return Request(**{**asdict(pull), "notes": tuple(shown.stdout.splitlines())})


def _add_rows(town: Town, evidence: Evidence) -> None:
    with town.store.read() as tx:
        evidence.tasks = tasks_in(tx, tuple(TaskState))
        evidence.runs = [run for task in evidence.tasks for run in runs_of(tx, task.id)]
        evidence.open_runs = [run.run for run in open_runs(tx)]
        evidence.leases = [lease.lease for lease in all_leases(tx)]
        evidence.unsent = [f"{row.token} {row.state}" for row in open_writes(tx)]
        for name in town.ids:
            repo = RepoName.parse(f"{OWNER}/{name}")
            evidence.commands += commands_in(tx, repo, tuple(CommandStatus))


def _log(town: Town) -> str:
    files = sorted((town.home / "logs").glob("*.jsonl"))
    return "\n".join(path.read_text() for path in [*files, town.log])


def _forms(secret: str) -> set[bytes]:
    found = {form.encode() for form in encoded_forms(secret) if len(form) > LEAST_FORM}
    return {*found, base64.b64encode(f"x-access-token:{secret}".encode())}


def _places(campaign: Campaign, evidence: Evidence) -> Iterator[Place]:
    """Everything that anybody could read later, one after another."""
    town = campaign.town
    yield from stored(town.home)
    yield from received(town.hub)
    yield "what the services said", town.log.read_bytes()
    yield "the agents' environments", (town.place / "environs").read_bytes()
    yield "the agents' stamps", (town.place / "stamps").read_bytes()
    yield from (("a command line", argv) for argv in campaign.samples.argv)
    asked = json.dumps([(one.path, one.query) for one in evidence.ledger])
    yield "the ledger", asked.encode()

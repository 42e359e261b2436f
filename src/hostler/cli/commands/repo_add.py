"""The steps of `hostler repo add`, and its result.

Each step can be repeated after a crash: running the command again does what is missing.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from hostler.checkouts.names import is_branch_name
from hostler.cli.output import print_note
from hostler.clock import SystemClock
from hostler.config.editor import add_table, format_table, preview_edit, rewrite_file
from hostler.config.repositories import (
    choose_agent,
    choose_repo_id,
    find_repo_id,
    repo_full_name,
    require_login,
)
from hostler.config.settings import Labels, Repo, Settings
from hostler.errors import ForgeError, HomeLocked, HostlerError
from hostler.forge.actions import CreateLabel, decode_action
from hostler.forge.github.hub import RepositoryAccess, open_github, read_repository_access
from hostler.forge.labels import missing_labels, queue_labels, wanted_labels
from hostler.forge.outbox.rules import OutboxPolicy
from hostler.forge.outbox.sender import DeliveryCallbacks, WriteDelivery
from hostler.forge.port import Forge
from hostler.model import RepoName
from hostler.service.context import open_or_create_store
from hostler.store import Store
from hostler.store.outbox import OutboxRow, WriteState


@dataclass(slots=True)
class LabelResult:
    """Label names by result; `failed` maps them to GitHub's error messages."""

    present: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    queued: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class RepoAddResult:
    """Result of `repo add`. `table` is empty if the repository was configured already."""

    path: Path
    id: str
    repository: str
    login: str
    default_branch: str
    dry_run: bool
    table: dict[str, object] = field(default_factory=dict)
    added: bool = False
    # Its name on GitHub, if that differs from the one in the settings.
    now_called: str = ""
    allows_itself: bool = False
    has_agent: bool = True
    labels: LabelResult = field(default_factory=LabelResult)

    def as_json(self) -> dict[str, Any]:
        """Return the result as JSON data."""
        labels = self.labels
        return {
            "id": self.id,
            "repository": self.repository,
            "now_called": self.now_called or None,
            "settings": self.path,
            "login": self.login,
            "default_branch": self.default_branch,
            "dry_run": self.dry_run,
            "added": self.added,
            "table": self.table or None,
            "labels": {
                "present": labels.present,
                "missing": labels.missing,
                "made": labels.made,
                "queued": labels.queued,
                "failed": labels.failed,
            },
        }

    def lines(self) -> Iterator[str]:
        """Yield the result as lines for the terminal."""
        yield from self._about_table()
        yield from self._about_labels()
        if not self.has_agent:
            yield "Still missing: an agent. Add an [agent.<name>] table."
        if self.dry_run:
            yield "Nothing was changed."
            return
        if self.added:
            yield "A running service starts watching it within seconds."
        yield "Next: hostler service --dry-run   show which issues would start"
        yield "      hostler service             start working"

    def failure(self) -> HostlerError:
        """Build the error for labels that GitHub refused."""
        failed = self.labels.failed
        return ForgeError(
            "Labels could not be created: "
            + "; ".join(f"{name} ({why.rstrip('.')})" for name, why in failed.items())
            + ".",
            safe=f"[repo.{self.id}] is in {self.path}.",
            remedy="Fix that and run the command again, or create the labels on GitHub.",
        )

    def _about_table(self) -> Iterator[str]:
        if self.dry_run and self.table:
            yield f"Would add to {self.path}:"
            yield from (f"  {row}" for row in format_table("repo", self.id, self.table))
        elif self.added:
            yield f"Added {self.repository} as [repo.{self.id}] to {self.path}."
        else:
            yield f"{self.repository} is already configured as [repo.{self.id}] in {self.path}."
        if self.now_called:
            yield f"GitHub renamed it to {self.now_called}: change owner and name in that table."
        if self.allows_itself:
            yield (
                f"Only issues and comments of {self.login} (the token's account) start work. "
                "Allow other users with --allow."
            )

    def _about_labels(self) -> Iterator[str]:
        labels = self.labels
        if self.dry_run and labels.missing:
            yield f"Would create labels: {', '.join(labels.missing)}."
        if labels.present and not labels.missing:
            yield f"Labels exist: {', '.join(labels.present)}."
        if labels.made:
            yield f"Created labels: {', '.join(labels.made)}."
        if labels.queued:
            yield f"Queued labels: {', '.join(labels.queued)}. The service will create them."


# Long enough to look up labels whose creation GitHub did not confirm.
LABEL_WAIT_SECONDS = 120.0
# Creating a database takes less than a second.
DATABASE_WAIT_SECONDS = 10.0
_RETRY_SECONDS = 0.2
_NOTHING_CHANGED = "Nothing was changed."


@dataclass(frozen=True, slots=True)
class RepoAddOptions:
    """The options of `repo add`. Empty means not given."""

    name: RepoName
    id: str = ""
    base_branch: str = ""
    allow: tuple[str, ...] = ()
    agent: str = ""
    labels: bool = True
    dry_run: bool = False


class RepoAdder:
    """One `hostler repo add`."""

    def __init__(self, home: Path, path: Path, settings: Settings, options: RepoAddOptions) -> None:
        self._home = home
        self._path = path
        self._settings = settings
        self._options = options
        self._clock = SystemClock()

    def run(self) -> RepoAddResult:
        """Run all steps that are not done yet."""
        options = self._options
        # Validate before any request to GitHub.
        self._require_sense()
        with closing(open_github(self._settings.github, self._clock)) as hub:
            print_note(f"Checking {options.name} on GitHub ...")
            standing = read_repository_access(hub, options.name)
            done = self._decide(standing)
            forge = hub.urgent(RepoName.parse(done.repository))
            missing = self._missing(forge, done) if options.labels else []
            if options.dry_run:
                preview_edit(self._path, lambda text: add_repo_table(text, done))
                return done
            with closing(self._store()) as store:
                if done.table:
                    done.added = rewrite_file(
                        self._path, lambda text: add_repo_table(text, done), self._clock
                    )
                if missing:
                    self._make(forge, store, done, missing)
        return done

    def _require_sense(self) -> None:
        options = self._options
        for login in options.allow:
            require_login(login)
        if options.base_branch and not is_branch_name(options.base_branch):
            raise HostlerError(
                f"Invalid branch name {options.base_branch!r}.", safe=_NOTHING_CHANGED
            )
        known = find_repo_id(self._settings.repo, options.name)
        if known is None or options.agent:
            choose_agent(self._settings.agent, options.agent)
        if known is None:
            choose_repo_id(self._settings.repo, options.name, options.id)
        else:
            self._require_same(known)

    def _require_same(self, known: str) -> None:
        """Raise HostlerError if the options differ from the existing table, which is kept."""
        differ = find_differences(known, self._settings.repo[known], self._settings, self._options)
        if differ:
            raise HostlerError(
                f"{self._options.name} is already configured as [repo.{known}] "
                f"with different values of: {', '.join(differ)}.",
                safe=_NOTHING_CHANGED,
                remedy=f"Edit that table in {self._path}.",
            )

    def _decide(self, standing: RepositoryAccess) -> RepoAddResult:
        """Decide what to add, given the repository's name on GitHub."""
        repos, options, found = self._settings.repo, self._options, standing.repository
        known = find_repo_id(repos, options.name) or find_repo_id(repos, found.name)
        done = RepoAddResult(
            path=self._path,
            id=known or choose_repo_id(repos, found.name, options.id),
            repository=str(repo_full_name(repos[known]) if known else found.name),
            login=standing.login,
            default_branch=found.default_branch,
            dry_run=options.dry_run,
            has_agent=bool(self._settings.agent),
        )
        if known is None:
            done.allows_itself = not options.allow
            done.table = build_table(found.name, standing.login, options)
        else:
            self._require_same(known)
            is_same = done.repository.lower() == str(found.name).lower()
            done.now_called = "" if is_same else str(found.name)
        return done

    def _missing(self, forge: Forge, done: RepoAddResult) -> list[CreateLabel]:
        known = self._settings.repo.get(done.id)
        labels = known.labels if known else Labels()
        missing = missing_labels(labels, forge.labels())
        names = [action.name for action in missing]
        present = [action.name for action in wanted_labels(labels) if action.name not in names]
        done.labels = LabelResult(present=present, missing=names)
        return missing

    def _store(self) -> Store:
        url = self._settings.runtime.database_url or None
        end = self._clock.monotonic() + DATABASE_WAIT_SECONDS
        while True:
            try:
                return open_or_create_store(self._home, url, self._clock)
            except HomeLocked:
                # There is no database yet, so the lock holder is creating it right now.
                if self._clock.monotonic() >= end:
                    raise
                self._clock.wakeup().wait(_RETRY_SECONDS)

    def _make(
        self, forge: Forge, store: Store, done: RepoAddResult, missing: list[CreateLabel]
    ) -> None:
        """Queue the missing labels, and wait until they are created."""
        name = RepoName.parse(done.repository)
        with store.write("outbox") as tx:
            tokens = queue_labels(tx, name, missing)
        print_note(f"Creating labels: {', '.join(done.labels.missing)} ...")
        pace = OutboxPolicy(
            between_writes=timedelta(seconds=self._settings.github.seconds_between_writes)
        )
        notes = DeliveryCallbacks(settled=_note_settled, lock_held_by=_note_left)
        delivery = WriteDelivery(self._home, store, forge, name, tokens, self._clock, pace, notes)
        for row in delivery.wait_until_settled(LABEL_WAIT_SECONDS):
            _sort_label(row, done.labels)


def build_table(name: RepoName, login: str, options: RepoAddOptions) -> dict[str, object]:
    """Build the values of a new [repo.<id>] table."""
    allowed = list(options.allow) or [login]
    if not options.allow and login.endswith("[bot]"):
        raise HostlerError(
            f"The token belongs to the App {login}, whose own issues and comments start no work.",
            safe=_NOTHING_CHANGED,
            remedy="Name a user whose issues start work: --allow LOGIN",
        )
    values: dict[str, object] = {"owner": name.owner, "name": name.name}
    if options.base_branch:
        values["base_branch"] = options.base_branch
    values |= {"allowed_users": allowed, "operator_logins": allowed[:1]}
    if options.agent:
        values["agent"] = options.agent
    return values


def add_repo_table(text: str, done: RepoAddResult) -> str:
    """Return the settings with the new table, or unchanged if another process just added it."""
    found = tomllib.loads(text).get("repo", {})
    there = found.get(done.id) if isinstance(found, dict) else None
    if isinstance(there, dict) and f"{there.get('owner')}/{there.get('name')}" == done.repository:
        return text
    return add_table(text, "repo", done.id, done.table) if done.table else text


def find_differences(
    known: str, repo: Repo, settings: Settings, options: RepoAddOptions
) -> list[str]:
    """Return the options that differ from the existing settings."""
    agent = repo.agent or next(iter(settings.agent), "")
    allowed = {login.lower() for login in repo.allowed_users}
    return [
        what
        for what, differs in (
            ("id", options.id not in ("", known)),
            ("base_branch", options.base_branch not in ("", repo.base_branch)),
            ("agent", options.agent not in ("", agent)),
            ("allowed_users", options.allow and {one.lower() for one in options.allow} != allowed),
        )
        if differs
    ]


def _label_name(row: OutboxRow) -> str:
    action = decode_action(row.kind, row.payload)
    assert isinstance(action, CreateLabel)
    return action.name


def _sort_label(row: OutboxRow, labels: LabelResult) -> None:
    if row.state is WriteState.SENT:
        labels.made.append(_label_name(row))
    elif row.state is WriteState.FAILED:
        labels.failed[_label_name(row)] = row.last_error or "no reason given"
    else:
        labels.queued.append(_label_name(row))


def _note_settled(row: OutboxRow) -> None:
    print_note(f"  {_label_name(row)}: {'created' if row.state is WriteState.SENT else 'refused'}")


def _note_left(holder: object | None) -> None:
    print_note(f"Waiting for {holder or 'another process'} to create them ...")

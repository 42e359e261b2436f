"""The steps of `hostler repo add`. Each may be the last before a crash; adding again goes on."""

from __future__ import annotations

import tomllib
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from hostler.checkouts.names import is_branch
from hostler.cli.output import note
from hostler.cli.repo_said import Added, Labelled
from hostler.clock import SystemClock
from hostler.config.editing import add_table
from hostler.config.repos import chosen_agent, full_name, id_of, new_id, require_login
from hostler.config.rewriting import preview, rewrite
from hostler.config.settings import Labels, Repo, Settings
from hostler.errors import HomeLocked, HostlerError
from hostler.forge import CreateLabel, Forge, Pace, open_hub
from hostler.forge.deeds import unpack
from hostler.forge.labelling import missing_labels, queue_labels, wanted_labels
from hostler.forge.outbox.delivery import Delivery, Told
from hostler.forge.standing import Standing, ask_standing
from hostler.model import RepoName
from hostler.service.opening import open_or_make
from hostler.store import Store
from hostler.store.outbox import OutboxRow, WriteState

# Longer than it takes to find what a lost answer made, shorter than a person's patience.
WAIT_SECONDS = 120.0
# A database is made in less than a second.
MAKING_SECONDS = 10.0
_NAP_SECONDS = 0.2
_SAFE = "Nothing was changed."


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the person asked for. Empty means: not said."""

    name: RepoName
    id: str = ""
    base_branch: str = ""
    allow: tuple[str, ...] = ()
    agent: str = ""
    labels: bool = True
    dry_run: bool = False


class Adding:
    """One `hostler repo add`."""

    def __init__(self, home: Path, path: Path, settings: Settings, wishes: Wishes) -> None:
        self._home = home
        self._path = path
        self._settings = settings
        self._wishes = wishes
        self._clock = SystemClock()

    def run(self) -> Added:
        """All steps, in order; what is done already is not done again."""
        wishes = self._wishes
        # What needs no network is told before it is asked.
        self._require_sense()
        with closing(open_hub(self._settings.github, self._clock)) as hub:
            note(f"Asking GitHub about {wishes.name} ...")
            standing = ask_standing(hub, wishes.name)
            done = self._decide(standing)
            forge = hub.urgent(RepoName.parse(done.repository))
            missing = self._missing(forge, done) if wishes.labels else []
            if wishes.dry_run:
                preview(self._path, lambda text: with_table(text, done))
                return done
            with closing(self._store()) as store:
                if done.table:
                    done.added = rewrite(
                        self._path, lambda text: with_table(text, done), self._clock
                    )
                if missing:
                    self._make(forge, store, done, missing)
        return done

    def _require_sense(self) -> None:
        wishes = self._wishes
        for login in wishes.allow:
            require_login(login)
        if wishes.base_branch and not is_branch(wishes.base_branch):
            raise HostlerError(f"{wishes.base_branch!r} cannot be a branch.", safe=_SAFE)
        known = id_of(self._settings.repo, wishes.name)
        if known is None or wishes.agent:
            chosen_agent(self._settings.agent, wishes.agent)
        if known is None:
            new_id(self._settings.repo, wishes.name, wishes.id)
        else:
            self._require_same(known)

    def _require_same(self, known: str) -> None:
        """A table that is there is never changed by adding again; who wants that is told."""
        differ = differences(known, self._settings.repo[known], self._settings, self._wishes)
        if differ:
            raise HostlerError(
                f"{self._wishes.name} is there already as [repo.{known}], "
                f"with another {', another '.join(differ)}.",
                safe=_SAFE,
                remedy=f"Edit that table in {self._path}.",
            )

    def _decide(self, standing: Standing) -> Added:
        """What is to be done, now that GitHub has said what the repository is called."""
        repos, wishes, found = self._settings.repo, self._wishes, standing.repository
        known = id_of(repos, wishes.name) or id_of(repos, found.name)
        done = Added(
            path=self._path,
            id=known or new_id(repos, found.name, wishes.id),
            repository=str(full_name(repos[known]) if known else found.name),
            login=standing.login,
            default_branch=found.default_branch,
            dry_run=wishes.dry_run,
            has_agent=bool(self._settings.agent),
        )
        if known is None:
            done.allows_itself = not wishes.allow
            done.table = table(found.name, standing.login, wishes)
        else:
            self._require_same(known)
            is_same = done.repository.lower() == str(found.name).lower()
            done.now_called = "" if is_same else str(found.name)
        return done

    def _missing(self, forge: Forge, done: Added) -> list[CreateLabel]:
        known = self._settings.repo.get(done.id)
        labels = known.labels if known else Labels()
        missing = missing_labels(labels, forge.labels())
        names = [deed.name for deed in missing]
        present = [deed.name for deed in wanted_labels(labels) if deed.name not in names]
        done.labels = Labelled(present=present, missing=names)
        return missing

    def _store(self) -> Store:
        url = self._settings.runtime.database_url or None
        end = self._clock.monotonic() + MAKING_SECONDS
        while True:
            try:
                return open_or_make(self._home, url, self._clock)
            except HomeLocked:
                # There is none yet, so the holder is making it at this moment.
                if self._clock.monotonic() >= end:
                    raise
                self._clock.wakeup().wait(_NAP_SECONDS)

    def _make(self, forge: Forge, store: Store, done: Added, missing: list[CreateLabel]) -> None:
        """Queue the missing labels together, and see them through."""
        name = RepoName.parse(done.repository)
        with store.write("outbox") as tx:
            tokens = queue_labels(tx, name, missing)
        note(f"Making labels: {', '.join(done.labels.missing)} ...")
        pace = Pace(between_writes=timedelta(seconds=self._settings.github.seconds_between_writes))
        told = Told(settled=_say_settled, left_to=_say_left)
        delivery = Delivery(self._home, store, forge, name, tokens, self._clock, pace, told)
        for row in delivery.see_through(WAIT_SECONDS):
            _sort(row, done.labels)


def table(name: RepoName, login: str, wishes: Wishes) -> dict[str, object]:
    """The values of a new table: what was said, and who causes work."""
    allowed = list(wishes.allow) or [login]
    if not wishes.allow and login.endswith("[bot]"):
        raise HostlerError(
            f"{login} is an App, whose own words cause no work.",
            safe=_SAFE,
            remedy="Say whose issues cause work: --allow LOGIN",
        )
    values: dict[str, object] = {"owner": name.owner, "name": name.name}
    if wishes.base_branch:
        values["base_branch"] = wishes.base_branch
    values |= {"allowed_users": allowed, "operator_logins": allowed[:1]}
    if wishes.agent:
        values["agent"] = wishes.agent
    return values


def with_table(text: str, done: Added) -> str:
    """The settings with the new table; as they are where somebody else has just added it."""
    found = tomllib.loads(text).get("repo", {})
    there = found.get(done.id) if isinstance(found, dict) else None
    if isinstance(there, dict) and f"{there.get('owner')}/{there.get('name')}" == done.repository:
        return text
    return add_table(text, "repo", done.id, done.table) if done.table else text


def differences(known: str, repo: Repo, settings: Settings, wishes: Wishes) -> list[str]:
    """Which wishes are not what the settings say."""
    agent = repo.agent or next(iter(settings.agent), "")
    allowed = {login.lower() for login in repo.allowed_users}
    return [
        what
        for what, differs in (
            ("id", wishes.id not in ("", known)),
            ("base_branch", wishes.base_branch not in ("", repo.base_branch)),
            ("agent", wishes.agent not in ("", agent)),
            ("allowed_users", wishes.allow and {one.lower() for one in wishes.allow} != allowed),
        )
        if differs
    ]


def _name(row: OutboxRow) -> str:
    deed = unpack(row.kind, row.payload)
    assert isinstance(deed, CreateLabel)
    return deed.name


def _sort(row: OutboxRow, labels: Labelled) -> None:
    if row.state is WriteState.SENT:
        labels.made.append(_name(row))
    elif row.state is WriteState.FAILED:
        labels.failed[_name(row)] = row.last_error or "no reason was given"
    else:
        labels.queued.append(_name(row))


def _say_settled(row: OutboxRow) -> None:
    note(f"  {_name(row)}: {'made' if row.state is WriteState.SENT else 'refused'}")


def _say_left(holder: object | None) -> None:
    note(f"{holder or 'Another process'} works on this home and makes them ...")

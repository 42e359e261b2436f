"""Tasks that are over, with everything that is theirs: whole families, or nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hostler.bus.place import task_bus_path
from hostler.config.repos import full_name
from hostler.errors import HostlerError
from hostler.intake import IssueSeen, Watch, read, watch
from hostler.model import RepoName
from hostler.runs.run_folder import is_locked
from hostler.service.gc.folders import Aside, exists, listed, size_of
from hostler.service.gc.premises import Premises
from hostler.service.gc.report import Found, Kind
from hostler.service.gc.rules import Issue, TaskFacts, Why, issue_of, judge_family
from hostler.service.gc.writes import task_in
from hostler.store.inbox import InboxRow
from hostler.store.retention import (
    OldTask,
    Thread,
    Ties,
    depended_on,
    families,
    newest_issues,
    remove_tasks,
    roots_before,
    ties_of,
    unsent,
)
from hostler.store.tasks import IssueRef
from hostler.store.transaction import Transaction

PAGE = 100


@dataclass(frozen=True, slots=True)
class _Around:
    """What is around some families, at one moment."""

    ties: Ties
    issues: Mapping[Thread, InboxRow]
    unsent: Collection[Thread]
    # Those whose pull request is not opened yet; only of issues is the thread known by then.
    opening: Collection[str]
    namers: Mapping[str, Collection[str]]


@dataclass(frozen=True, slots=True)
class Tasks:
    """Families whose root was made before the limit."""

    at: Premises
    kind: Kind = Kind.TASKS

    def look(self) -> Iterator[list[Found]]:
        after = ""
        while True:
            with self.at.store.read() as tx:
                roots = roots_before(tx, self.at.limit, after, PAGE)
                if not roots:
                    return
                judged = self._judge(tx, roots)
            yield [one for root, family in judged.items() for one in self._found(root, family)]
            after = roots[-1]

    def remove(self, going: Sequence[Found]) -> list[Found]:
        known = {one.name: one for one in going}
        after: list[Found] = []
        leaving: list[OldTask] = []
        with self.at.removing() as (tx, aside):
            judged = self._judge(tx, dict.fromkeys(one.key for one in going))
            for family in judged.values():
                why = family[0][1] or self._set_aside([task for task, _ in family], aside)
                leaving += [task for task, _ in family if why is None]
                after += [
                    replace(known[task.id], why=stays or why)
                    for task, stays in family
                    if task.id in known
                ]
            remove_tasks(tx, leaving)
        return after

    def _set_aside(self, family: Sequence[OldTask], aside: Aside) -> Why | None:
        """Folders go first: rows without them break nobody, and the next round finds them."""
        folders = [folder for task in family if (folder := self._folder(task))]
        return None if all(aside.take(folder) for folder in folders) else Why.REFUSED

    def _judge(
        self, tx: Transaction, roots: Collection[str]
    ) -> dict[str, list[tuple[OldTask, Why | None]]]:
        found = families(tx, roots)
        around = self._around(tx, [task for family in found.values() for task in family])
        return {root: self._judge_family(family, around) for root, family in found.items()}

    def _judge_family(
        self, family: Sequence[OldTask], around: _Around
    ) -> list[tuple[OldTask, Why | None]]:
        facts = [self._facts(task, family, around) for task in family]
        return list(zip(family, judge_family(facts, self.at.limit), strict=True))

    def _around(self, tx: Transaction, members: Sequence[OldTask]) -> _Around:
        ties = ties_of(tx, members)
        issues = [task.thread for task in members if task.thread is not None]
        pulls = [thread for theirs in ties.pulls.values() for thread in theirs]
        threads, tokens = unsent(tx, [*issues, *pulls])
        opening = {task_in(token) for token in tokens}
        return _Around(ties, newest_issues(tx, issues), threads, opening, depended_on(tx))

    def _facts(self, task: OldTask, family: Sequence[OldTask], around: _Around) -> TaskFacts:
        ties = around.ties
        pulls = ties.pulls.get(task.id, {})
        return TaskFacts(
            state=task.state,
            stamps=(task.state_since, task.created_at, task.updated_at, ties.ended.get(task.id)),
            open_run=task.id in ties.open_runs or self._is_locked(task),
            checkout=self._has_checkout(task),
            open_pull=not all(pulls.values()),
            unsent=task.id in around.opening
            or task.thread in around.unsent
            or any(thread in around.unsent for thread in pulls),
            words=task.id in ties.words,
            named=self._is_named(task, {one.id for one in family}, around.namers),
            issue=self._issue(task, around.issues),
        )

    def _is_named(
        self, task: OldTask, family: Collection[str], namers: Mapping[str, Collection[str]]
    ) -> bool:
        by = {name for own in _names(task) for name in namers.get(own, ())}
        return any(name not in family and not self.at.going.has(Kind.TASKS, name) for name in by)

    def _issue(self, task: OldTask, issues: Mapping[Thread, InboxRow]) -> Issue:
        if task.thread is None:
            return Issue.NONE
        row = issues.get(task.thread)
        seen = read(row) if row is not None else None
        return issue_of(seen if isinstance(seen, IssueSeen) else None, self._watch(task.thread[0]))

    def _watch(self, repo: str) -> Watch | None:
        for project, settings in self.at.settings.repo.items():
            if str(full_name(settings)).lower() == repo.lower():
                return watch(project, settings)
        return None

    def _is_locked(self, task: OldTask) -> bool:
        """Whether a shim lives for one of its runs, whatever its row says."""
        folder = self._folder(task)
        return folder is not None and any(is_locked(run) for run in listed(folder / "runs"))

    def _has_checkout(self, task: OldTask) -> bool:
        path = self.at.home / "checkouts" / task.project / task.id
        return exists(path) and not self.at.going.has(Kind.CHECKOUTS, f"{task.project}/{task.id}")

    def _found(self, root: str, family: Sequence[tuple[OldTask, Why | None]]) -> Iterator[Found]:
        for task, why in family:
            folder = None if why else self._folder(task)
            size = task.size + (size_of(folder) if folder else 0)
            yield Found(task.id, 0 if why else size, why, key=root)

    def _folder(self, task: OldTask) -> Path | None:
        """Where its runs and its bus are; None for a name that no folder can have."""
        try:
            return task_bus_path(self.at.home, task.project, task.id).parent
        except HostlerError:
            return None


def _names(task: OldTask) -> list[str]:
    """What others call a task that they depend on."""
    if task.thread is None:
        return [task.id]
    repo, number = task.thread
    return [task.id, str(IssueRef.of(RepoName.parse(repo), number))]

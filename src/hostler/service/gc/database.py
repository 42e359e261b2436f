"""Collectors of rows: settled writes, finished tasks, inactive threads of the inbox."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hostler.bus.bus import task_bus_path
from hostler.config.repositories import repo_full_name
from hostler.errors import HostlerError
from hostler.forge.github.polling.ingest import ACTIONS_BY_KIND
from hostler.forge.github.polling.schedule import OTHER_SURFACES, PROBE_SURFACE
from hostler.forge.port import ItemKind
from hostler.intake.model import IssueEvent, PullEvent, parse_event
from hostler.intake.repo_policy import RepoPolicy, build_repo_policy
from hostler.model import RepoName, Surface
from hostler.runs.run_folder import is_locked
from hostler.service.gc.context import GcContext, GcItem, GcKind
from hostler.service.gc.folders import TrashBin, exists, list_folder, measure_size
from hostler.service.gc.rules import (
    IssueStatus,
    KeepReason,
    TaskFacts,
    ThreadFacts,
    WriteFacts,
    classify_issue,
    earliest_replay,
    judge_family,
    judge_thread,
    judge_write,
    must_keep_row,
)
from hostler.service.wiring import poll_window
from hostler.store.dependencies import tasks_named
from hostler.store.inbox import InboxRow
from hostler.store.repositories import Repo
from hostler.store.retention import (
    OldTask,
    OldThread,
    OldWrite,
    Thread,
    Ties,
    depended_on,
    empty_writes,
    families,
    look_at_threads,
    newest_issues,
    newest_shown,
    remove_tasks,
    remove_threads,
    remove_writes,
    roots_before,
    tasks_of_threads,
    threads_after,
    ties_of,
    unsent,
    writes_before,
    writes_named,
)
from hostler.store.tasks import IssueRef, TaskState
from hostler.store.transaction import Transaction

WRITE_PAGE_SIZE = 200
# Writes that speak, by kind, with all whose results are comments of the same sort. What we open
# (issues, pull requests) is news all the same when it is seen.
COMMENT_WRITES = {
    kind: ACTIONS_BY_KIND[made]
    for made in (ItemKind.ISSUE_COMMENT, ItemKind.REVIEW_COMMENT)
    for kind in ACTIONS_BY_KIND[made]
}


@dataclass(frozen=True, slots=True)
class OutboxCollector:
    """Writes that were queued before the limit."""

    at: GcContext
    kind: GcKind = GcKind.OUTBOX

    def scan(self) -> Iterator[list[GcItem]]:
        after = 0
        while True:
            with self.at.store.read() as tx:
                page = writes_before(tx, self.at.limit, after, WRITE_PAGE_SIZE, COMMENT_WRITES)
                if not page:
                    return
                facts = self._facts(tx, page)
            yield [_write_item(row, facts[row.sequence], self.at.limit) for row in page]
            after = page[-1].sequence

    def remove(self, going: Sequence[GcItem]) -> list[GcItem]:
        with self.at.removing() as (tx, _):
            page = writes_named(tx, [one.key for one in going], COMMENT_WRITES)
            facts = self._facts(tx, page)
            found = {row: _write_item(row, facts[row.sequence], self.at.limit) for row in page}
            leaving = [row for row, one in found.items() if one.goes]
            empty_writes(tx, [row for row in leaving if must_keep_row(facts[row.sequence])])
            remove_writes(tx, [row for row in leaving if not must_keep_row(facts[row.sequence])])
        return list(found.values())

    def _facts(self, tx: Transaction, page: Sequence[OldWrite]) -> dict[int, WriteFacts]:
        owners = self._owners(tx, page)
        return {
            row.sequence: WriteFacts(
                settled=row.settled,
                stamps=(row.updated_at,),
                speaks=row.kind in COMMENT_WRITES,
                superseded=row.superseded,
                bare=row.bare,
                needed=row.needed,
                tasks=tuple(
                    state
                    for task, state in owners[row.sequence].items()
                    if not self.at.going.has(GcKind.TASKS, task)
                ),
            )
            for row in page
        }

    def _owners(
        self, tx: Transaction, page: Sequence[OldWrite]
    ) -> dict[int, Mapping[str, TaskState]]:
        """The tasks of each write: by its thread, and by its token."""
        by_thread = tasks_of_threads(tx, [(row.repo_full_name, row.scope_number) for row in page])
        named = tasks_named(tx, {_task_in_token(row.token) for row in page})
        states = {name: facts.state for name, facts in named.items()}
        return {
            row.sequence: {
                **by_thread.get((row.repo_full_name, row.scope_number), {}),
                **{name: states[name] for name in (_task_in_token(row.token),) if name in states},
            }
            for row in page
        }


def _task_in_token(token: str) -> str:
    """The task that a token names: `pull:<task>:<turn>`; nothing for others."""
    return token.partition(":")[2].rpartition(":")[0]


def _write_item(row: OldWrite, facts: WriteFacts, limit: str) -> GcItem:
    name = f"{row.repo_full_name} {row.token}"
    why = judge_write(facts, limit)
    detail = "its text alone" if why is None and must_keep_row(facts) else ""
    return replace(
        GcItem(name, detail=detail, key=row.sequence), why=why, size=0 if why else row.size
    )


TASK_PAGE_SIZE = 100


@dataclass(frozen=True, slots=True)
class _FamilyContext:
    """What is around some families, at one moment."""

    ties: Ties
    issues: Mapping[Thread, InboxRow]
    unsent: Collection[Thread]
    # Those whose pull request is not opened yet; only of issues is the thread known by then.
    opening: Collection[str]
    namers: Mapping[str, Collection[str]]


@dataclass(frozen=True, slots=True)
class TaskCollector:
    """Families whose root was made before the limit."""

    at: GcContext
    kind: GcKind = GcKind.TASKS

    def scan(self) -> Iterator[list[GcItem]]:
        after = ""
        while True:
            with self.at.store.read() as tx:
                roots = roots_before(tx, self.at.limit, after, TASK_PAGE_SIZE)
                if not roots:
                    return
                judged = self._judge(tx, roots)
            yield [one for root, family in judged.items() for one in self._found(root, family)]
            after = roots[-1]

    def remove(self, going: Sequence[GcItem]) -> list[GcItem]:
        known = {one.name: one for one in going}
        after: list[GcItem] = []
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

    def _set_aside(self, family: Sequence[OldTask], aside: TrashBin) -> KeepReason | None:
        """Folders go first: rows without them break nobody, and the next round finds them."""
        folders = [folder for task in family if (folder := self._folder(task))]
        return None if all(aside.take(folder) for folder in folders) else KeepReason.REFUSED

    def _judge(
        self, tx: Transaction, roots: Collection[str]
    ) -> dict[str, list[tuple[OldTask, KeepReason | None]]]:
        found = families(tx, roots)
        around = self._around(tx, [task for family in found.values() for task in family])
        return {root: self._judge_family(family, around) for root, family in found.items()}

    def _judge_family(
        self, family: Sequence[OldTask], around: _FamilyContext
    ) -> list[tuple[OldTask, KeepReason | None]]:
        facts = [self._facts(task, family, around) for task in family]
        return list(zip(family, judge_family(facts, self.at.limit), strict=True))

    def _around(self, tx: Transaction, members: Sequence[OldTask]) -> _FamilyContext:
        ties = ties_of(tx, members)
        issues = [task.thread for task in members if task.thread is not None]
        pulls = [thread for theirs in ties.pulls.values() for thread in theirs]
        threads, tokens = unsent(tx, [*issues, *pulls])
        opening = {_task_in_token(token) for token in tokens}
        return _FamilyContext(ties, newest_issues(tx, issues), threads, opening, depended_on(tx))

    def _facts(self, task: OldTask, family: Sequence[OldTask], around: _FamilyContext) -> TaskFacts:
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
        by = {name for own in _dependency_names(task) for name in namers.get(own, ())}
        return any(name not in family and not self.at.going.has(GcKind.TASKS, name) for name in by)

    def _issue(self, task: OldTask, issues: Mapping[Thread, InboxRow]) -> IssueStatus:
        if task.thread is None:
            return IssueStatus.NONE
        row = issues.get(task.thread)
        seen = parse_event(row) if row is not None else None
        return classify_issue(
            seen if isinstance(seen, IssueEvent) else None, self._watch(task.thread[0])
        )

    def _watch(self, repo: str) -> RepoPolicy | None:
        for project, settings in self.at.settings.repo.items():
            if str(repo_full_name(settings)).lower() == repo.lower():
                return build_repo_policy(project, settings)
        return None

    def _is_locked(self, task: OldTask) -> bool:
        """Whether a shim lives for one of its runs, whatever its row says."""
        folder = self._folder(task)
        return folder is not None and any(is_locked(run) for run in list_folder(folder / "runs"))

    def _has_checkout(self, task: OldTask) -> bool:
        path = self.at.home / "checkouts" / task.project / task.id
        return exists(path) and not self.at.going.has(GcKind.CHECKOUTS, f"{task.project}/{task.id}")

    def _found(
        self, root: str, family: Sequence[tuple[OldTask, KeepReason | None]]
    ) -> Iterator[GcItem]:
        for task, why in family:
            folder = None if why else self._folder(task)
            size = task.size + (measure_size(folder) if folder else 0)
            yield GcItem(task.id, 0 if why else size, why, key=root)

    def _folder(self, task: OldTask) -> Path | None:
        """Where its runs and its bus are; None for a name that no folder can have."""
        try:
            return task_bus_path(self.at.home, task.project, task.id).parent
        except HostlerError:
            return None


def _dependency_names(task: OldTask) -> list[str]:
    """What others call a task that they depend on."""
    if task.thread is None:
        return [task.id]
    repo, number = task.thread
    return [task.id, str(IssueRef.of(RepoName.parse(repo), number))]


THREAD_PAGE_SIZE = 100
# Which feed shows which kind of event.
SURFACE_BY_KIND = {
    ItemKind.ISSUE.value: Surface.REPO_ISSUES,
    ItemKind.ISSUE_COMMENT.value: Surface.REPO_ISSUE_COMMENTS,
    ItemKind.REVIEW_COMMENT.value: Surface.REPO_REVIEW_COMMENTS,
}
assert set(SURFACE_BY_KIND.values()) == {PROBE_SURFACE, *OTHER_SURFACES}, "every feed has its floor"


@dataclass(frozen=True, slots=True)
class InboxCollector:
    """All threads. Floors only rise, so that each is asked for once."""

    at: GcContext
    kind: GcKind = GcKind.INBOX
    floors: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def scan(self) -> Iterator[list[GcItem]]:
        after: Thread = ("", -1)
        while True:
            with self.at.store.read() as tx:
                page = threads_after(tx, after, THREAD_PAGE_SIZE)
                if not page:
                    return
                found = self._found(tx, page)
            yield found
            after = page[-1]

    def remove(self, going: Sequence[GcItem]) -> list[GcItem]:
        with self.at.removing() as (tx, _):
            found = self._found(tx, [one.key for one in going])
            remove_threads(tx, [one.key for one in found if one.goes])
        return found

    def _found(self, tx: Transaction, threads: Collection[Thread]) -> list[GcItem]:
        return [self._judged(tx, thread) for thread in look_at_threads(tx, threads)]

    def _judged(self, tx: Transaction, old: OldThread) -> GcItem:
        repo, number = old.thread
        why = judge_thread(self._facts(old), self.at.limit, self._floors(tx, repo))
        size = 0 if why else old.size
        return GcItem(f"{repo}#{number}", size, why, key=old.thread)

    def _facts(self, old: OldThread) -> ThreadFacts:
        return ThreadFacts(
            stamps=(old.last, *old.shown.values()),
            shown=old.shown,
            pending=old.pending,
            open=_is_open_thread(old),
            watched_pull=old.watched_pull,
            words=old.words,
            tasks=tuple(
                state
                for task, state in old.tasks.items()
                if not self.at.going.has(GcKind.TASKS, task)
            ),
            commanded=old.commanded,
            operations=old.thread in self._operations(),
        )

    def _operations(self) -> set[Thread]:
        repos = self.at.settings.repo.values()
        return {(str(repo_full_name(repo)), repo.operations_issue_number) for repo in repos}

    def _floors(self, tx: Transaction, repo: str) -> Mapping[str, str]:
        if repo not in self.floors:
            newest, reach = newest_shown(tx, repo), poll_window(self.at.settings.runtime)
            rows = Repo(RepoName.parse(repo))
            self.floors[repo] = {
                kind: earliest_replay(
                    rows.get_poll_cursor(tx, surface, 0), newest, self.at.now, reach
                )
                for kind, surface in SURFACE_BY_KIND.items()
            }
        return self.floors[repo]


def _is_open_thread(old: OldThread) -> bool | None:
    """Whether it is open as last seen; None: nothing has said so."""
    newest = max(old.telling, key=lambda row: (row.updated_at, row.sequence), default=None)
    seen = parse_event(newest) if newest is not None else None
    if isinstance(seen, IssueEvent | PullEvent):
        return seen.is_open
    # What cannot be read might be anything.
    return None if newest is None else True

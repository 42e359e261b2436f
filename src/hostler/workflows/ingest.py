"""Turn events of the inbox into tasks and feedback, and refresh issues that tasks depend on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from hostler.errors import ForgeError, RateLimited, ServerFailed, Unauthorized, Unreachable
from hostler.forge.outbox.sender import OUTBOX_SCOPE as OUTBOX
from hostler.forge.port import Blocking, Forge, Issue, ItemKind
from hostler.intake.ci import UnfinishedRuns, fetch_unfinished_runs, find_heads_to_query
from hostler.intake.manual_start import start_issue
from hostler.intake.model import IssueEvent, parse_event
from hostler.intake.process import (
    ProcessResult,
    fetch_blockers,
    fetch_labellers,
    find_issues_without_blockers,
    find_issues_without_labellers,
    list_pending_events,
    process_inbox,
)
from hostler.intake.repo_policy import RepoPolicy
from hostler.model import RepoName, parse_timestamp
from hostler.planner.dependencies import split_cycles
from hostler.planner.queue import read_graph
from hostler.store import Store
from hostler.store.dependencies import (
    CLOSED,
    MISSING,
    OPEN,
    IssueState,
    issues_known,
    note_issue,
    tasks_of_issues,
    waiting_dependents,
)
from hostler.store.inbox import is_newest, rows_by_key
from hostler.store.tasks import (
    OVER,
    SCOPE,
    Flow,
    IssueRef,
    Task,
    TaskState,
    change_task,
    require_task,
)
from hostler.store.transaction import Transaction
from hostler.workflows.comments import post_receipt
from hostler.workflows.status_comment import publish_status_comment

MAX_REFRESHED = 10
REFRESH_INTERVAL = timedelta(minutes=5)
# Events report changes of these; they are queried in case an event was missed.
WATCHED_REFRESH_INTERVAL = timedelta(hours=1)
_UNFINISHED = tuple(state for state in TaskState if state not in OVER)

ForgeFor = Callable[[RepoName], Forge]


def _break_cycles(tx: Transaction, task: Task, later: Collection[str] = ()) -> Task:
    """Return the task without dependencies that lead back to it; its reason names the cycles.

    `later`: tasks that are checked after this one, so that the last one of a cycle opens it, as if
    they had arrived one by one.
    """
    if task.over or task.attempt or not task.depends_on:
        return task
    known = read_graph(tx, task.depends_on)
    earlier = {name: names for name, names in known.items() if name not in later}
    kept, cycles = split_cycles(earlier, task.id, task.depends_on)
    if not cycles:
        return task
    notes = [f"{one.what}. Its first dependency is ignored." for one in cycles]
    reason = " ".join(text for text in (task.reason, *notes) if text)
    return change_task(tx, task, replace(task, depends_on=kept, reason=reason))


def _store_issue_states(tx: Transaction, policy: RepoPolicy, result: ProcessResult) -> None:
    """Store the state of issues that tasks depend on, from events that just arrived."""
    keys = [event.key for event in result.events if event.kind == ItemKind.ISSUE]
    wanted = _awaited_issues(tx) if keys else set()
    for row in rows_by_key(tx, policy.repo, keys) if wanted else ():
        seen, ref = parse_event(row), IssueRef.of(policy.repo, row.scope_number)
        if isinstance(seen, IssueEvent) and ref in wanted and is_newest(tx, row):
            _store_issue(tx, ref, OPEN if seen.is_open else CLOSED, seen.title)


def _store_blocking_issues(tx: Transaction, blocking: Iterable[Sequence[Blocking]]) -> None:
    """Store the state of issues from GitHub's lists, if nothing is known about them."""
    found = {IssueRef.of(one.repo, one.number): one for group in blocking for one in group}
    for ref in found.keys() - issues_known(tx, found).keys():
        _store_issue(tx, ref, found[ref].state, found[ref].title)


def refresh_dependencies(
    store: Store, forges: ForgeFor, policy: RepoPolicy, others: Collection[RepoName] = ()
) -> tuple[IssueRef, ...]:
    """Query GitHub about issues that tasks depend on; return those that were queried.

    `others`: further repositories that are watched, by polls of their own.
    """
    with store.read() as tx:
        awaited = _awaited_issues(tx)
        bare = awaited - tasks_of_issues(tx, awaited).keys()
        known = issues_known(tx, bare)
        watched = {IssueRef.of(repo, 1).repo for repo in (policy.repo, *others)}
        chosen = select_due(bare, known, watched, tx.now())
    found = _read_issues(forges, policy, chosen)
    if found:
        with store.write(SCOPE) as tx:
            for ref, (state, title) in found.items():
                _store_issue(tx, ref, state, title)
    return tuple(found)


def select_due(
    refs: Collection[IssueRef],
    known: Mapping[IssueRef, IssueState],
    watched: Collection[RepoName],
    now: datetime,
) -> list[IssueRef]:
    """Return which issues to query now: unknown ones first, then those seen longest ago."""

    def is_due(ref: IssueRef) -> bool:
        seen = known.get(ref)
        if seen is None:
            return True
        is_watched = ref.repo in watched and seen.state != MISSING
        interval = WATCHED_REFRESH_INTERVAL if is_watched else REFRESH_INTERVAL
        # A timestamp in the future counts as now.
        return seen.state != CLOSED and now - min(parse_timestamp(seen.seen_at), now) >= interval

    def last_seen(ref: IssueRef) -> str:
        return known[ref].seen_at if ref in known else ""

    return sorted(filter(is_due, refs), key=lambda ref: (last_seen(ref), ref))[:MAX_REFRESHED]


def _awaited_issues(tx: Transaction) -> set[IssueRef]:
    """Return the issues that any task depends on."""
    names = {name for task in waiting_dependents(tx, _UNFINISHED) for name in task.depends_on}
    return {ref for name in names if (ref := IssueRef.parse(name)) is not None}


def _read_issues(
    forges: ForgeFor, policy: RepoPolicy, refs: Iterable[IssueRef]
) -> dict[IssueRef, tuple[str, str]]:
    """Query state and title of issues, outside of any transaction."""
    found: dict[IssueRef, tuple[str, str]] = {}
    ours = IssueRef.of(policy.repo, 1).repo
    for ref in refs:
        forge = forges(policy.repo if ref.repo == ours else ref.repo)
        try:
            issue = forge.issue(ref.number)
            found[ref] = (OPEN if issue.state == "open" else CLOSED, issue.title)
        except ServerFailed:
            continue
        except (RateLimited, Unauthorized, Unreachable):
            break
        except ForgeError:
            # Deleted, moved or hidden: it cannot be read.
            found[ref] = (MISSING, "")
    return found


def _store_issue(tx: Transaction, ref: IssueRef, state: str, title: str) -> None:
    note_issue(tx, ref.repo, ref.number, state, title)


# Events decided in one transaction.
BATCH_SIZE = 100


def ingest_events(store: Store, forge: Forge, policy: RepoPolicy) -> ProcessResult:
    """Decide about all events in the inbox of a repository. Queries GitHub first."""
    with store.read() as tx:
        strangers, blocked = (
            find_issues_without_labellers(tx, policy),
            find_issues_without_blockers(tx, policy),
        )
        heads = find_heads_to_query(tx, policy)
    labellers = fetch_labellers(forge, strangers)
    # Query before a task is created: later its agent could start first.
    blockers = fetch_blockers(forge, blocked)
    return ingest_stored_events(
        store, policy, labellers, blockers, fetch_unfinished_runs(forge, heads)
    )


def ingest_stored_events(
    store: Store,
    policy: RepoPolicy,
    labellers: Mapping[int, dict[str, str]] | None = None,
    blockers: Mapping[int, tuple[Blocking, ...]] | None = None,
    unfinished: UnfinishedRuns | None = None,
) -> ProcessResult:
    """Decide about events by what is already known; those that need a query stay in the inbox.

    Each batch of events is one transaction with all of its effects, so that a long thread that is
    read for the first time does not lock the database for long.
    """
    with store.read() as tx:
        keys = list_pending_events(tx, policy)
    result = ProcessResult()
    for start in range(0, len(keys), BATCH_SIZE):
        with store.write(SCOPE, OUTBOX) as tx:
            some = keys[start : start + BATCH_SIZE]
            result += _ingest_batch(tx, policy, labellers or {}, blockers or {}, some, unfinished)
    return result


def _ingest_batch(
    tx: Transaction,
    policy: RepoPolicy,
    labellers: Mapping[int, dict[str, str]],
    blockers: Mapping[int, tuple[Blocking, ...]],
    keys: Collection[str],
    unfinished: UnfinishedRuns | None,
) -> ProcessResult:
    result = process_inbox(tx, policy, labellers, blockers, keys, unfinished)
    for index, task in enumerate(result.changed, start=1):
        after = publish_status_comment(
            tx, _break_cycles(tx, require_task(tx, task), result.changed[index:])
        )
        if policy.receipt:
            post_receipt(tx, after)
    _store_blocking_issues(tx, blockers.values())
    _store_issue_states(tx, policy, result)
    return result


def start_issue_now(
    store: Store,
    policy: RepoPolicy,
    issue: Issue,
    flow: Flow | None = None,
    by: str = "the operator",
    at: datetime | None = None,
) -> Task:
    """Start one issue because a user asked for it. `at`: the time by GitHub's clock."""
    with store.write(SCOPE, OUTBOX) as tx:
        return publish_status_comment(tx, start_issue(tx, policy, issue, flow, by, at))

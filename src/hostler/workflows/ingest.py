"""Turn events in the inbox into tasks and feedback, and refresh the issues that tasks wait for."""

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
# Events tell of these; asking is for the case that one was missed.
WATCHED_REFRESH_INTERVAL = timedelta(hours=1)
_UNFINISHED = tuple(state for state in TaskState if state not in OVER)

ForgeFor = Callable[[RepoName], Forge]


def break_cycles(tx: Transaction, task: Task, later: Collection[str] = ()) -> Task:
    """A task without dependencies that lead back to it; its reason says what was left out.

    `later`: tasks whose dependencies are looked at after this one, so that the last in a circle
    opens it, as if they had come one by one.
    """
    if task.over or task.attempt or not task.depends_on:
        return task
    known = read_graph(tx, task.depends_on)
    earlier = {name: names for name, names in known.items() if name not in later}
    kept, circles = split_cycles(earlier, task.id, task.depends_on)
    if not circles:
        return task
    told = [f"{one.what}. The first step of it is left out." for one in circles]
    reason = " ".join(text for text in (task.reason, *told) if text)
    return change_task(tx, task, replace(task, depends_on=kept, reason=reason))


def store_issue_states(tx: Transaction, watch: RepoPolicy, taken: ProcessResult) -> None:
    """Know what became of issues that somebody waits for, by what has just arrived."""
    keys = [heard.key for heard in taken.heard if heard.kind == ItemKind.ISSUE]
    wanted = _awaited_issues(tx) if keys else set()
    for row in rows_by_key(tx, watch.repo, keys) if wanted else ():
        seen, ref = parse_event(row), IssueRef.of(watch.repo, row.scope_number)
        if isinstance(seen, IssueEvent) and ref in wanted and is_newest(tx, row):
            _store_issue(tx, ref, OPEN if seen.is_open else CLOSED, seen.title)


def store_blocking_issues(tx: Transaction, told: Iterable[Sequence[Blocking]]) -> None:
    """Know what GitHub's lists say about issues that were not heard of before."""
    found = {IssueRef.of(one.repo, one.number): one for group in told for one in group}
    for ref in found.keys() - issues_known(tx, found).keys():
        _store_issue(tx, ref, found[ref].state, found[ref].title)


def refresh_dependencies(
    store: Store, forges: ForgeFor, watch: RepoPolicy, others: Collection[RepoName] = ()
) -> tuple[IssueRef, ...]:
    """Ask GitHub about issues that tasks wait for; those that were asked about.

    `others`: repositories that are watched as well, by looks of their own.
    """
    with store.read() as tx:
        awaited = _awaited_issues(tx)
        bare = awaited - tasks_of_issues(tx, awaited).keys()
        known = issues_known(tx, bare)
        watched = {IssueRef.of(repo, 1).repo for repo in (watch.repo, *others)}
        chosen = select_due(bare, known, watched, tx.now())
    found = _read_issues(forges, watch, chosen)
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
    """Which issues to ask about now: unknown ones first, then those not seen for longest."""

    def is_due(ref: IssueRef) -> bool:
        seen = known.get(ref)
        if seen is None:
            return True
        told = ref.repo in watched and seen.state != MISSING
        again = WATCHED_REFRESH_INTERVAL if told else REFRESH_INTERVAL
        # A stamp from the future counts as now.
        return seen.state != CLOSED and now - min(parse_timestamp(seen.seen_at), now) >= again

    def last_seen(ref: IssueRef) -> str:
        return known[ref].seen_at if ref in known else ""

    return sorted(filter(is_due, refs), key=lambda ref: (last_seen(ref), ref))[:MAX_REFRESHED]


def _awaited_issues(tx: Transaction) -> set[IssueRef]:
    """Issues that some task waits for."""
    names = {name for task in waiting_dependents(tx, _UNFINISHED) for name in task.depends_on}
    return {ref for name in names if (ref := IssueRef.parse(name)) is not None}


def _read_issues(
    forges: ForgeFor, watch: RepoPolicy, refs: Iterable[IssueRef]
) -> dict[IssueRef, tuple[str, str]]:
    """State and title of issues; the network is asked here, outside of any transaction."""
    found: dict[IssueRef, tuple[str, str]] = {}
    ours = IssueRef.of(watch.repo, 1).repo
    for ref in refs:
        forge = forges(watch.repo if ref.repo == ours else ref.repo)
        try:
            issue = forge.issue(ref.number)
            found[ref] = (OPEN if issue.state == "open" else CLOSED, issue.title)
        except ServerFailed:
            continue
        except (RateLimited, Unauthorized, Unreachable):
            break
        except ForgeError:
            # Gone, moved, hidden, or never there: for us there is none.
            found[ref] = (MISSING, "")
    return found


def _store_issue(tx: Transaction, ref: IssueRef, state: str, title: str) -> None:
    note_issue(tx, ref.repo, ref.number, state, title)


# So many events are decided about in one transaction.
BATCH_SIZE = 100


def ingest_events(store: Store, forge: Forge, watch: RepoPolicy) -> ProcessResult:
    """Decide about everything in the inbox of a repository. The network is asked before."""
    with store.read() as tx:
        strangers, blocked = (
            find_issues_without_labellers(tx, watch),
            find_issues_without_blockers(tx, watch),
        )
        heads = find_heads_to_query(tx, watch)
    labellers = fetch_labellers(forge, strangers)
    # Asked before a task begins: afterwards, its agent might be started first.
    blockers = fetch_blockers(forge, blocked)
    return ingest_stored_events(
        store, watch, labellers, blockers, fetch_unfinished_runs(forge, heads)
    )


def ingest_stored_events(
    store: Store,
    watch: RepoPolicy,
    labellers: Mapping[int, dict[str, str]] | None = None,
    blockers: Mapping[int, tuple[Blocking, ...]] | None = None,
    unfinished: UnfinishedRuns | None = None,
) -> ProcessResult:
    """The same by what is known already; what GitHub would have to be asked about waits on.

    A long thread that is read for the first time must not keep everybody from the database, so
    there are several transactions, each with its effects.
    """
    with store.read() as tx:
        keys = list_pending_events(tx, watch)
    taken = ProcessResult()
    for start in range(0, len(keys), BATCH_SIZE):
        with store.write(SCOPE, OUTBOX) as tx:
            some = keys[start : start + BATCH_SIZE]
            taken += _ingest_batch(tx, watch, labellers or {}, blockers or {}, some, unfinished)
    return taken


def _ingest_batch(
    tx: Transaction,
    watch: RepoPolicy,
    labellers: Mapping[int, dict[str, str]],
    blockers: Mapping[int, tuple[Blocking, ...]],
    keys: Collection[str],
    unfinished: UnfinishedRuns | None,
) -> ProcessResult:
    taken = process_inbox(tx, watch, labellers, blockers, keys, unfinished)
    for place, task in enumerate(taken.changed, start=1):
        after = publish_status_comment(
            tx, break_cycles(tx, require_task(tx, task), taken.changed[place:])
        )
        if watch.receipt:
            post_receipt(tx, after)
    store_blocking_issues(tx, blockers.values())
    store_issue_states(tx, watch, taken)
    return taken


def start_issue_now(
    store: Store,
    watch: RepoPolicy,
    issue: Issue,
    flow: Flow | None = None,
    by: str = "the operator",
    at: datetime | None = None,
) -> Task:
    """One issue now, because a person at the machine says so; `at`: GitHub's time."""
    with store.write(SCOPE, OUTBOX) as tx:
        return publish_status_comment(tx, start_issue(tx, watch, issue, flow, by, at))

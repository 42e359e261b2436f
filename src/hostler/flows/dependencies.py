"""What tasks of issues wait for: no circles among them, and what became of issues without a task.

Issues of watched repositories tell of themselves as they change. What nobody has seen yet, and
issues of other repositories, GitHub is asked about: a few in each look, each now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from hostler.errors import ForgeError, RateLimited, ServerFailed, Unauthorized, Unreachable
from hostler.forge.port import Blocking, Forge, ItemKind
from hostler.intake import IssueSeen, Taken, Watch, read
from hostler.model import RepoName, parse_stamp
from hostler.planner import graph_of, without_cycles
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
from hostler.store.tasks import OVER, SCOPE, IssueRef, Task, TaskState, change_task
from hostler.store.transaction import Transaction

MOST_ASKED = 10
ASK_AGAIN = timedelta(minutes=5)
# Events tell of these; asking is for the case that one was missed.
ASK_WATCHED_AGAIN = timedelta(hours=1)
_UNFINISHED = tuple(state for state in TaskState if state not in OVER)

Forges = Callable[[RepoName], Forge]


def untangle(tx: Transaction, task: Task, later: Collection[str] = ()) -> Task:
    """A task without dependencies that lead back to it; its reason says what was left out.

    `later`: tasks whose dependencies are looked at after this one, so that the last in a circle
    opens it, as if they had come one by one.
    """
    if task.over or task.attempt or not task.depends_on:
        return task
    known = graph_of(tx, task.depends_on)
    earlier = {name: names for name, names in known.items() if name not in later}
    kept, circles = without_cycles(earlier, task.id, task.depends_on)
    if not circles:
        return task
    told = [f"{one.what}. The first step of it is left out." for one in circles]
    reason = " ".join(text for text in (task.reason, *told) if text)
    return change_task(tx, task, replace(task, depends_on=kept, reason=reason))


def note_arrivals(tx: Transaction, watch: Watch, taken: Taken) -> None:
    """Know what became of issues that somebody waits for, by what has just arrived."""
    keys = [heard.key for heard in taken.heard if heard.kind == ItemKind.ISSUE]
    wanted = _awaited(tx) if keys else set()
    for row in rows_by_key(tx, watch.repo, keys) if wanted else ():
        seen, ref = read(row), IssueRef.of(watch.repo, row.scope_number)
        if isinstance(seen, IssueSeen) and ref in wanted and is_newest(tx, row):
            _note(tx, ref, OPEN if seen.is_open else CLOSED, seen.title)


def note_blocking(tx: Transaction, told: Iterable[Sequence[Blocking]]) -> None:
    """Know what GitHub's lists say about issues that were not heard of before."""
    found = {IssueRef.of(one.repo, one.number): one for group in told for one in group}
    for ref in found.keys() - issues_known(tx, found).keys():
        _note(tx, ref, found[ref].state, found[ref].title)


def refresh_dependencies(
    store: Store, forges: Forges, watch: Watch, others: Collection[RepoName] = ()
) -> tuple[IssueRef, ...]:
    """Ask GitHub about issues that tasks wait for; those that were asked about.

    `others`: repositories that are watched as well, by looks of their own.
    """
    with store.read() as tx:
        awaited = _awaited(tx)
        bare = awaited - tasks_of_issues(tx, awaited).keys()
        known = issues_known(tx, bare)
        watched = {IssueRef.of(repo, 1).repo for repo in (watch.repo, *others)}
        chosen = due(bare, known, watched, tx.now())
    found = _ask(forges, watch, chosen)
    if found:
        with store.write(SCOPE) as tx:
            for ref, (state, title) in found.items():
                _note(tx, ref, state, title)
    return tuple(found)


def due(
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
        again = ASK_WATCHED_AGAIN if told else ASK_AGAIN
        # A stamp from the future counts as now.
        return seen.state != CLOSED and now - min(parse_stamp(seen.seen_at), now) >= again

    def last_seen(ref: IssueRef) -> str:
        return known[ref].seen_at if ref in known else ""

    return sorted(filter(is_due, refs), key=lambda ref: (last_seen(ref), ref))[:MOST_ASKED]


def _awaited(tx: Transaction) -> set[IssueRef]:
    """Issues that some task waits for."""
    names = {name for task in waiting_dependents(tx, _UNFINISHED) for name in task.depends_on}
    return {ref for name in names if (ref := IssueRef.parse(name)) is not None}


def _ask(forges: Forges, watch: Watch, refs: Iterable[IssueRef]) -> dict[IssueRef, tuple[str, str]]:
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


def _note(tx: Transaction, ref: IssueRef, state: str, title: str) -> None:
    note_issue(tx, ref.repo, ref.number, state, title)

"""What is known of the CI of a pull request's head: by the inbox, and by asking the host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hostler.errors import ForgeError
from hostler.forge.ci import Run
from hostler.forge.deeds import RerunFailedJobs, unpack
from hostler.forge.payloads import run_of
from hostler.forge.port import Forge, ItemKind
from hostler.intake.ci import rerun_token
from hostler.intake.effects import Checks
from hostler.intake.people import Watch
from hostler.intake.signals import RunSeen, read
from hostler.store.inbox import rows_of_thread, rows_to_look_at, told_keys
from hostler.store.outbox import find_write
from hostler.store.pull_requests import PullRow, find_pull
from hostler.store.transaction import Transaction

# By head: its runs that were not over when the host was asked.
Unfinished = Mapping[str, tuple[Run, ...]]


def ask_runs(tx: Transaction, watch: Watch) -> list[str]:
    """Heads about which the host must be asked whether all of their runs are over."""
    if watch.ci != "all_complete":
        return []
    rows = rows_to_look_at(tx, watch.repo, (ItemKind.WORKFLOW_RUN.value,))
    pulls = (find_pull(tx, watch.repo, number) for number in {row.scope_number for row in rows})
    return sorted(
        pull.last_seen_head_sha
        for pull in pulls
        if pull and not pull.final and pull.last_seen_head_sha
    )


def unfinished_of(forge: Forge, heads: Iterable[str]) -> dict[str, tuple[Run, ...]]:
    """The runs of these heads that are not over; the network is asked here.

    A head about which the host did not answer is left out: its events wait.
    """
    found: dict[str, tuple[Run, ...]] = {}
    for head in heads:
        try:
            runs = [run_of(item.payload) for item in forge.runs_of(head).items]
        except ForgeError:
            continue
        found[head] = tuple(run for run in runs if not run.over)
    return found


def checks_of(
    tx: Transaction, watch: Watch, pull: PullRow, unfinished: Unfinished | None
) -> Checks:
    """The CI of a pull request's present head."""
    kind, head = ItemKind.WORKFLOW_RUN.value, pull.last_seen_head_sha
    rows = rows_of_thread(tx, watch.repo, pull.pr_number, kind, naming=head)
    signals = [read(row) for row in rows]
    seen = tuple(one for one in signals if isinstance(one, RunSeen) and _is_of(one.run, pull))
    keys = [one.row.event_key for one in seen]
    return Checks(
        seen,
        frozenset(told_keys(tx, watch.repo, keys)),
        _repeated(tx, watch, pull, {one.run.check for one in seen}),
        _goes_on(watch, pull, seen, unfinished),
    )


def _is_of(run: Run, pull: PullRow) -> bool:
    here = run.head_sha == pull.last_seen_head_sha and not run.foreign
    return here and run.branch in ("", pull.branch)


def _repeated(
    tx: Transaction, watch: Watch, pull: PullRow, checks: Iterable[str]
) -> dict[str, RerunFailedJobs]:
    found: dict[str, RerunFailedJobs] = {}
    for check in checks:
        row = find_write(tx, watch.repo, rerun_token(pull.last_seen_head_sha, check))
        deed = unpack(row.kind, row.payload) if row else None
        if isinstance(deed, RerunFailedJobs):
            found[check] = deed
    return found


def _goes_on(
    watch: Watch, pull: PullRow, seen: Iterable[RunSeen], unfinished: Unfinished | None
) -> bool | None:
    """Whether something still runs. What the inbox knows to be over is over, late lists or not."""
    if watch.ci != "all_complete":
        return False
    running = (unfinished or {}).get(pull.last_seen_head_sha)
    if running is None:
        return None
    over = {(one.run.id, one.run.attempt) for one in seen}
    return any(_is_of(run, pull) and (run.id, run.attempt) not in over for run in running)

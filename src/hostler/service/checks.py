"""Checks of `hostler doctor` for the service, and the fixes of `hostler doctor --fix`."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from hostler import __version__
from hostler.config.loader import load_settings
from hostler.errors import ConfigError
from hostler.governor.holders import free_memory_mb, prune, read_host
from hostler.governor.policy import read_policy
from hostler.health import CheckContext, CheckStatus, Finding, check, fix
from hostler.model import parse_timestamp
from hostler.planner.queue import find_stale
from hostler.runs.run_folder import kill_orphans, stored_shim
from hostler.service.context import OpenHome, Presence, open_home, read_presence
from hostler.service.gc.context import build_gc_context
from hostler.service.gc.files import CheckoutCollector
from hostler.service.gc.folders import list_folder
from hostler.service.scheduling.maintenance import CLEANABLE_STATES
from hostler.service.snapshot.history import measure_polls, read_poll_lags
from hostler.shim import orphans
from hostler.store import Store
from hostler.store.engine.backend import SqlitePlace
from hostler.store.runs import Run, RunState, open_runs, runs_marked
from hostler.store.tasks import Task, TaskState, find_task, newest_change, tasks_in
from hostler.store.transaction import age

# A running service finds such tasks by itself within seconds.
MAX_UNATTENDED = timedelta(minutes=5)
# Quotas and dependencies can delay work for hours; after a day it is reported.
MIN_LONG_WAIT = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class LongWait:
    """Tasks that one gate has denied for long, longest first."""

    gate: str
    tasks: list[Task]
    hours: int

    @classmethod
    def longest(cls, waiting: Iterable[Task], now: datetime) -> list[LongWait]:
        """Return, by gate, the tasks that have waited for more than a day."""
        held: dict[str, list[tuple[timedelta, Task]]] = {}
        for task in waiting:
            since = age(parse_timestamp(task.gate_since), now) if task.gate_since else timedelta(0)
            if task.gate and since > MIN_LONG_WAIT:
                held.setdefault(task.gate, []).append((since, task))
        return [cls._of(gate, held[gate]) for gate in sorted(held)]

    @classmethod
    def _of(cls, gate: str, found: list[tuple[timedelta, Task]]) -> LongWait:
        ordered = sorted(found, key=lambda one: (-one[0], one[1].id))
        hours = int(ordered[0][0] / timedelta(hours=1))
        return cls(gate, [task for _, task in ordered], hours)


def find_stalled_tasks(
    running: Iterable[Task], attended: Collection[str], now: datetime
) -> list[Task]:
    """Return running tasks that have no open run."""
    return find_stale(running, attended, now, MAX_UNATTENDED)


@dataclass(frozen=True, slots=True)
class OrphanedRun:
    """An ended run, and how many of its processes still exist."""

    run: Run
    processes: int


@dataclass(frozen=True, slots=True)
class CheckoutOwners:
    """Checkouts of unfinished tasks, of finished tasks, and of unknown ones."""

    used: int
    over: list[Task]
    strange: list[str]


def _find_orphaned_runs(store: Store) -> list[OrphanedRun]:
    """Return ended runs of this home whose processes still exist."""
    carried = orphans.count_marks()
    if not carried:
        return []
    with store.read() as tx:
        known = [(run, mark) for mark in carried for run in runs_marked(tx, mark)]
    return [
        OrphanedRun(run, carried[mark])
        for run, mark in known
        if run.state is RunState.ENDED and (stored_shim(run) or {}).get("mark") == mark
    ]


def _classify_checkouts(home: Path, store: Store) -> CheckoutOwners:
    """Classify the checkouts of a home. Reads every checkout."""
    used, over, strange = 0, [], []
    for folder in (
        path for project in list_folder(home / "checkouts") for path in list_folder(project)
    ):
        with store.read() as tx:
            task = find_task(tx, folder.name)
        if task is None or task.project != folder.parent.name:
            strange.append(f"{folder.parent.name}/{folder.name}")
        elif task.state in CLEANABLE_STATES:
            over.append(task)
        else:
            used += 1
    return CheckoutOwners(used, over, strange)


_OTHERS_RIGHTS = stat.S_IRWXO
_GROUP_AND_OTHERS_RIGHTS = stat.S_IRWXG | stat.S_IRWXO


@fix("home")
def fix_home_rights(context: CheckContext) -> Iterator[str]:
    """Remove write access of others to the home."""
    yield from _remove_rights(context.home, stat.S_IWOTH)


@fix("store.database")
def fix_database_rights(context: CheckContext) -> Iterator[str]:
    """Remove access of others to the database."""
    with open_home(context) as visit:
        place = visit.store.place if visit else None
    if isinstance(place, SqlitePlace):
        yield from _remove_rights(place.path, _OTHERS_RIGHTS)


@fix("credentials")
def fix_credential_rights(context: CheckContext) -> Iterator[str]:
    """Remove access of others to credential files."""
    try:
        github = load_settings(context.home, context.config_path).settings.github
    except ConfigError:
        return
    for name in filter(None, (github.token_file, github.app_private_key_file)):
        yield from _remove_rights(Path(name).expanduser(), _GROUP_AND_OTHERS_RIGHTS)


@fix("governor.leases")
def release_dead_leases(context: CheckContext) -> Iterator[str]:
    """Release leases and demand of processes that have ended."""
    with open_home(context) as visit:
        if visit is None:
            return
        policy, here = read_policy(context.home, visit.settings), read_host()
        with visit.store.write("admission", relaxed=True) as tx:
            found = prune(tx, policy, here)
    if found.ended:
        yield f"released {len(found.ended)} lease(s) of processes that have ended"


@fix("service.runs")
def kill_orphaned_processes(context: CheckContext) -> Iterator[str]:
    """Kill processes of ended runs."""
    with open_home(context) as visit:
        if visit is None:
            return
        grace = float(visit.settings.runtime.stop_grace_seconds)
        for stray in _find_orphaned_runs(visit.store):
            yield f"ended {kill_orphans(stray.run, grace)} process(es) of {stray.run.run}"


@fix("service.checkouts")
def remove_unused_checkouts(context: CheckContext) -> Iterator[str]:
    """Remove checkouts of finished tasks if no work is lost."""
    with open_home(context) as visit:
        if visit is None:
            return
        over = {
            f"{one.project}/{one.id}" for one in _classify_checkouts(context.home, visit.store).over
        }
        collector = CheckoutCollector(
            build_gc_context(context.home, visit.settings, visit.store, days=0)
        )
        for page in collector.scan():
            # Only checkouts that the check reported: a failed task may continue in its checkout.
            gone = collector.remove([one for one in page if one.goes and one.name in over])
            yield from (f"the checkout {one.name} was removed" for one in gone if one.goes)


def _remove_rights(path: Path, rights: int) -> Iterator[str]:
    """Remove rights. Raises for files of other users."""
    if not path.exists():
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & rights:
        os.chmod(path, mode & ~rights)  # noqa: PTH101 - a link's target, as it was looked at
        yield f"{path}: rights {mode:o} became {mode & ~rights:o}"


CLOCK, MEMORY, TASKS = "service.clock", "service.memory", "service.tasks"
RUNS, CHECKOUTS, VERSION = "service.runs", "service.checkouts", "service.version"
POLLS = "service.polls"
# Clocks of hosts that share a database differ by less than this.
_MAX_CLOCK_SKEW = timedelta(seconds=60)
_MAX_NAMED = 3
# A share of fewer polls than this is not reported.
_MIN_POLLS = 20
_WAITING_STATES = (TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED)


@check(CLOCK)
def check_clock(context: CheckContext) -> Iterator[Finding]:
    """Was anything stored in what is the future now?"""
    with open_home(context) as visit:
        if visit is None:
            yield _skipped(CLOCK)
            return
        with visit.store.read() as tx:
            newest, now = newest_change(tx), tx.now()
    if newest and parse_timestamp(newest) > now + _MAX_CLOCK_SKEW:
        evidence = f"it is {now:%Y-%m-%d %H:%M:%S} UTC, and a task was changed at {newest}"
        remedy = "Set the clock (NTP). Nothing is lost, but scheduled work may be late."
        yield Finding(CLOCK, CheckStatus.WARNING, evidence, remedy)
    else:
        yield Finding(CLOCK, CheckStatus.OK, f"{now:%Y-%m-%d %H:%M:%S} UTC")


@check(MEMORY)
def check_memory(context: CheckContext) -> Iterator[Finding]:
    """Is there more memory than is kept free?"""
    with open_home(context) as visit:
        floor = visit.settings.runtime.memory_floor_mb if visit else 0
    free = free_memory_mb()
    if free is None:
        yield Finding(MEMORY, CheckStatus.SKIPPED, "free memory cannot be read on this system")
    elif free < floor:
        evidence = f"{free:,} MB are free, less than the {floor:,} MB that are kept: nothing starts"
        remedy = "Stop programs that use memory, or lower `[runtime] memory_floor_mb`."
        yield Finding(MEMORY, CheckStatus.WARNING, evidence, remedy)
    else:
        yield Finding(MEMORY, CheckStatus.OK, f"{free:,} MB are free, {floor:,} MB are kept")


@check(TASKS)
def check_tasks(context: CheckContext) -> Iterator[Finding]:
    """Does work stand still with nobody to see it?"""
    with open_home(context) as visit:
        if visit is None:
            yield _skipped(TASKS)
            return
        found = list(_report_stalls(visit, read_presence(context.home)))
    yield from found or [Finding(TASKS, CheckStatus.OK, "no stalled tasks")]


def _report_stalls(visit: OpenHome, who: Presence) -> Iterator[Finding]:
    with visit.store.read() as tx:
        waiting, running = tasks_in(tx, _WAITING_STATES), tasks_in(tx, (TaskState.RUNNING,))
        attended, now = {run.task_id for run in open_runs(tx)}, tx.now()
    if not who.takes_tasks and (waiting or running):
        evidence = (
            f"{len(waiting) + len(running)} task(s) are waiting, and the service is not running"
        )
        yield Finding(TASKS, CheckStatus.WARNING, evidence, "Start one: hostler service")
        return
    lost = find_stalled_tasks(running, attended, now)
    if lost:
        evidence = f"{_list_tasks(lost)}: marked as running, without a run"
        yield Finding(TASKS, CheckStatus.WARNING, evidence, "Restart the service: hostler restart")
    for held in LongWait.longest(waiting, now):
        remedy = f"See why: hostler why {held.tasks[0].id}"
        evidence = f"{_list_tasks(held.tasks)}: waiting at the gate {held.gate} for {held.hours} h"
        yield Finding(TASKS, CheckStatus.WARNING, evidence, remedy)


@check(POLLS)
def check_polls(context: CheckContext) -> Iterator[Finding]:
    """Is every repository looked at when it is due?"""
    with open_home(context) as visit:
        if visit is None:
            yield _skipped(POLLS)
            return
        with visit.store.read() as tx:
            found, watched = read_poll_lags(tx), set(visit.settings.repo)
    served = read_presence(context.home).takes_tasks
    lags = {project: lag for project, lag in found.items() if project in watched}
    overdue = [project for project, lag in sorted(lags.items()) if lag.polls.late_since]
    aim = measure_polls(lags.values())
    if overdue and served:
        evidence = f"the poll of {', '.join(overdue[:_MAX_NAMED])} is overdue"
        yield Finding(
            POLLS,
            CheckStatus.WARNING,
            evidence,
            "See the newest file in `logs` of the home.",
        )
    elif aim.met is False and aim.of >= _MIN_POLLS:
        evidence = f"{aim.value:.1%} of {aim.of:,} polls of the last day were on time and complete"
        yield Finding(
            POLLS, CheckStatus.WARNING, evidence, "See what polling costs: hostler github cost"
        )
    else:
        yield Finding(POLLS, CheckStatus.OK, f"{aim.of:,} polls in the last day")


@check(RUNS)
def check_runs(context: CheckContext) -> Iterator[Finding]:
    """Do processes of runs that are over live on?"""
    with open_home(context) as visit:
        if visit is None:
            yield _skipped(RUNS)
            return
        found = _find_orphaned_runs(visit.store)
    if not found:
        yield Finding(RUNS, CheckStatus.OK, "no orphaned processes")
    for stray in found:
        evidence = f"{stray.processes} process(es) of the ended run {stray.run.run} still exist"
        yield Finding(RUNS, CheckStatus.WARNING, evidence, "End them: hostler doctor --fix")


@check(CHECKOUTS)
def check_checkouts(context: CheckContext) -> Iterator[Finding]:
    """Are there checkouts that no unfinished task needs?"""
    with open_home(context) as visit:
        if visit is None:
            yield _skipped(CHECKOUTS)
            return
        found = _classify_checkouts(context.home, visit.store)
    if found.over:
        evidence = f"{_list_tasks(found.over)}: finished, and the checkout is still there"
        remedy = "Remove what loses nothing: hostler doctor --fix (see also: hostler gc --dry-run)"
        yield Finding(CHECKOUTS, CheckStatus.WARNING, evidence, remedy)
    if found.strange:
        evidence = f"no task knows {', '.join(found.strange[:_MAX_NAMED])}"
        remedy = "Inspect it, and remove it manually: no task knows what it contains."
        yield Finding(CHECKOUTS, CheckStatus.WARNING, evidence, remedy)
    if not found.over and not found.strange:
        yield Finding(CHECKOUTS, CheckStatus.OK, f"{found.used} in use")


@check(VERSION)
def check_version(context: CheckContext) -> Iterator[Finding]:
    """Is the service of the version that is installed?"""
    holder = read_presence(context.home).holder
    if holder is None:
        yield Finding(VERSION, CheckStatus.OK, f"{__version__}; the service is not running")
    elif holder.version == __version__:
        yield Finding(VERSION, CheckStatus.OK, f"{__version__}, the service too")
    else:
        evidence = f"this is {__version__}, the service is {holder.version or 'older'}"
        yield Finding(VERSION, CheckStatus.WARNING, evidence, "Restart it: hostler restart")


def _skipped(name: str) -> Finding:
    return Finding(name, CheckStatus.SKIPPED, "settings or database cannot be read")


def _list_tasks(tasks: list[Task]) -> str:
    named = ", ".join(task.id for task in tasks[:_MAX_NAMED])
    return named + (f" and {len(tasks) - _MAX_NAMED} more" if len(tasks) > _MAX_NAMED else "")

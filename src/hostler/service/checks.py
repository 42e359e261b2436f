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

# A service that works finds such tasks by itself, within seconds.
MAX_UNATTENDED = timedelta(minutes=5)
# Quotas and dependencies hold work for hours; after a day somebody should know.
MIN_LONG_WAIT = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class LongWait:
    """Tasks that one gate has held for long, the longest first."""

    gate: str
    tasks: list[Task]
    hours: int

    @classmethod
    def longest(cls, waiting: Iterable[Task], now: datetime) -> list[LongWait]:
        """By gate, those that wait for longer than a day."""
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
    """Tasks that are said to run, and of which no run is open."""
    return find_stale(running, attended, now, MAX_UNATTENDED)


@dataclass(frozen=True, slots=True)
class OrphanedRun:
    """A run that is over, and how many of its processes live on."""

    run: Run
    processes: int


@dataclass(frozen=True, slots=True)
class CheckoutOwners:
    """Checkouts by who needs them: a task, a task that is over, or nobody that we know of."""

    used: int
    over: list[Task]
    strange: list[str]


def _find_orphaned_runs(store: Store) -> list[OrphanedRun]:
    """Runs of this home that are over, and whose processes live. Marks of others are no news."""
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
    """Whose the checkouts of a home are. Costs as much as there are."""
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
    """Nobody else writes to the home."""
    yield from _remove_rights(context.home, stat.S_IWOTH)


@fix("store.database")
def fix_database_rights(context: CheckContext) -> Iterator[str]:
    """Nobody else reads the database."""
    with open_home(context) as visit:
        place = visit.store.place if visit else None
    if isinstance(place, SqlitePlace):
        yield from _remove_rights(place.path, _OTHERS_RIGHTS)


@fix("credentials")
def fix_credential_rights(context: CheckContext) -> Iterator[str]:
    """Only their owner reads the files of credentials."""
    try:
        github = load_settings(context.home, context.config_path).settings.github
    except ConfigError:
        return
    for name in filter(None, (github.token_file, github.app_private_key_file)):
        yield from _remove_rights(Path(name).expanduser(), _GROUP_AND_OTHERS_RIGHTS)


@fix("governor.leases")
def release_dead_leases(context: CheckContext) -> Iterator[str]:
    """Leases and wishes of dead processes go."""
    with open_home(context) as visit:
        if visit is None:
            return
        policy, here = read_policy(context.home, visit.settings), read_host()
        with visit.store.write("admission", relaxed=True) as tx:
            found = prune(tx, policy, here)
    if found.ended:
        yield f"{len(found.ended)} lease(s) of the dead were given back"


@fix("service.runs")
def kill_orphaned_processes(context: CheckContext) -> Iterator[str]:
    """Processes of runs that are over end."""
    with open_home(context) as visit:
        if visit is None:
            return
        grace = float(visit.settings.runtime.stop_grace_seconds)
        for stray in _find_orphaned_runs(visit.store):
            yield f"{kill_orphans(stray.run, grace)} process(es) of {stray.run.run} were ended"


@fix("service.checkouts")
def remove_unused_checkouts(context: CheckContext) -> Iterator[str]:
    """Checkouts of finished tasks go, if nothing is lost with them."""
    with open_home(context) as visit:
        if visit is None:
            return
        over = {
            f"{one.project}/{one.id}" for one in _classify_checkouts(context.home, visit.store).over
        }
        broom = CheckoutCollector(
            build_gc_context(context.home, visit.settings, visit.store, days=0)
        )
        for page in broom.look():
            # Only what the check has told of: one that failed may go on in its checkout.
            gone = broom.remove([one for one in page if one.goes and one.name in over])
            yield from (f"the checkout {one.name} was removed" for one in gone if one.goes)


def _remove_rights(path: Path, rights: int) -> Iterator[str]:
    """Take rights away; what is not ours stays as it is, and says so by failing."""
    if not path.exists():
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & rights:
        os.chmod(path, mode & ~rights)  # noqa: PTH101 - a link's target, as it was looked at
        yield f"{path}: rights {mode:o} became {mode & ~rights:o}"


CLOCK, MEMORY, TASKS = "service.clock", "service.memory", "service.tasks"
RUNS, CHECKOUTS, VERSION = "service.runs", "service.checkouts", "service.version"
POLLS = "service.polls"
# Hosts that share a database differ by less, if their clocks are set at all.
_MAX_CLOCK_SKEW = timedelta(seconds=60)
_MAX_NAMED = 3
# Of fewer looks than this, a share says little.
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
        remedy = "Set the clock (NTP). Nothing is lost, but what has a time may come late."
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
        yield Finding(MEMORY, CheckStatus.SKIPPED, "how much is free cannot be told on this system")
    elif free < floor:
        evidence = f"{free:,} MB are free, less than the {floor:,} MB that are kept: nothing starts"
        remedy = "End what uses memory, or lower `[runtime] memory_floor_mb`."
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
    yield from found or [Finding(TASKS, CheckStatus.OK, "nothing stands still")]


def _report_stalls(visit: OpenHome, who: Presence) -> Iterator[Finding]:
    with visit.store.read() as tx:
        waiting, running = tasks_in(tx, _WAITING_STATES), tasks_in(tx, (TaskState.RUNNING,))
        attended, now = {run.task_id for run in open_runs(tx)}, tx.now()
    if not who.takes_tasks and (waiting or running):
        evidence = f"{len(waiting) + len(running)} task(s) wait, and no service works on this home"
        yield Finding(TASKS, CheckStatus.WARNING, evidence, "Start one: hostler service")
        return
    lost = find_stalled_tasks(running, attended, now)
    if lost:
        evidence = f"{_list_tasks(lost)}: said to run, and nobody works on it"
        yield Finding(
            TASKS, CheckStatus.WARNING, evidence, "Start the service anew: hostler restart"
        )
    for held in LongWait.longest(waiting, now):
        remedy = f"See why: hostler why {held.tasks[0].id}"
        evidence = f"{_list_tasks(held.tasks)}: at the gate {held.gate} for {held.hours} h"
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
        evidence = f"a look at {', '.join(overdue[:_MAX_NAMED])} is due, and not over"
        yield Finding(
            POLLS,
            CheckStatus.WARNING,
            evidence,
            "The newest file in `logs` of the home says what it meets.",
        )
    elif aim.met is False and aim.of >= _MIN_POLLS:
        evidence = f"{aim.value:.1%} of {aim.of:,} looks of the last day were in time and whole"
        yield Finding(
            POLLS, CheckStatus.WARNING, evidence, "What watching costs: hostler github cost"
        )
    else:
        yield Finding(POLLS, CheckStatus.OK, f"{aim.of:,} looks in the last day")


@check(RUNS)
def check_runs(context: CheckContext) -> Iterator[Finding]:
    """Do processes of runs that are over live on?"""
    with open_home(context) as visit:
        if visit is None:
            yield _skipped(RUNS)
            return
        found = _find_orphaned_runs(visit.store)
    if not found:
        yield Finding(RUNS, CheckStatus.OK, "no process outlived its run")
    for stray in found:
        evidence = f"{stray.processes} process(es) of {stray.run.run}, which is over, live on"
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
        remedy = "Look into it, and remove it by hand: nobody can say what it holds."
        yield Finding(CHECKOUTS, CheckStatus.WARNING, evidence, remedy)
    if not found.over and not found.strange:
        yield Finding(CHECKOUTS, CheckStatus.OK, f"{found.used} in use")


@check(VERSION)
def check_version(context: CheckContext) -> Iterator[Finding]:
    """Is the service of the version that is installed?"""
    holder = read_presence(context.home).holder
    if holder is None:
        yield Finding(VERSION, CheckStatus.OK, f"{__version__}; no service works on this home")
    elif holder.version == __version__:
        yield Finding(VERSION, CheckStatus.OK, f"{__version__}, the service too")
    else:
        evidence = f"this is {__version__}, the service is {holder.version or 'older'}"
        yield Finding(VERSION, CheckStatus.WARNING, evidence, "Start it anew: hostler restart")


def _skipped(name: str) -> Finding:
    return Finding(name, CheckStatus.SKIPPED, "settings or database cannot be read")


def _list_tasks(tasks: list[Task]) -> str:
    named = ", ".join(task.id for task in tasks[:_MAX_NAMED])
    return named + (f" and {len(tasks) - _MAX_NAMED} more" if len(tasks) > _MAX_NAMED else "")

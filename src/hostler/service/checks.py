"""What `hostler doctor` asks of the service: work that stands still, and what was left behind."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from hostler import __version__
from hostler.governor.holders import free_memory_mb
from hostler.health import Context, Finding, Status, check
from hostler.model import parse_stamp
from hostler.service import mends as _mends  # noqa: F401 - they register themselves
from hostler.service.leftovers import strays, unowned
from hostler.service.presence import Presence, presence
from hostler.service.snapshot.objectives import polls_on_time
from hostler.service.snapshot.polls import poll_lags
from hostler.service.standing_still import Waiting, without_anybody
from hostler.service.visiting import Visit, visiting
from hostler.store.runs import open_runs
from hostler.store.tasks import Task, TaskState, newest_change, tasks_in

CLOCK, MEMORY, TASKS = "service.clock", "service.memory", "service.tasks"
RUNS, CHECKOUTS, VERSION = "service.runs", "service.checkouts", "service.version"
POLLS = "service.polls"
# Hosts that share a database differ by less, if their clocks are set at all.
MOST_AHEAD = timedelta(seconds=60)
MOST_NAMED = 3
# Of fewer looks than this, a share says little.
FEWEST_POLLS = 20
_WAITING = (TaskState.QUEUED, TaskState.RETRYING, TaskState.PARKED)


@check(CLOCK)
def clock_goes_on(context: Context) -> Iterator[Finding]:
    """Was anything stored in what is the future now?"""
    with visiting(context) as visit:
        if visit is None:
            yield _unreadable(CLOCK)
            return
        with visit.store.read() as tx:
            newest, now = newest_change(tx), tx.now()
    if newest and parse_stamp(newest) > now + MOST_AHEAD:
        evidence = f"it is {now:%Y-%m-%d %H:%M:%S} UTC, and a task was changed at {newest}"
        remedy = "Set the clock (NTP). Nothing is lost, but what has a time may come late."
        yield Finding(CLOCK, Status.WARNING, evidence, remedy)
    else:
        yield Finding(CLOCK, Status.OK, f"{now:%Y-%m-%d %H:%M:%S} UTC")


@check(MEMORY)
def memory_is_free(context: Context) -> Iterator[Finding]:
    """Is there more memory than is kept free?"""
    with visiting(context) as visit:
        floor = visit.settings.runtime.memory_floor_mb if visit else 0
    free = free_memory_mb()
    if free is None:
        yield Finding(MEMORY, Status.SKIPPED, "how much is free cannot be told on this system")
    elif free < floor:
        evidence = f"{free:,} MB are free, less than the {floor:,} MB that are kept: nothing starts"
        remedy = "End what uses memory, or lower `[runtime] memory_floor_mb`."
        yield Finding(MEMORY, Status.WARNING, evidence, remedy)
    else:
        yield Finding(MEMORY, Status.OK, f"{free:,} MB are free, {floor:,} MB are kept")


@check(TASKS)
def tasks_go_on(context: Context) -> Iterator[Finding]:
    """Does work stand still with nobody to see it?"""
    with visiting(context) as visit:
        if visit is None:
            yield _unreadable(TASKS)
            return
        found = list(_standing_still(visit, presence(context.home)))
    yield from found or [Finding(TASKS, Status.OK, "nothing stands still")]


def _standing_still(visit: Visit, who: Presence) -> Iterator[Finding]:
    with visit.store.read() as tx:
        waiting, running = tasks_in(tx, _WAITING), tasks_in(tx, (TaskState.RUNNING,))
        attended, now = {run.task_id for run in open_runs(tx)}, tx.now()
    if not who.takes_tasks and (waiting or running):
        evidence = f"{len(waiting) + len(running)} task(s) wait, and no service works on this home"
        yield Finding(TASKS, Status.WARNING, evidence, "Start one: hostler service")
        return
    lost = without_anybody(running, attended, now)
    if lost:
        evidence = f"{_some(lost)}: said to run, and nobody works on it"
        yield Finding(TASKS, Status.WARNING, evidence, "Start the service anew: hostler restart")
    for held in Waiting.longest(waiting, now):
        remedy = f"See why: hostler why {held.tasks[0].id}"
        evidence = f"{_some(held.tasks)}: at the gate {held.gate} for {held.hours} h"
        yield Finding(TASKS, Status.WARNING, evidence, remedy)


@check(POLLS)
def looks_are_in_time(context: Context) -> Iterator[Finding]:
    """Is every repository looked at when it is due?"""
    with visiting(context) as visit:
        if visit is None:
            yield _unreadable(POLLS)
            return
        with visit.store.read() as tx:
            found, watched = poll_lags(tx), set(visit.settings.repo)
    served = presence(context.home).takes_tasks
    lags = {project: lag for project, lag in found.items() if project in watched}
    overdue = [project for project, lag in sorted(lags.items()) if lag.polls.late_since]
    aim = polls_on_time(lags.values())
    if overdue and served:
        evidence = f"a look at {', '.join(overdue[:MOST_NAMED])} is due, and not over"
        yield Finding(
            POLLS,
            Status.WARNING,
            evidence,
            "The newest file in `logs` of the home says what it meets.",
        )
    elif aim.met is False and aim.of >= FEWEST_POLLS:
        evidence = f"{aim.value:.1%} of {aim.of:,} looks of the last day were in time and whole"
        yield Finding(POLLS, Status.WARNING, evidence, "What watching costs: hostler github cost")
    else:
        yield Finding(POLLS, Status.OK, f"{aim.of:,} looks in the last day")


@check(RUNS)
def runs_leave_nothing(context: Context) -> Iterator[Finding]:
    """Do processes of runs that are over live on?"""
    with visiting(context) as visit:
        if visit is None:
            yield _unreadable(RUNS)
            return
        found = strays(visit.store)
    if not found:
        yield Finding(RUNS, Status.OK, "no process outlived its run")
    for stray in found:
        evidence = f"{stray.processes} process(es) of {stray.run.run}, which is over, live on"
        yield Finding(RUNS, Status.WARNING, evidence, "End them: hostler doctor --fix")


@check(CHECKOUTS)
def checkouts_are_used(context: Context) -> Iterator[Finding]:
    """Are there checkouts that no unfinished task needs?"""
    with visiting(context) as visit:
        if visit is None:
            yield _unreadable(CHECKOUTS)
            return
        found = unowned(context.home, visit.store)
    if found.over:
        evidence = f"{_some(found.over)}: finished, and the checkout is still there"
        remedy = "Remove what loses nothing: hostler doctor --fix (see also: hostler gc --dry-run)"
        yield Finding(CHECKOUTS, Status.WARNING, evidence, remedy)
    if found.strange:
        evidence = f"no task knows {', '.join(found.strange[:MOST_NAMED])}"
        remedy = "Look into it, and remove it by hand: nobody can say what it holds."
        yield Finding(CHECKOUTS, Status.WARNING, evidence, remedy)
    if not found.over and not found.strange:
        yield Finding(CHECKOUTS, Status.OK, f"{found.used} in use")


@check(VERSION)
def versions_agree(context: Context) -> Iterator[Finding]:
    """Is the service of the version that is installed?"""
    holder = presence(context.home).holder
    if holder is None:
        yield Finding(VERSION, Status.OK, f"{__version__}; no service works on this home")
    elif holder.version == __version__:
        yield Finding(VERSION, Status.OK, f"{__version__}, the service too")
    else:
        evidence = f"this is {__version__}, the service is {holder.version or 'older'}"
        yield Finding(VERSION, Status.WARNING, evidence, "Start it anew: hostler restart")


def _unreadable(name: str) -> Finding:
    return Finding(name, Status.SKIPPED, "settings or database cannot be read")


def _some(tasks: list[Task]) -> str:
    named = ", ".join(task.id for task in tasks[:MOST_NAMED])
    return named + (f" and {len(tasks) - MOST_NAMED} more" if len(tasks) > MOST_NAMED else "")

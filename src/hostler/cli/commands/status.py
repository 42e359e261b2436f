"""`hostler status`, and `hostler why`: the gate that denies a task its start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from hostler.cli.context import CommandHome, JsonOption, TaskArgument, global_options, open_home
from hostler.cli.output import (
    DIM,
    RED,
    YELLOW,
    colourise,
    format_labelled,
    format_local_time,
    print_json,
    print_line,
    terminal_width,
)
from hostler.text import escape_control, escape_line, format_age, shorten

if TYPE_CHECKING:
    from hostler.governor.status import PoolStatus
    from hostler.service.context import Presence
    from hostler.service.snapshot.activity import RunningAgent, TaskNeedingPerson
    from hostler.service.snapshot.snapshot import Snapshot
if TYPE_CHECKING:
    from hostler.service.scheduling.explain import ExplainInputs, Explanation


_MAX_RUNNING, _MAX_NEEDING_USER, _MAX_PAUSES, _MAX_POOLS = 6, 3, 2, 4


def register_status(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command()(status)


def status(context: typer.Context, json: JsonOption = False) -> None:
    """Show what is running and what needs you.

    Shows the service, running agents, task counts, tasks that need you, and pools.

    \b
    Example:
      hostler status
      hostler status --json | jq .needs_person
    """
    from hostler.errors import StoreMissing
    from hostler.service.context import read_presence
    from hostler.service.snapshot.snapshot import SnapshotReader

    try:
        with open_home(context) as opened:
            seen = SnapshotReader(opened.home, opened.settings, opened.store).read()
    except StoreMissing:
        found = read_presence(global_options(context).home_folder)
        _print_without_database(found, json=json)
        return
    if json:
        print_json(seen.as_json())
        return
    for line in _format_status(seen):
        print_line(line)


def _print_without_database(found: Presence, *, json: bool) -> None:
    if json:
        print_json({"service": None, "tasks": {}})
        return
    print_line(_format_line("service", found.sentence()))
    # A running service has a database: it was moved or deleted.
    missing = (
        "none: no database yet" if found.holder is None else "unknown: the database is missing"
    )
    print_line(_format_line("tasks", missing))


def _format_status(seen: Snapshot) -> Iterator[str]:
    yield _format_line("service", _describe_service(seen))
    if seen.full:
        yield _format_line("disk", seen.full, RED)
    yield from _format_pauses(seen)
    yield from _format_agents(seen)
    counts = ", ".join(
        f"{count} {state.value.replace('_', ' ')}" for state, count in seen.counts.items()
    )
    yield _format_line("tasks", counts or "none")
    yield from _format_needing_user(seen)
    yield from _format_pools(seen)
    if seen.unsent:
        yield _format_line("writes", f"{seen.unsent} to GitHub not yet sent")


def _format_line(label: str, text: str, colour: str = "") -> str:
    columns = terminal_width()
    shown = shorten(escape_control(text), None if columns is None else columns - 10)
    return f"{label:<9} {colourise(shown, colour) if colour else shown}"


def _describe_service(seen: Snapshot) -> str:
    from hostler.model import parse_timestamp

    holder = seen.presence.holder
    if holder is None:
        return "not running, no tasks will start (start it with: hostler service)"
    if not seen.presence.takes_tasks:
        return f"not running; {holder.program} {holder.purpose} (pid {holder.pid}) uses this home"
    since = format_age((seen.now - parse_timestamp(holder.since)).total_seconds())
    return f"running for {since} (pid {holder.pid} on {holder.host})"


def _format_pauses(seen: Snapshot) -> Iterator[str]:
    for one in seen.pauses[:_MAX_PAUSES]:
        what = "all work" if one.scope == "all" else one.scope.removeprefix("project:")
        why = f": {escape_line(one.why)}" if one.why else ""
        yield _format_line("paused", f"{what}, by {one.by} since {one.since}{why}", YELLOW)
    yield from _format_more("paused", len(seen.pauses), _MAX_PAUSES)


def _format_agents(seen: Snapshot) -> Iterator[str]:
    for number, one in enumerate(seen.at_work[:_MAX_RUNNING]):
        yield _format_line("" if number else "agents", _describe_agent(one))
    if not seen.at_work:
        yield _format_line("agents", "none running")
    yield from _format_more("", len(seen.at_work), _MAX_RUNNING)


def _describe_agent(one: RunningAgent) -> str:
    waits = ", waiting for children" if one.run.slot_released_at else ""
    title = escape_line(one.task.title) if one.task else ""
    return f"{format_age(one.seconds):>4}  {one.run.task_id}  ({one.run.agent}{waits}) {title}"


def _format_needing_user(seen: Snapshot) -> Iterator[str]:
    for number, one in enumerate(seen.needy[:_MAX_NEEDING_USER]):
        yield from _format_one_needing_user("" if number else "needs you", one)
    if not seen.needy:
        yield _format_line("needs you", "nothing")
    yield from _format_more("", len(seen.needy), _MAX_NEEDING_USER)


def _format_one_needing_user(label: str, one: TaskNeedingPerson) -> Iterator[str]:
    yield _format_line(label, f"{format_age(one.seconds):>4}  {one.task.id}", RED)
    yield _format_line("", f"      {escape_line(one.what)}")
    if one.then:
        yield _format_line("", f"      {escape_line(one.then)}")


def _format_pools(seen: Snapshot) -> Iterator[str]:
    governor = seen.governor
    shown = ", ".join(_describe_pool(one) for one in governor.pools[:_MAX_POOLS])
    more = len(governor.pools) - _MAX_POOLS
    yield _format_line("pools", shown + (f", and {more} more" if more > 0 else ""))
    ceiling = f" of {governor.machine_max_agents}" if governor.machine_max_agents else ""
    memory = "" if governor.free_mb is None else f", {governor.free_mb:,} MB of memory free"
    plural = "" if governor.on_machine == 1 and not ceiling else "s"
    yield _format_line("machine", f"{governor.on_machine}{ceiling} agent{plural}{memory}")


def _describe_pool(one: PoolStatus) -> str:
    parked = f", parked {one.parked.text}" if one.parked else ""
    return f"{one.pool} {one.active}/{one.cap}{parked}"


def _format_more(label: str, count: int, shown: int) -> Iterator[str]:
    if count > shown:
        yield _format_line(label, f"and {count - shown} more", DIM)


def register_why(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("why")(explain)


def explain(context: typer.Context, task: TaskArgument, json: JsonOption = False) -> None:
    """Explain why a task does not start.

    Shows the gate that denies it, when it opens, and what to do. Evaluates the same rules that
    start tasks, and changes nothing.

    \b
    Example:
      hostler why 20260301-101500-stable-tidy-up
      hostler why octo/stable#12 --json
    """
    from hostler.service.scheduling.explain import explain_task
    from hostler.service.tasks.details import resolve_task

    with open_home(context) as opened:
        inputs = build_explain_inputs(opened)
        with opened.store.read() as tx:
            now = tx.now()
            found = explain_task(tx, inputs, resolve_task(tx, task))
    if json:
        print_json(found.as_json())
        return
    seconds = (now - found.since).total_seconds() if found.since else 0.0
    for line in _format_why(found, seconds):
        print_line(line)


def build_explain_inputs(opened: CommandHome) -> ExplainInputs:
    """Build the inputs of `explain_task`."""
    from hostler.governor.holders import read_host
    from hostler.governor.policy import read_policy
    from hostler.service.context import read_presence
    from hostler.service.scheduling.explain import ExplainInputs
    from hostler.service.scheduling.gates import read_disk_space

    policy = read_policy(opened.home, opened.settings)
    found = read_presence(opened.home)
    return ExplainInputs(
        opened.store, opened.settings, policy, read_host(), found, read_disk_space(opened.home)
    )


def _format_why(found: Explanation, seconds: float) -> Iterator[str]:
    from hostler.task_states import state_text

    if not found.presence.takes_tasks and not found.task.over:
        yield from format_labelled("service", found.presence.sentence())
    yield from format_labelled("task", f"{found.task.id}: {state_text(found.task)}")
    if found.next is not None:
        yield from format_labelled("why", found.next.what)
        yield from format_labelled("then", found.next.then)
    if found.waits:
        yield from _format_gate(found, seconds)
        yield from _format_gates(found)


def _format_gate(found: Explanation, seconds: float) -> Iterator[str]:
    held = found.denial
    if held is None:
        running = found.presence.takes_tasks
        yield from format_labelled(
            "why", "It can start " + ("now." if running else "as soon as the service runs.")
        )
        return
    yield from format_labelled("gate", held.gate)
    yield from format_labelled("why", held.why or found.task.reason)
    if found.since is not None:
        yield from format_labelled(
            "since", f"{format_local_time(found.since)} ({format_age(seconds)})"
        )
    yield from format_labelled("opens", format_local_time(held.until) if held.until else "unknown")
    yield from format_labelled("do", held.remedy or "Wait.")
    for blocker in found.blockers[1:]:
        yield from format_labelled("", f"{blocker.sentence} {blocker.remedy}")


def _format_gates(found: Explanation) -> Iterator[str]:
    """Format all gates, grouped by their result."""
    by_result: dict[str, list[str]] = {}
    for gate, result in found.chain:
        by_result.setdefault(result.value, []).append(gate)
    for result_name, gates in by_result.items():
        yield from format_labelled(result_name.replace("_", " "), ", ".join(gates))

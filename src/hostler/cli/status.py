"""`hostler status`: who works, what waits, and what needs a person, on one screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from hostler.cli.looks import age, cut, plain, visible, width
from hostler.cli.output import DIM, RED, YELLOW, coloured, say, say_json
from hostler.cli.state import globals_of
from hostler.cli.task import Json, opened

if TYPE_CHECKING:
    from hostler.governor.status import PoolStatus
    from hostler.service.snapshot import AtWork, Needy, Snapshot

_MOST_AT_WORK, _MOST_NEEDY, _MOST_PAUSES, _MOST_POOLS = 6, 3, 2, 4


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command()(status)


def status(context: typer.Context, json: Json = False) -> None:
    """Show whether a service works, agents at work, counts of tasks, and what needs a person.

    \b
    Example:
      hostler status
      hostler status --json | jq .needs_person
    """
    from hostler.errors import StoreMissing
    from hostler.service.presence import presence
    from hostler.service.snapshot import Lookout

    try:
        with opened(context) as house:
            seen = Lookout(house.home, house.settings, house.store).look()
    except StoreMissing:
        found = presence(globals_of(context).home_folder)
        _without_database(found.sentence(), json=json)
        return
    if json:
        say_json(seen.as_json())
        return
    for line in _lines(seen):
        say(line)


def _without_database(sentence: str, *, json: bool) -> None:
    if json:
        say_json({"service": None, "tasks": {}})
    else:
        say(_line("service", sentence))
        say(_line("tasks", "none: this home has no database yet"))


def _lines(seen: Snapshot) -> Iterator[str]:
    yield _line("service", _service(seen))
    if seen.full:
        yield _line("disk", seen.full, RED)
    yield from _paused(seen)
    yield from _at_work(seen)
    counts = ", ".join(
        f"{count} {state.value.replace('_', ' ')}" for state, count in seen.counts.items()
    )
    yield _line("tasks", counts or "none")
    yield from _needy(seen)
    yield from _pools(seen)
    if seen.unsent:
        yield _line("writes", f"{seen.unsent} to GitHub not sent yet")


def _line(label: str, text: str, colour: str = "") -> str:
    columns = width()
    shown = cut(visible(text), None if columns is None else columns - 9)
    return f"{label:<8} {coloured(shown, colour) if colour else shown}"


def _service(seen: Snapshot) -> str:
    from hostler.model import parse_stamp

    holder = seen.presence.holder
    if holder is None:
        return "none works on this home: nothing starts (`hostler service`)"
    if not seen.presence.takes_tasks:
        return f"none; {holder.program} {holder.purpose} (pid {holder.pid}) holds the home"
    since = age((seen.now - parse_stamp(holder.since)).total_seconds())
    return f"works for {since}, pid {holder.pid} on {holder.host}"


def _paused(seen: Snapshot) -> Iterator[str]:
    for one in seen.pauses[:_MOST_PAUSES]:
        what = "everything" if one.scope == "all" else one.scope.removeprefix("project:")
        why = f": {plain(one.why)}" if one.why else ""
        yield _line("paused", f"{what}, by {one.by} since {one.since}{why}", YELLOW)
    yield from _more("paused", len(seen.pauses), _MOST_PAUSES)


def _at_work(seen: Snapshot) -> Iterator[str]:
    for number, one in enumerate(seen.at_work[:_MOST_AT_WORK]):
        yield _line("" if number else "agents", _agent(one))
    if not seen.at_work:
        yield _line("agents", "none at work")
    yield from _more("", len(seen.at_work), _MOST_AT_WORK)


def _agent(one: AtWork) -> str:
    waits = ", waits for others" if one.run.lent_at else ""
    title = plain(one.task.title) if one.task else ""
    return f"{age(one.seconds):>4}  {one.run.task_id}  ({one.run.agent}{waits}) {title}"


def _needy(seen: Snapshot) -> Iterator[str]:
    for number, one in enumerate(seen.needy[:_MOST_NEEDY]):
        yield from _person("" if number else "person", one)
    if not seen.needy:
        yield _line("person", "nobody is needed")
    yield from _more("", len(seen.needy), _MOST_NEEDY)


def _person(label: str, one: Needy) -> Iterator[str]:
    yield _line(label, f"{age(one.seconds):>4}  {one.task.id}", RED)
    yield _line("", f"      {plain(one.what)}")
    if one.then:
        yield _line("", f"      {plain(one.then)}")


def _pools(seen: Snapshot) -> Iterator[str]:
    governor = seen.governor
    shown = ", ".join(_pool(one) for one in governor.pools[:_MOST_POOLS])
    more = len(governor.pools) - _MOST_POOLS
    yield _line("pools", shown + (f", and {more} more" if more > 0 else ""))
    ceiling = f" of {governor.machine_max_agents}" if governor.machine_max_agents else ""
    memory = "" if governor.free_mb is None else f", {governor.free_mb:,} MB of memory free"
    yield _line("machine", f"{governor.on_machine}{ceiling} agents{memory}")


def _pool(one: PoolStatus) -> str:
    parked = f", closed {one.parked.in_words}" if one.parked else ""
    return f"{one.pool} {one.active}/{one.cap}{parked}"


def _more(label: str, count: int, shown: int) -> Iterator[str]:
    if count > shown:
        yield _line(label, f"and {count - shown} more", DIM)

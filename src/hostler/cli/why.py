"""`hostler why`: which gate holds a task, since when, and what a person can do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from hostler.cli.looks import age, labelled, moment
from hostler.cli.output import say, say_json
from hostler.cli.task import Json, Opened, Which, opened

if TYPE_CHECKING:
    from hostler.service.why import Inquiry, Why


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("why")(explain)


def explain(context: typer.Context, task: Which, json: Json = False) -> None:
    """Say why a task does not start: the gates it has passed, the one that holds it, what to do.

    It asks the same rules that start tasks, over the same rows, and changes nothing.

    \b
    Example:
      hostler why 20260301-101500-stable-tidy-up
      hostler why octo/stable#12 --json
    """
    from hostler.service.naming import task_meant
    from hostler.service.why import why

    with opened(context) as house:
        inquiry = inquiry_of(house)
        with house.store.read() as tx:
            now = tx.now()
            found = why(tx, inquiry, task_meant(tx, task))
    if json:
        say_json(found.as_json())
        return
    seconds = (now - found.since).total_seconds() if found.since else 0.0
    for line in _lines(found, seconds):
        say(line)


def inquiry_of(house: Opened) -> Inquiry:
    """What `why` asks with, from here."""
    from hostler.governor import look_around, read_policy
    from hostler.service.presence import presence
    from hostler.service.space import rooms_of
    from hostler.service.why import Inquiry

    policy = read_policy(house.home, house.settings)
    found = presence(house.home)
    return Inquiry(house.store, house.settings, policy, look_around(), found, rooms_of(house.home))


def _lines(found: Why, seconds: float) -> Iterator[str]:
    from hostler.service.following import state_words

    if not found.presence.takes_tasks and not found.task.over:
        yield from labelled("service", found.presence.sentence())
    yield from labelled("task", f"{found.task.id}: {state_words(found.task)}")
    if found.next is not None:
        yield from labelled("why", found.next.what)
        yield from labelled("then", found.next.then)
    if found.waits:
        yield from _held(found, seconds)
        yield from _gates(found)


def _held(found: Why, seconds: float) -> Iterator[str]:
    held = found.held
    if held is None:
        now = found.presence.takes_tasks
        yield from labelled("why", "Nothing holds it: it starts " + ("now." if now else "then."))
        return
    yield from labelled("gate", held.gate)
    yield from labelled("why", held.why or found.task.reason)
    if found.since is not None:
        yield from labelled("since", f"{moment(found.since)} ({age(seconds)})")
    yield from labelled("opens", moment(held.until) if held.until else "not known")
    yield from labelled("do", held.remedy or "Wait.")
    for blocker in found.blockers[1:]:
        yield from labelled("", f"{blocker.sentence} {blocker.remedy}")


def _gates(found: Why) -> Iterator[str]:
    """The whole chain, by what each gate says."""
    by_mark: dict[str, list[str]] = {}
    for gate, mark in found.chain:
        by_mark.setdefault(mark.value, []).append(gate)
    for said, gates in by_mark.items():
        yield from labelled(said.replace("_", " "), ", ".join(gates))

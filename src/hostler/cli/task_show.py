"""`hostler task show`: everything about one task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from hostler.cli.looks import age, cut, labelled, moment, plain, width
from hostler.cli.output import DIM, coloured, say, say_json
from hostler.cli.task import Json, Which, opened

if TYPE_CHECKING:
    from hostler.service.portrait import Portrait, Tree
    from hostler.service.why import Why
    from hostler.store.runs import Run
    from hostler.store.tasks import Task

# So many runs are shown to people; a task may have had a hundred.
_MOST_RUNS = 10
_MOST_DEEDS = 10


def register(commands: typer.Typer) -> None:
    """Add the command of this file."""
    commands.command()(show)


def show(context: typer.Context, task: Which, json: Json = False) -> None:
    """Show a task: state, why, what to do, place, children, runs, cost, what people did.

    \b
    Example:
      hostler task show 20260301-101500-stable-tidy-up
      hostler task show octo/stable#12 --json
    """
    from hostler.cli.why import inquiry_of
    from hostler.service.naming import task_meant
    from hostler.service.portrait import portrait
    from hostler.service.why import why

    with opened(context) as house:
        inquiry = inquiry_of(house)
        with house.store.read() as tx:
            found = portrait(tx, house.home, house.settings, task_meant(tx, task))
            held = why(tx, inquiry, found.task)
    if json:
        say_json({**found.as_json(), "waits": held.as_json() if held.waits else None})
        return
    for line in _lines(found, held):
        say(line)


def _lines(found: Portrait, held: Why) -> Iterator[str]:
    task = found.task
    yield cut(f"{task.id}  {plain(task.title)}", width())
    facts = (*_standing(found), *_next(found, held), *_place(found))
    for label, text in (*facts, *_relations(found), *_cost(found), *_deeds(found)):
        if text:
            yield from labelled(label, text)
    yield from _children(found)
    yield from _runs(found)


def _standing(found: Portrait) -> Iterator[tuple[str, str]]:
    from hostler.model import parse_stamp
    from hostler.service.following import state_words
    from hostler.store.transaction import age as age_of

    task = found.task
    begun = parse_stamp(task.state_since)
    since = age(age_of(begun, found.now).total_seconds())
    yield "state", f"{state_words(task)} since {moment(begun)} ({since})"
    yield "note", task.note[:500]


def _next(found: Portrait, held: Why) -> Iterator[tuple[str, str]]:
    """What it does and what comes then; for one that waits, the gate that holds it."""
    moves = held.waits or found.task.state == "running"
    if moves and not held.presence.takes_tasks:
        yield "service", held.presence.sentence()
    if not held.waits:
        yield "why", found.next.what
        yield "then", found.next.then
        return
    if held.held is None:
        yield "why", "Nothing holds it."
        return
    since = f" since {moment(held.since)}" if held.since else ""
    until = f", opens {moment(held.held.until)}" if held.held.until else ""
    yield "gate", f"{held.held.gate}{since}{until}"
    yield "why", held.held.why or found.task.reason
    yield "do", held.held.remedy


def _place(found: Portrait) -> Iterator[tuple[str, str]]:
    task = found.task
    yield "project", task.project
    yield "works in", task.cwd
    if task.repo_full_name:
        yield "works on", " · ".join(part for part in (task.repo_full_name, task.branch) if part)
    if found.checkout is not None and found.checkout.exists():
        yield "checkout", str(found.checkout)
    yield "issue", found.issue_url
    yield "pull", found.pull_url
    yield "agent", " · ".join(part for part in (task.agent, _session(task)) if part)
    yield "attempts", _attempts(found)
    yield "sees", ", ".join(task.env)
    yield "folder", str(found.folder)


def _relations(found: Portrait) -> Iterator[tuple[str, str]]:
    task = found.task
    yield "submitted", f"by {task.author}" if task.by_hand else ""
    yield "parent", task.parent_task or ""
    held = {one.name: one for one in found.blockers}
    for name in task.depends_on:
        told = f"{held[name].sentence} {held[name].remedy}" if name in held else "ready"
        yield "depends on", told if name in told else f"{name}: {told}"


def _cost(found: Portrait) -> Iterator[tuple[str, str]]:
    usd = sum(run.usd for run in found.runs)
    tokens = sum(run.input_tokens + run.output_tokens for run in found.runs)
    if usd or tokens:
        yield "cost", f"${usd:.2f}, {tokens:,} tokens"


def _session(task: Task) -> str:
    return f"session {task.session}" if task.session else ""


def _attempts(found: Portrait) -> str:
    task = found.task
    most = found.settings.tasks.max_restarts if task.max_restarts is None else task.max_restarts
    wall = f", {task.wall_limit_minutes} min each" if task.wall_limit_minutes else ""
    return f"{task.attempt} of {most}{wall}"


def _children(found: Portrait) -> Iterator[str]:
    from hostler.cli.task_list import lines

    below = list(_below(found.tree))
    if below:
        yield "children"
        yield from lines(below, found.now)


def _below(tree: Tree, depth: int = 0) -> Iterator[tuple[int, Task]]:
    for child in tree.children:
        yield depth, child.task
        yield from _below(child, depth + 1)


def _runs(found: Portrait) -> Iterator[str]:
    from hostler.service.portrait import seconds_of

    if not found.runs:
        return
    yield f"{'runs':<27} {'outcome':<13} {'took':>5} {'cost':>7}  why"
    for run in found.runs[-_MOST_RUNS:]:
        took, cost = age(seconds_of(run, found.now)), f"${run.usd:.2f}"
        head = f"{run.run:<27} {_outcome(run):<13} {took:>5} {cost:>7}  "
        yield cut(head + plain(run.why or run.stop_why or ""), width())
    earlier = len(found.runs) - _MOST_RUNS
    if earlier > 0:
        yield coloured(f"and {earlier} before; --json shows all", DIM)
    yield coloured(cut(f"files: {found.folder}/runs/<run>", width()), DIM)


def _deeds(found: Portrait) -> Iterator[tuple[str, str]]:
    """What people did with it; an answer behind its question."""
    from hostler.model import parse_stamp

    for deed in found.deeds[-_MOST_DEEDS:]:
        if deed.asked:
            yield "asked", f"{moment(parse_stamp(deed.asked_at or deed.at))}: {deed.asked}"
        said = f": {deed.text}" if deed.text else ""
        yield deed.what.value, f"{moment(parse_stamp(deed.at))} by {deed.by}{said}"


def _outcome(run: Run) -> str:
    if run.outcome is None:
        return "waits" if run.lent_at else run.state.value
    return run.outcome.replace("_", " ")

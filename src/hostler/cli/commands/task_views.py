"""`hostler task list` and `hostler task show`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.context import JsonOption, TaskArgument, open_home
from hostler.cli.output import (
    DIM,
    RED,
    YELLOW,
    colourise,
    format_labelled,
    format_local_time,
    print_json,
    print_line,
    print_note,
    terminal_width,
)
from hostler.text import escape_line, format_age, shorten

if TYPE_CHECKING:
    from hostler.store import Transaction
    from hostler.store.tasks import Task, TaskState
if TYPE_CHECKING:
    from hostler.service.scheduling.explain import Explanation
    from hostler.service.tasks.details import TaskDetails, TaskTree
    from hostler.store.runs import Run
    from hostler.store.tasks import Task


def register_list(commands: typer.Typer) -> None:
    """Add the command of this file."""
    commands.command("list")(list_tasks)


def list_tasks(
    context: typer.Context,
    project: Annotated[str, typer.Option(metavar="NAME", help="Only tasks of this project.")] = "",
    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Only tasks in this state (repeatable)."),
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Include finished tasks.")] = False,
    json: JsonOption = False,
) -> None:
    """List open tasks as a tree: state, time in that state, ID, title.

    States: queued, running, retrying, parked, awaiting_feedback, needs_input, blocked; finished
    ones: stopped, done, failed.

    \b
    Example:
      hostler task list
      hostler task list --project stable --state failed --state stopped
    """
    from hostler.errors import StoreMissing
    from hostler.service.tasks.details import brief_json
    from hostler.service.tasks.summary import order_as_tree
    from hostler.store.tasks import OVER

    states = _parse_states(state or [], all_=all_)
    found: list[Task] = []
    ended: list[Task] = []
    now = datetime.now().astimezone()
    try:
        with open_home(context) as opened, opened.store.read() as tx:
            found, now = _read_tasks(tx, states, project), tx.now()
            if not found:
                ended = _read_tasks(tx, list(OVER), project)
    except StoreMissing:
        pass
    if json:
        print_json([brief_json(task) for _, task in order_as_tree(found)])
        return
    for line in _format_tasks(order_as_tree(found), now):
        print_line(line)
    if not found:
        print_note(
            "No tasks match."
            if state or project or all_
            else f"No open tasks.{_failed_hint(ended)}"
        )


def _failed_hint(ended: list[Task]) -> str:
    """Name failed tasks, which the list leaves out unless --all is given."""
    from hostler.store.tasks import TaskState

    failed = sum(task.state is TaskState.FAILED for task in ended)
    return f" ({failed} failed: hostler task list --all)" if failed else ""


def _format_tasks(tasks: list[tuple[int, Task]], now: datetime) -> Iterator[str]:
    """Format one line per task, cut to the width of the terminal."""
    from hostler.model import parse_timestamp
    from hostler.store.transaction import age as age_of
    from hostler.task_states import state_text

    columns = terminal_width()
    for depth, task in tasks:
        seconds = age_of(parse_timestamp(task.state_since), now).total_seconds()
        head = f"{state_text(task):<13}  {format_age(seconds):>4}  "
        room = None if columns is None else columns - len(head)
        text = shorten(f"{'  ' * depth}{task.id}  {escape_line(task.title)}", room)
        yield _colour_head(task, head) + text


def _colour_head(task: Task, head: str) -> str:
    from hostler.store.tasks import TaskState

    if task.state in (TaskState.FAILED, TaskState.BLOCKED):
        return colourise(head, RED)
    return colourise(head, YELLOW) if task.state is TaskState.NEEDS_INPUT else head


def _read_tasks(tx: Transaction, states: list[TaskState], project: str) -> list[Task]:
    from hostler.store.tasks import tasks_in

    return [task for task in tasks_in(tx, states) if project in ("", task.project)]


def _parse_states(names: list[str], *, all_: bool) -> list[TaskState]:
    from hostler.service.tasks.summary import UNFINISHED_STATES
    from hostler.store.tasks import TaskState

    known = {state.value: state for state in TaskState}
    wrong = [name for name in names if _normalise_state(name) not in known]
    if wrong:
        raise typer.BadParameter(
            f"there is no state {wrong[0]!r}; choose from {', '.join(known)}", param_hint="--state"
        )
    if names:
        return [known[_normalise_state(name)] for name in names]
    return list(TaskState) if all_ else list(UNFINISHED_STATES)


def _normalise_state(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")


# Only the last ones are shown; a task may have had a hundred.
_MAX_RUNS = 10
_MAX_ACTIONS = 10


def register_show(commands: typer.Typer) -> None:
    """Add the command of this file."""
    commands.command()(show)


def show(context: typer.Context, task: TaskArgument, json: JsonOption = False) -> None:
    """Show a task: state, reason, next step, location, children, runs, cost, user actions.

    \b
    Example:
      hostler task show 20260301-101500-stable-tidy-up
      hostler task show octo/stable#12 --json
    """
    from hostler.cli.commands.status import build_explain_inputs
    from hostler.service.scheduling.explain import explain_task
    from hostler.service.tasks.details import read_task_details, resolve_task

    with open_home(context) as opened:
        inputs = build_explain_inputs(opened)
        with opened.store.read() as tx:
            found = read_task_details(tx, opened.home, opened.settings, resolve_task(tx, task))
            held = explain_task(tx, inputs, found.task)
    if json:
        print_json({**found.as_json(), "waits": held.as_json() if held.waits else None})
        return
    for line in _format_task(found, held):
        print_line(line)


def _format_task(found: TaskDetails, held: Explanation) -> Iterator[str]:
    task = found.task
    yield shorten(f"{task.id}  {escape_line(task.title)}", terminal_width())
    facts = (*_state_facts(found), *_next_facts(found, held), *_location_facts(found))
    for label, text in (
        *facts,
        *_relation_facts(found),
        *_cost_facts(found),
        *_action_facts(found),
    ):
        if text:
            yield from format_labelled(label, text)
    yield from _format_children(found)
    yield from _format_runs(found)


def _state_facts(found: TaskDetails) -> Iterator[tuple[str, str]]:
    from hostler.model import parse_timestamp
    from hostler.store.transaction import age as age_of
    from hostler.task_states import state_text

    task = found.task
    begun = parse_timestamp(task.state_since)
    since = format_age(age_of(begun, found.now).total_seconds())
    yield "state", f"{state_text(task)} since {format_local_time(begun)} ({since})"
    yield "note", task.note[:500]


def _next_facts(found: TaskDetails, held: Explanation) -> Iterator[tuple[str, str]]:
    """Yield what happens next; for a waiting task, the gate that denies it."""
    needs_service = held.waits or found.task.state == "running"
    if needs_service and not held.presence.takes_tasks:
        yield "service", held.presence.sentence()
    if not held.waits:
        yield "why", found.next.what
        yield "then", found.next.then
        return
    if held.denial is None:
        yield "why", "It can start."
        return
    since = f" since {format_local_time(held.since)}" if held.since else ""
    until = f", opens {format_local_time(held.denial.until)}" if held.denial.until else ""
    yield "gate", f"{held.denial.gate}{since}{until}"
    yield "why", held.denial.why or found.task.reason
    yield "do", held.denial.remedy


def _location_facts(found: TaskDetails) -> Iterator[tuple[str, str]]:
    task = found.task
    yield "project", task.project
    yield "works in", task.cwd
    if task.repo_full_name:
        yield "works on", " · ".join(part for part in (task.repo_full_name, task.branch) if part)
    if found.checkout is not None and found.checkout.exists():
        yield "checkout", str(found.checkout)
    yield "issue", found.issue_url
    yield "pull", found.pull_url
    yield "agent", " · ".join(part for part in (task.agent, _session_text(task)) if part)
    yield "attempts", _attempts_text(found)
    yield "env", ", ".join(task.env)
    yield "folder", str(found.folder)


def _relation_facts(found: TaskDetails) -> Iterator[tuple[str, str]]:
    task = found.task
    yield "submitted", f"by {task.author}" if task.by_hand else ""
    yield "parent", task.parent_task or ""
    held = {one.name: one for one in found.blockers}
    for name in task.depends_on:
        state = f"{held[name].sentence} {held[name].remedy}" if name in held else "ready"
        yield "depends on", state if name in state else f"{name}: {state}"


def _cost_facts(found: TaskDetails) -> Iterator[tuple[str, str]]:
    usd = sum(run.usd for run in found.runs)
    tokens = sum(run.input_tokens + run.output_tokens for run in found.runs)
    if usd or tokens:
        yield "cost", f"${usd:.2f}, {tokens:,} tokens"


def _session_text(task: Task) -> str:
    return f"session {task.session}" if task.session else ""


def _attempts_text(found: TaskDetails) -> str:
    task = found.task
    limit = found.settings.tasks.max_restarts if task.max_restarts is None else task.max_restarts
    wall = f", {task.wall_limit_minutes} min each" if task.wall_limit_minutes else ""
    return f"{task.attempt} of {limit}{wall}"


def _format_children(found: TaskDetails) -> Iterator[str]:

    below = list(_descendants(found.tree))
    if below:
        yield "children"
        yield from _format_tasks(below, found.now)


def _descendants(tree: TaskTree, depth: int = 0) -> Iterator[tuple[int, Task]]:
    for child in tree.children:
        yield depth, child.task
        yield from _descendants(child, depth + 1)


def _format_runs(found: TaskDetails) -> Iterator[str]:
    from hostler.service.tasks.details import run_duration_seconds

    if not found.runs:
        return
    yield f"{'runs':<27} {'outcome':<13} {'took':>5} {'cost':>7}  why"
    for run in found.runs[-_MAX_RUNS:]:
        took, cost = format_age(run_duration_seconds(run, found.now)), f"${run.usd:.2f}"
        head = f"{run.run:<27} {_run_outcome(run):<13} {took:>5} {cost:>7}  "
        yield shorten(head + escape_line(run.why or run.stop_why or ""), terminal_width())
    earlier = len(found.runs) - _MAX_RUNS
    if earlier > 0:
        yield colourise(f"and {earlier} earlier runs; --json shows all", DIM)
    yield colourise(shorten(f"files: {found.folder}/runs/<run>", terminal_width()), DIM)


def _action_facts(found: TaskDetails) -> Iterator[tuple[str, str]]:
    """Yield what users did with the task; an answer after its question."""
    from hostler.model import parse_timestamp

    for action in found.audit_entries[-_MAX_ACTIONS:]:
        if action.asked:
            asked_at = parse_timestamp(action.asked_at or action.at)
            yield "asked", f"{format_local_time(asked_at)}: {action.asked}"
        text = f": {action.text}" if action.text else ""
        at = format_local_time(parse_timestamp(action.at))
        yield action.what.value, f"{at} by {action.by}{text}"


def _run_outcome(run: Run) -> str:
    if run.outcome is None:
        return "waiting" if run.slot_released_at else run.state.value
    return run.outcome.replace("_", " ")

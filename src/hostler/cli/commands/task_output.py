"""`hostler task logs` and `hostler task tail`: the output of a task's agents."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.context import JsonOption, TaskArgument, open_home
from hostler.cli.output import DIM, colourise, print_json, print_line, print_note
from hostler.text import escape_control

if TYPE_CHECKING:
    from hostler.agents.agent_files import OutputLine
    from hostler.service.run_output import OutputFormatter
    from hostler.store.runs import Run


_DEFAULT_LOG_LINES, _DEFAULT_TAIL_LINES = 200, 20
# Longer lines are cut on the terminal.
_MAX_LINE_LENGTH = 2000


def register_output(commands: typer.Typer) -> None:
    """Add the commands of this file."""
    commands.command()(logs)
    commands.command()(tail)


def logs(
    context: typer.Context,
    task: TaskArgument,
    run: Annotated[
        str, typer.Option(metavar="RUN", help="Run ID or its beginning [default: the last run].")
    ] = "",
    stderr: Annotated[
        bool, typer.Option("--stderr", help="Show standard error instead of standard output.")
    ] = False,
    lines: Annotated[
        int, typer.Option(metavar="N", min=1, max=1_000_000, help="Number of lines from the end.")
    ] = _DEFAULT_LOG_LINES,
    raw: Annotated[bool, typer.Option("--raw", help="Print the output unformatted.")] = False,
    json: JsonOption = False,
) -> None:
    """Show the last output of a task's agent.

    Shows standard output; errors of an agent that failed to start are in --stderr. `hostler task
    show` lists the runs and where their complete output is. Event streams are formatted for
    reading; --json prints one event per line.

    \b
    Example:
      hostler task logs 20260301-101500-stable-tidy-up
      hostler task logs octo/stable#12 --stderr --lines 50
    """
    from hostler.agents.agent_files import OutputStream
    from hostler.service.run_output import has_event_stream, read_last_lines
    from hostler.service.tasks.details import resolve_task
    from hostler.store.runs import LIVE, runs_of

    stream = OutputStream.STDERR if stderr else OutputStream.STDOUT
    with open_home(context) as opened:
        with opened.store.read() as tx:
            meant = resolve_task(tx, task)
            found = _select_run(runs_of(tx, meant.id), run, meant.id)
        path = opened.home / found.folder / stream
        printed = read_last_lines(path, stream, lines, whole=found.state not in LIVE)
    if json and not has_event_stream(found.agent_kind):
        texts = [line.text for line in printed.lines]
        print_json({"run": found.run, "stream": stream, "path": path, "lines": texts})
        return
    printer = OutputPrinter(raw=raw, json=json)
    printer.begin(found)
    if printed.more:
        print_note(colourise(f"Complete output: {path}", DIM, sys.stderr))
    for line in printed.lines:
        printer.print(line)
    printer.end()
    if not printed.lines:
        other = "" if stderr else " Try --stderr."
        print_note(f"There is no output on standard {'error' if stderr else 'output'}.{other}")


def tail(
    context: typer.Context,
    task: TaskArgument,
    lines: Annotated[
        int, typer.Option(metavar="N", min=0, max=100_000, help="Start with the last N lines.")
    ] = _DEFAULT_TAIL_LINES,
    raw: Annotated[bool, typer.Option("--raw", help="Print the output unformatted.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON event per line.")] = False,
) -> None:
    """Follow the output of a task's agents until the task finishes or needs you.

    Shows standard output and standard error of all its runs. Ctrl-C stops following; the task
    continues.

    \b
    Example:
      hostler task tail 20260301-101500-stable-tidy-up
      hostler task tail 20260301-101500-stable-tidy-up --json
    """
    from hostler.service.context import read_presence
    from hostler.service.run_output import FollowedRun, follow_output
    from hostler.service.scheduling.task_waits import find_settled
    from hostler.service.tasks.details import resolve_task
    from hostler.service.tasks.summary import describe_task
    from hostler.store.tasks import require_task

    with open_home(context) as opened:
        with opened.store.read() as tx:
            meant = resolve_task(tx, task).id
            moving = not find_settled(tx, [meant])
        working = read_presence(opened.home)
        if moving and not working.takes_tasks:
            print_note(working.sentence())
        printer = OutputPrinter(raw=raw, json=json)
        for part in follow_output(opened.home, opened.store, opened.clock, meant, lines):
            if isinstance(part, FollowedRun):
                printer.begin(part.run)
            else:
                printer.print(part.line)
            sys.stdout.flush()
        printer.end()
        with opened.store.read() as tx:
            print_note(describe_task(require_task(tx, meant)))


def _select_run(runs: list[Run], name: str, task: str) -> Run:
    from hostler.errors import HostlerError

    found = [run for run in runs if run.run.startswith(name)] if name else runs[-1:]
    if len(found) == 1:
        return found[0]
    if not runs:
        raise HostlerError(
            f"The task {task} has not run yet.", remedy=f"See why with: hostler why {task}"
        )
    which = "Several runs begin" if found else "No run of this task begins"
    remedy = f"`hostler task show {task}` lists its runs."
    raise HostlerError(f"{which} with {name[:80]!r}.", remedy=remedy)


class OutputPrinter:
    """Prints the output of runs, one after the other: formatted, raw, or as JSON events."""

    def __init__(self, *, raw: bool, json: bool) -> None:
        self._raw = raw
        self._json = json
        self._run: Run | None = None
        self._formatter: OutputFormatter | None = None

    def begin(self, run: Run) -> None:
        """Start printing another run."""
        from hostler.service.run_output import OutputFormatter

        self.end()
        self._run, self._formatter = run, OutputFormatter(run.agent_kind)
        print_note(colourise(_run_heading(run), DIM, sys.stderr))

    def print(self, line: OutputLine) -> None:
        """Print one more line of the run."""
        assert self._run and self._formatter, "call begin first"
        if self._json:
            self._print_events(self._run, line)
        elif self._raw:
            print_line(line.text)
        else:
            _print_all(self._formatter.of(line))

    def end(self) -> None:
        """Print what is buffered of the run."""
        if self._formatter is not None:
            _print_all(self._formatter.rest())

    def _print_events(self, run: Run, line: OutputLine) -> None:
        from json import dumps

        from hostler.service.run_output import event_json, parse_line

        for event in parse_line(run.agent_kind, line):
            print_line(dumps(event_json(run.run, event)))


def _print_all(texts: Iterable[str]) -> None:
    for text in texts:
        shown = escape_control(text)
        print_line(shown if len(shown) <= _MAX_LINE_LENGTH else f"{shown[:_MAX_LINE_LENGTH]}…")


def _run_heading(run: Run) -> str:
    ended = f", {run.outcome}" if run.outcome else ""
    return f"-- run {run.run}, attempt {run.attempt}, {run.agent}{ended}"

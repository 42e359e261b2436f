"""`hostler task logs | tail`: what a task's agents printed, and print."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.looks import visible
from hostler.cli.output import DIM, coloured, note, say, say_json
from hostler.cli.task import Json, Which, opened

if TYPE_CHECKING:
    from hostler.agents.lines import Line
    from hostler.service.readable import Readable
    from hostler.store.runs import Run

_USUAL_LOGS, _USUAL_TAIL = 200, 20
# What a terminal is spared of one line.
_LONGEST = 2000


def register(commands: typer.Typer) -> None:
    """Add the commands of this file."""
    commands.command()(logs)
    commands.command()(tail)


def logs(
    context: typer.Context,
    task: Which,
    run: Annotated[str, typer.Option(metavar="RUN", help="Which run [default: the last].")] = "",
    stderr: Annotated[bool, typer.Option("--stderr", help="Its standard error.")] = False,
    lines: Annotated[
        int, typer.Option(metavar="N", min=1, max=1_000_000, help="How many, from the end.")
    ] = _USUAL_LOGS,
    raw: Annotated[bool, typer.Option("--raw", help="As printed, not as people read it.")] = False,
    json: Json = False,
) -> None:
    """Show the last lines that an agent of a task printed.

    `hostler task show` lists its runs. The whole output is a file in the run's folder. Streams
    of events are told in words; with --json, each event is a line.

    \b
    Example:
      hostler task logs 20260301-101500-stable-tidy-up
      hostler task logs octo/stable#12 --stderr --lines 50
    """
    from hostler.agents.lines import Stream
    from hostler.service.naming import task_meant
    from hostler.service.outputs import last_lines
    from hostler.service.readable import has_stream
    from hostler.store.runs import LIVE, runs_of

    stream = Stream.STDERR if stderr else Stream.STDOUT
    with opened(context) as house:
        with house.store.read() as tx:
            meant = task_meant(tx, task)
            found = _chosen(runs_of(tx, meant.id), run, meant.id)
        path = house.home / found.folder / stream
        printed = last_lines(path, stream, lines, whole=found.state not in LIVE)
    if json and not has_stream(found.agent_kind):
        texts = [line.text for line in printed.lines]
        say_json({"run": found.run, "stream": stream, "path": path, "lines": texts})
        return
    teller = Teller(raw=raw, json=json)
    teller.begin(found)
    if printed.more:
        note(coloured(f"Earlier lines are in {path}.", DIM, sys.stderr))
    for line in printed.lines:
        teller.tell(line)
    teller.end()
    if not printed.lines:
        note("It has printed nothing there.")


def tail(
    context: typer.Context,
    task: Which,
    lines: Annotated[
        int, typer.Option(metavar="N", min=0, max=100_000, help="Begin with so many old ones.")
    ] = _USUAL_TAIL,
    raw: Annotated[bool, typer.Option("--raw", help="As printed, not as people read it.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One event per line, for programs.")] = False,
) -> None:
    """Follow what a task's agents print, from run to run, until the task is at rest.

    Streams of events are told in words. Ctrl-C ends the following, and nothing else.

    \b
    Example:
      hostler task tail 20260301-101500-stable-tidy-up
      hostler task tail 20260301-101500-stable-tidy-up --json
    """
    from hostler.service.following import sentence
    from hostler.service.naming import task_meant
    from hostler.service.presence import presence
    from hostler.service.resting import rested
    from hostler.service.tailing import Begun, follow
    from hostler.store.tasks import require_task

    with opened(context) as house:
        with house.store.read() as tx:
            meant = task_meant(tx, task).id
            moving = not rested(tx, [meant])
        working = presence(house.home)
        if moving and not working.takes_tasks:
            note(working.sentence())
        teller = Teller(raw=raw, json=json)
        for told in follow(house.home, house.store, house.clock, meant, lines):
            if isinstance(told, Begun):
                teller.begin(told.run)
            else:
                teller.tell(told.line)
            sys.stdout.flush()
        teller.end()
        with house.store.read() as tx:
            note(sentence(require_task(tx, meant)))


def _chosen(runs: list[Run], name: str, task: str) -> Run:
    from hostler.errors import HostlerError

    found = [run for run in runs if run.run.startswith(name)] if name else runs[-1:]
    if len(found) == 1:
        return found[0]
    if not runs:
        raise HostlerError(
            f"The task {task} has had no run yet.", remedy=f"See why: hostler why {task}"
        )
    which = "Several runs begin" if found else "No run of it begins"
    remedy = f"`hostler task show {task}` lists them."
    raise HostlerError(f"{which} with {name[:80]!r}.", remedy=remedy)


class Teller:
    """Tells what runs print, one after the other: in words, as printed, or as events."""

    def __init__(self, *, raw: bool, json: bool) -> None:
        self._raw = raw
        self._json = json
        self._run: Run | None = None
        self._words: Readable | None = None

    def begin(self, run: Run) -> None:
        """From here on, another run is told of."""
        from hostler.service.readable import Readable

        self.end()
        self._run, self._words = run, Readable(run.agent_kind)
        note(coloured(_heading(run), DIM, sys.stderr))

    def tell(self, line: Line) -> None:
        """One more line of it."""
        assert self._run and self._words, "a run begins first"
        if self._json:
            self._say_events(self._run, line)
        elif self._raw:
            say(line.text)
        else:
            _say_all(self._words.of(line))

    def end(self) -> None:
        """Nothing more of it comes."""
        if self._words is not None:
            _say_all(self._words.rest())

    def _say_events(self, run: Run, line: Line) -> None:
        from json import dumps

        from hostler.service.readable import as_json, events_of

        for event in events_of(run.agent_kind, line):
            say(dumps(as_json(run.run, event)))


def _say_all(texts: Iterable[str]) -> None:
    for text in texts:
        shown = visible(text)
        say(shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…")


def _heading(run: Run) -> str:
    ended = f", {run.outcome}" if run.outcome else ""
    return f"-- run {run.run}, attempt {run.attempt}, {run.agent}{ended}"

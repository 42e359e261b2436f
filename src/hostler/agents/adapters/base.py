"""The interface of agent kinds, and what adapters share: programs, prompts, JSON streams."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from hostler.agents.adapters.json_access import get_text, parse_object
from hostler.agents.agent_files import OutputLine, OutputStream
from hostler.agents.assignment import Assignment, Launch
from hostler.agents.events import Event, Noise, SessionEvent, StreamTally
from hostler.agents.outcomes import Outcome
from hostler.agents.verdict import DecidedBy, RunVerdict, judge_exit_code
from hostler.config.settings import Agent
from hostler.errors import Problem
from hostler.text import format_code

# The form of session ids that most programs use.
UUID_PATTERN = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


@dataclass(frozen=True, slots=True)
class LoginQuery:
    """A command that tells whether the program is logged in, without asking a model.

    `answer` reads its exit code, output and errors: yes, no, or None if unknown.
    """

    arguments: tuple[str, ...]
    answer: Callable[[int, str, str], bool | None]


@dataclass(frozen=True, slots=True)
class AgentProgram:
    """One program.

    variables  of our environment that it gets without being listed: its provider's key and URLs
    settings   variables that it always gets
    keys       those of them that contain a key with which it needs no login
    known      the version whose output was recorded; newer output may not be understood
    version    arguments that print the version and do nothing else
    login      how to check its login; None: it cannot be checked
    session    the form of its session ids; other ids are rejected
    apart      whether it starts each tool in its own session
    carried    what it keeps counting when a session is resumed: `usage`, `usd`
    """

    name: str
    known: str
    variables: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    version: tuple[str, ...] = ("--version",)
    login: LoginQuery | None = None
    session: str = UUID_PATTERN
    carried: frozenset[str] = frozenset()
    # As observed for all known programs.
    apart: bool = True

    def argv(self, agent: Agent) -> tuple[str, ...]:
        """Return its command: its name, or as in the settings."""
        return tuple(agent.command) or (self.name,)

    def is_session_id(self, name: str) -> bool:
        """Return whether a session id has this form. An agent may print any other."""
        return re.fullmatch(self.session, name) is not None

    def session_argument(self, work: Assignment) -> str:
        """Return the session to resume as an argument; empty: a new one."""
        return work.session if self.is_session_id(work.session) else ""

    def mistakes(self, agent: Agent, path: str) -> Sequence[Problem]:
        """Return a mistake if the program is missing."""
        return check_program_exists(self.argv(agent)[0], path)


def find_program(program: str, path: str) -> str | None:
    """Return the path of a program; None if it is missing or unknown yet."""
    return None if _is_in_checkout(program) else shutil.which(program, path=path)


def check_program_exists(program: str, path: str) -> list[Problem]:
    """Return a mistake if the program is missing. One inside the checkout is not known yet."""
    if _is_in_checkout(program) or find_program(program, path):
        return []
    hint = "Install it, or set its full path."
    return [Problem("command", f'"{program}"', "a program on PATH", hint)]


def _is_in_checkout(program: str) -> bool:
    return "/" in program and not program.startswith("/")


class AgentKind(Protocol):
    """One kind of agent. All but `mistakes` are pure and keep no state between calls.

    `program`: what is known of its program; None if it may be any.
    """

    @property
    def program(self) -> AgentProgram | None: ...

    def mistakes(self, agent: Agent, path: str) -> Sequence[Problem]:
        """Return what in its settings or on this machine prevents a start."""
        ...

    def launch(self, agent: Agent, work: Assignment, env: Mapping[str, str]) -> Launch:
        """Return how to start its process for this run in this environment, without limits."""
        ...

    def events(self, line: OutputLine) -> Sequence[Event]:
        """Parse one line of its output."""
        ...

    def program_verdict(self, exit_code: int | None, tally: StreamTally, /) -> RunVerdict:
        """Judge the end by the program's exit code and stream, before files and our own actions."""
        ...


PROMPT_PLACEHOLDER = "{prompt_file}"


def fill_prompt(argv: Sequence[str], how: str, path: Path) -> tuple[tuple[str, ...], str]:
    """Return the arguments and the file for standard input.

    A placeholder is replaced wherever it occurs. A prompt that is passed as a file is the last
    argument if no placeholder names its position.
    """
    filled = tuple(argument.replace(PROMPT_PLACEHOLDER, str(path)) for argument in argv)
    if how == "stdin":
        return filled, str(path)
    return (filled if filled != tuple(argv) else (*filled, str(path))), ""


# Quote at most this much of a program's message. It may be published.
MAX_QUOTE_LENGTH = 300
# From here on, an exit code means a signal.
FIRST_SIGNAL_CODE = 128
UNKNOWN_HINT = (
    "Its version may be newer than the known ones: see `hostler agents check`, and try "
    "`hostler agents classify` on the kept stream."
)


def judge_stream_end(exit_code: int | None, tally: StreamTally) -> RunVerdict:
    """Judge the end of a program by its stream."""
    ended = tally.finished
    if ended is not None and ended.ok and exit_code == 0:
        return RunVerdict(Outcome.SUCCESS, DecidedBy.STREAM, "Its last event reported success.")
    if ended is not None and not ended.ok:
        return _judge_failed(tally, ended.outcome, ended.text)
    if not tally.said and exit_code is not None and 0 < exit_code < FIRST_SIGNAL_CODE:
        return _judge_not_begun(exit_code, tally)
    if exit_code == 0:
        why = f"It exited with 0, but without its last event. {UNKNOWN_HINT}"
        return RunVerdict(Outcome.CRASH, DecidedBy.STREAM, why)
    found = judge_exit_code(exit_code)
    if ended is not None:
        return replace(found, why=f"{found.why} It had reported success.")
    return (
        replace(found, why=f"{found.why} {UNKNOWN_HINT}")
        if tally.said and (exit_code or 0) > 0
        else found
    )


def _judge_failed(tally: StreamTally, outcome: Outcome | None, text: str) -> RunVerdict:
    """A limit named by its failing request comes before the status of the request."""
    fault = tally.fault.reason if tally.fault else None
    found = fault if fault is Outcome.QUOTA or outcome is None else outcome
    quoted = format_code(text, MAX_QUOTE_LENGTH)
    if found is None:
        told = f"It failed with an unknown message: {quoted}. {UNKNOWN_HINT}"
        return RunVerdict(Outcome.CRASH, DecidedBy.STREAM, told)
    return RunVerdict(found, DecidedBy.STREAM, quote_failure(text, found))


def quote_failure(text: str, outcome: Outcome) -> str:
    """Return the program's own message about its failure, or how it exited."""
    if not text.strip():
        return f"It reported the outcome {outcome}."
    return f"It says: {format_code(text, MAX_QUOTE_LENGTH)}"


def _judge_not_begun(exit_code: int, tally: StreamTally) -> RunVerdict:
    why = f"It ended with {exit_code} before it began"
    quoted = f": {format_code(tally.aside, MAX_QUOTE_LENGTH)}" if tally.aside.strip() else "."
    return RunVerdict(Outcome.CONFIG, DecidedBy.EXIT_CODE, f"{why}{quoted}")


# What lines of one type mean.
LineParser = Callable[[Mapping[str, Any]], Iterator[Event]]


def ignore_line(_raw: Mapping[str, Any]) -> Iterator[Event]:
    """Ignore known lines without a meaning for us."""
    return iter(())


class StreamAdapter:
    """Base class: a program, and parsers by the `type` of a line. Other lines are noise."""

    PROGRAM: ClassVar[AgentProgram]
    READ: ClassVar[Mapping[str, LineParser]]

    @property
    def program(self) -> AgentProgram:
        return self.PROGRAM

    def mistakes(self, agent: Agent, path: str) -> Sequence[Problem]:
        return self.PROGRAM.mistakes(agent, path)

    def events(self, line: OutputLine) -> Sequence[Event]:
        if line.stream is OutputStream.STDERR:
            return [*self.aside(line.text), Noise(line.text, aside=True)]
        raw = parse_object(line.text)
        read = self.READ.get(get_text(raw, "type")) if raw is not None else None
        if raw is None or read is None:
            return [Noise(line.text)]
        return [self._check_session(event, line) for event in read(raw)]

    def _check_session(self, event: Event, line: OutputLine) -> Event:
        """Reject session ids of an unknown form: they are used as an argument later."""
        if (
            not isinstance(event, SessionEvent)
            or not event.id
            or self.PROGRAM.is_session_id(event.id)
        ):
            return event
        return Noise(line.text)

    def aside(self, _text: str) -> Iterator[Event]:
        """Parse a line of standard error."""
        return iter(())

    def program_verdict(self, exit_code: int | None, tally: StreamTally, /) -> RunVerdict:
        return judge_stream_end(exit_code, tally)

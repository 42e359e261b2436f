"""`hostler agents`, and `hostler done` and `hostler ask`, which agents call inside a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.context import JsonOption, global_options, load_settings
from hostler.cli.help import CommandGroup
from hostler.cli.output import print_json, print_line, print_note
from hostler.config.agent_kinds import AgentKindName
from hostler.errors import HostlerError

if TYPE_CHECKING:
    from hostler.config.settings import Agent
    from hostler.service.agent_checks import AgentInfo
if TYPE_CHECKING:
    from pathlib import Path

    from hostler.agents.agent_files import OutputLine
    from hostler.config.settings import Agent
    from hostler.service.agent_checks import AgentSmokeTest, SmokeTestResult
    from hostler.service.run_output import OutputFormatter


commands = CommandGroup("agents")


class EndedByOption(StrEnum):
    """Reasons for which Hostler ends a run."""

    STOP = "stop"
    WALL_TIMEOUT = "wall_timeout"
    STALL = "stall"


def register_agents(app: typer.Typer) -> None:
    """Add the commands of this group."""

    register_try(commands)
    app.add_typer(commands)


@commands.callback()
def agents() -> None:
    """List, check and try out the coding agents.

    \b
    Example:
      hostler agents list
      hostler agents check
      hostler agents try claude
    """


@commands.command("list")
def list_agents(context: typer.Context, json: JsonOption = False) -> None:
    """List the configured agents: kind, model, pool, program and version.

    Runs each program with --version, and nothing else.

    \b
    Example:
      hostler agents list
      hostler agents list --json
    """
    import os
    from dataclasses import asdict

    from hostler.service.agent_checks import list_agents as listed

    settings = load_settings(global_options(context)).settings
    with _make_scratch_folder() as folder:
        found = list(listed(settings, os.environ, folder))
    if json:
        print_json({"agents": [asdict(one) for one in found]})
    elif not found:
        print_line("No agent is configured. Add an [agent.<name>] table with its `kind`.")
    for one in found if not json else ():
        print_line("\n".join(_format_agent(one)))


def _format_agent(one: AgentInfo) -> list[str]:
    from hostler.cli.output import format_labelled

    where = one.path or (f"{one.program}: missing" if one.program else "built into Hostler")
    facts = {
        "kind": one.kind,
        "model": one.model,
        "pool": one.pool,
        "program": where,
        "version": one.version,
        "fallback": one.fallback,
    }
    told = [line for label, text in facts.items() if text for line in format_labelled(label, text)]
    return [one.name, *told]


@commands.command()
def check(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Agent to check [default: all].")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check that agents can run: program, version, login, environment, fallback.

    Costs nothing: no request is sent to a provider, so a login that only the provider can
    verify is reported as unknown. Exit code 1: at least one agent cannot run.

    \b
    Example:
      hostler agents check
      hostler agents check claude --json
    """
    import os
    from dataclasses import asdict

    from hostler.cli.commands.doctor import print_finding
    from hostler.health import CheckStatus, Finding
    from hostler.service.agent_checks import check_agent

    settings = load_settings(global_options(context)).settings
    names = [_require_agent(settings.agent, name)] if name else list(settings.agent)
    found: dict[str, list[Finding]] = {}
    for one in names:
        with _make_scratch_folder() as folder:
            found[one] = list(check_agent(settings, one, os.environ, folder))
        for finding in found[one] if not json else ():
            print_finding(finding, one)
    if json:
        told = {name: [asdict(finding) for finding in every] for name, every in found.items()}
        print_json({"agents": told})
    elif not found:
        print_line("No agent is configured.")
    if any(one.status is CheckStatus.FAILED for every in found.values() for one in every):
        raise typer.Exit(1)


@commands.command()
def classify(
    kind: Annotated[AgentKindName, typer.Option("--kind", help="Kind of the agent that ran.")],
    stdout: Annotated[
        Path | None,
        typer.Option("--stdout", metavar="FILE", help="File with its standard output."),
    ] = None,
    stderr: Annotated[
        Path | None,
        typer.Option("--stderr", metavar="FILE", help="File with its standard error."),
    ] = None,
    exit_code: Annotated[
        int | None,
        typer.Option("--exit-code", metavar="N", help="Its exit code; negative for a signal."),
    ] = None,
    ended_by: Annotated[
        EndedByOption | None,
        typer.Option("--ended-by", help="Why Hostler ended the run, if it did."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Explain how Hostler classifies a recorded run, from its output and exit code.

    The files are `stdout` and `stderr` in a run's folder. Attach the output of this command
    when you report a wrong classification. Needs no home and writes nothing.

    \b
    Example:
      hostler agents classify --kind claude --stdout stdout --stderr stderr --exit-code 1
      hostler agents classify --kind codex --stdout out.jsonl --exit-code -15 --ended-by stall
    """
    from hostler.agents.adapters.registry import KINDS
    from hostler.agents.classify import classify_lines as judged
    from hostler.agents.classify import read_recording, recording_time
    from hostler.agents.verdict import EndedBy

    by = EndedBy(ended_by.value) if ended_by else EndedBy.EXIT
    lines, said_at = read_recording(stdout, stderr), recording_time(stdout)
    found = judged(KINDS[kind], lines, exit_code, by, said_at)
    if json:
        print_json(found.as_json())
        return
    for line in _format_verdict(found.as_json()):
        print_line(line)


def _format_verdict(told: Mapping[str, Any]) -> Iterator[str]:
    """Yield the classification of a run as lines for the terminal."""
    yield f"{told['outcome']}, decided by {told['decided_by']}: {told['why']}"
    yield f"  next       {told['next']}"
    for name in ("resets_at", "retry_after_seconds", "session"):
        if told[name]:
            yield f"  {name.replace('_', ' '):<10} {told[name]}"
    spent = told["usage"]
    tokens = f"{spent['input_tokens']} in, {spent['output_tokens']} out"
    yield f"  tokens     {tokens}, {spent['cached_tokens']} from a cache; {spent['usd']:.4f} USD"


def _require_agent(agents: Mapping[str, Agent], name: str) -> str:
    """Return the name if such an agent is configured; otherwise raise HostlerError."""
    if name in agents:
        return name
    from hostler.errors import HostlerError

    remedy = (
        f"Configured agents: {', '.join(agents)}." if agents else "Add an [agent.<name>] table."
    )
    refused = HostlerError(f"There is no agent {name[:80]!r}.", remedy=remedy)
    refused.exit_code = 2
    raise refused


@contextmanager
def _make_scratch_folder(*, keep: bool = False) -> Iterator[Path]:
    """Create an empty folder for the block, and delete it afterwards unless `keep`."""
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="hostler-agents-")).resolve()
    (folder / "checkout").mkdir()
    try:
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


_MAX_PROMPT_LENGTH = 20_000
EXIT_INTERRUPTED = 130


def register_try(commands: typer.Typer) -> None:
    """Add the command of this file."""
    commands.command("try")(try_agent)


def try_agent(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a configured agent.")],
    prompt: Annotated[
        str | None,
        typer.Option("--prompt", metavar="TEXT", help="Prompt [default: write one small file]."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the scratch folder.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run an agent on one small prompt in a scratch repository. This costs money.

    The agent runs under the real supervisor with its limits, and its output is shown live.
    Ctrl-C stops it and everything it started. This is not a task and uses no slot of its pool.
    Exit code 0: the agent succeeded; 1: it did not.

    \b
    Example:
      hostler agents try claude
      hostler agents try codex --yes --prompt "Write hello to hello.txt." --json
    """
    import os

    from hostler.cli.output import require_confirmation
    from hostler.clock import SystemClock
    from hostler.service.agent_checks import (
        DEFAULT_PROMPT,
        AgentSmokeTest,
        build_smoke_test,
        create_scratch_repository,
    )
    from hostler.service.run_output import OutputFormatter

    settings = load_settings(global_options(context)).settings
    agent = settings.agent[_require_agent(settings.agent, name)]
    text = _check_prompt(prompt) if prompt is not None else DEFAULT_PROMPT
    if agent.kind != "scripted":
        print_note(
            f"{name} ({agent.kind}) calls its provider: this costs money or uses up a quota."
        )
        if not yes:
            require_confirmation("Continue?")
    with _make_scratch_folder(keep=keep) as folder:
        create_scratch_repository(folder / "checkout", os.environ)
        work = build_smoke_test(agent, settings, folder, text)
        words, tell = OutputFormatter(agent.kind), print_note if json else print_line
        trial = AgentSmokeTest(agent, work, SystemClock(), _build_line_handler(words, tell))
        with _stop_on_signals(trial):
            tried = trial.run(settings, os.environ)
        _print_all(words.rest(), tell)
        _print_trial(name, agent, tried, folder if keep else None, json=json)
    raise typer.Exit(_exit_code(tried))


def _check_prompt(prompt: str) -> str:
    from hostler.cli.output import BadText

    if not prompt.strip():
        raise BadText("The prompt is empty.")
    if len(prompt) > _MAX_PROMPT_LENGTH:
        raise BadText(f"The prompt has more than {_MAX_PROMPT_LENGTH:,} characters.")
    return prompt.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@contextmanager
def _stop_on_signals(trial: AgentSmokeTest) -> Iterator[None]:
    """Stop the agent on the first signal; on the second, without a grace period."""
    import signal

    def handle(_number: int, _frame: object) -> None:
        trial.stop()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # nohup ignores SIGHUP: keep it ignored.
    handled = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = [(number, signal.signal(number, handle)) for number in handled]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _build_line_handler(
    words: OutputFormatter, tell: Callable[[str], None]
) -> Callable[[OutputLine], None]:
    import sys

    def heard(line: OutputLine) -> None:
        _print_all(words.of(line), tell)
        sys.stdout.flush()

    return heard


def _print_all(texts: Iterable[str], tell: Callable[[str], None]) -> None:
    from hostler.text import escape_control

    for text in texts:
        tell(escape_control(text))


def _print_trial(
    name: str, agent: Agent, tried: SmokeTestResult, folder: Path | None, *, json: bool
) -> None:
    from hostler.agents.classify import Classification

    told: dict[str, Any] = {
        "agent": name,
        "kind": agent.kind,
        **Classification(tried.verdict, tried.tally).as_json(),
        "seconds": tried.seconds,
        "result_written": tried.wrote_result,
        "folder": folder,
    }
    if json:
        print_json(told)
        return
    for line in ("", *_format_verdict(told)):
        print_line(line)
    written = "result.json was written" if tried.wrote_result else "no valid result.json"
    print_line(f"  result     {written}")
    print_line(f"  time       {tried.seconds:.1f} s")
    if folder:
        print_line(f"  folder     {folder}")


def _exit_code(tried: SmokeTestResult) -> int:
    from hostler.agents.outcomes import Outcome

    if tried.verdict.outcome is Outcome.INTERRUPTED:
        return EXIT_INTERRUPTED
    return 0 if tried.verdict.outcome is Outcome.SUCCESS else 1


# Larger than the limit of any text in a result, in bytes.
MAX_BODY_BYTES = 1024 * 1024


def register_agent_results(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(done)
    app.command()(ask)


def done(
    summary: Annotated[
        str, typer.Option(metavar="TEXT", help="What was done, in a few sentences.")
    ] = "",
    title: Annotated[str, typer.Option(metavar="TEXT", help="Title of the pull request.")] = "",
    body_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File with the pull request's description; - reads standard input."
        ),
    ] = None,
    commit_message: Annotated[
        str, typer.Option(metavar="TEXT", help="Commit message for uncommitted changes.")
    ] = "",
    reply: Annotated[
        list[str] | None,
        typer.Option(metavar="ID=TEXT", help="Reply to comment ID (repeatable)."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Report that the work of this run is done.

    Agents call this inside a run. Writes the run's result.json. Calling it again replaces the
    earlier result.

    \b
    Examples:
      hostler done --summary "The parser keeps empty lines."
      hostler done --title "Keep empty lines" --body-file notes.md
      hostler done --reply 1042="Renamed." --reply 1043="Good idea, done."
    """
    from hostler.agents.result import parse_replies

    body = "" if body_file is None else _read_body(body_file)
    words = {
        "status": "done",
        "summary": summary,
        "pr_title": title,
        "pr_body": body,
        "commit_message": commit_message,
        "replies": parse_replies(reply or []),
    }
    _write_result(words, as_json=json)


def ask(
    question: Annotated[
        str, typer.Argument(metavar="QUESTION", help="Question that a person must answer.")
    ],
    blocked: Annotated[
        bool, typer.Option("--blocked", help="The work cannot continue; the text gives the reason.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Ask a person a question and pause the task.

    Agents call this inside a run. The task continues in its session once the question is
    answered. Writes the run's result.json. Calling it again replaces the earlier result.

    \b
    Examples:
      hostler ask "Should old files be converted, or rejected?"
      hostler ask --blocked "The tests need a licence that is not here."
    """
    status = "blocked" if blocked else "needs_input"
    _write_result({"status": status, "question": question}, as_json=json)


def _write_result(words: Mapping[str, Any], *, as_json: bool) -> None:
    from hostler.agents.result import write_result as write

    path, result = write(os.environ, words)
    if as_json:
        print_json({"written": str(path), **result.model_dump(mode="json")})
    else:
        print_line(f"Recorded {result.status} in {path}. Exit now.")


def _read_body(path: Path) -> str:
    try:
        if str(path) == "-":
            data = sys.stdin.buffer.read(MAX_BODY_BYTES + 1)
        else:
            with path.open("rb") as file:
                data = file.read(MAX_BODY_BYTES + 1)
        return data.decode("utf-8")
    except OSError as error:
        why = error.strerror or str(error)
    except UnicodeDecodeError:
        why = "it is not UTF-8 text"
    raise HostlerError(f"Cannot read {path}: {why}.", safe="Nothing was written.")

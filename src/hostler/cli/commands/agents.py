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
from hostler.cli.output import print_json, print_line, print_note
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


commands = typer.Typer(
    name="agents",
    help="The programs that do the work, and how their ends are judged.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class AgentKindOption(StrEnum):
    """Kinds of agents that have a stream."""

    CLAUDE = "claude"
    CODEX = "codex"
    GEMINI = "gemini"
    OPENCODE = "opencode"
    COMMAND = "command"
    SCRIPTED = "scripted"


class EndedByOption(StrEnum):
    """Why we ended a run."""

    STOP = "stop"
    WALL_TIMEOUT = "wall_timeout"
    STALL = "stall"


def register_agents(app: typer.Typer) -> None:
    """Add the commands of this group."""

    register_try(commands)
    app.add_typer(commands)


@commands.callback()
def agents() -> None:
    """The programs that do the work, and how their ends are judged.

    \b
    Example:
      hostler agents list
      hostler agents check
      hostler agents try claude
    """


@commands.command("list")
def list_agents(context: typer.Context, json: JsonOption = False) -> None:
    """Show the agents of the settings: kind, model, pool, program and version.

    Each program is asked for its version, and nothing else.

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
        print_line("The settings name no agent. Add one: [agent.<name>] with its `kind`.")
    for one in found if not json else ():
        print_line("\n".join(_format_agent(one)))


def _format_agent(one: AgentInfo) -> list[str]:
    from hostler.cli.output import format_labelled

    where = one.path or (f"{one.program}: missing" if one.program else "a part of Hostler")
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
        str | None, typer.Argument(metavar="[NAME]", help="Which agent [default: all].")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check whether agents can work: program, version, login, environment, fallback.

    Nothing is spent: programs are asked only what they answer by themselves. What cannot be
    known is said to be not known. Exit code 1: at least one cannot work.

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
        print_line("The settings name no agent.")
    if any(one.status is CheckStatus.FAILED for every in found.values() for one in every):
        raise typer.Exit(1)


@commands.command()
def classify(
    kind: Annotated[AgentKindOption, typer.Option("--kind", help="Which program printed it.")],
    stdout: Annotated[
        Path | None, typer.Option("--stdout", help="File with its standard output.")
    ] = None,
    stderr: Annotated[
        Path | None, typer.Option("--stderr", help="File with its standard error.")
    ] = None,
    exit_code: Annotated[
        int | None, typer.Option("--exit-code", help="Its exit code; of a signal, negative.")
    ] = None,
    ended_by: Annotated[
        EndedByOption | None, typer.Option("--ended-by", help="If Hostler ended it: why.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Explain the verdict on a recorded run, from its streams and its exit code.

    The files are `stdout` and `stderr` of a run's folder. If the verdict is wrong, this is what
    to report. Needs no home; nothing is written.

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
    found = judged(KINDS[kind.value], lines, exit_code, by, said_at)
    if json:
        print_json(found.as_json())
        return
    for line in _format_verdict(found.as_json()):
        print_line(line)


def _format_verdict(told: Mapping[str, Any]) -> Iterator[str]:
    """How a run was judged, for people."""
    yield f"{told['outcome']}, decided by {told['decided_by']}: {told['why']}"
    yield f"  next       {told['next']}"
    for name in ("resets_at", "retry_after_seconds", "session"):
        if told[name]:
            yield f"  {name.replace('_', ' '):<10} {told[name]}"
    spent = told["usage"]
    tokens = f"{spent['input_tokens']} in, {spent['output_tokens']} out"
    yield f"  tokens     {tokens}, {spent['cached_tokens']} from a cache; {spent['usd']:.4f} USD"


def _require_agent(agents: Mapping[str, Agent], name: str) -> str:
    """The name of an agent of the settings, or a clear refusal."""
    if name in agents:
        return name
    from hostler.errors import HostlerError

    names = ", ".join(agents) or "none; add [agent.<name>] to the settings"
    refused = HostlerError(f"There is no agent {name[:80]!r}.", remedy=f"There are: {names}.")
    refused.exit_code = 2
    raise refused


@contextmanager
def _make_scratch_folder(*, keep: bool = False) -> Iterator[Path]:
    """An empty folder of our own, gone afterwards."""
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
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which agent of the settings.")],
    prompt: Annotated[
        str | None, typer.Option("--prompt", help="What to do [default: write one small file].")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the scratch folder there.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Give an agent one small prompt in a scratch repository. This spends money.

    It runs under the real supervisor with its limits, and what it says is shown as it comes.
    Ctrl-C ends it with everything it started. It is no task, and takes no place in its pool.
    Exit code 0: it went well; 1: it did not.

    \b
    Example:
      hostler agents try claude
      hostler agents try codex --yes --prompt "Say hello in hello.txt." --json
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
            f"{name} ({agent.kind}) may call a provider: that costs money, or uses up a quota."
        )
        if not yes:
            require_confirmation("Go on?")
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
    """Whatever asks us to leave ends the agent first; asked once more, without grace."""
    import signal

    def hear(_number: int, _frame: object) -> None:
        trial.stop()

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # Under nohup, losing the terminal ends nothing.
    heeded = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = [(number, signal.signal(number, hear)) for number in heeded]
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


# More than any text of a result may have, in bytes.
MAX_BODY_BYTES = 1024 * 1024


def register_agent_results(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(done)
    app.command()(ask)


def done(
    summary: Annotated[str, typer.Option(help="What was done, for people.")] = "",
    title: Annotated[str, typer.Option(help="Title of the pull request.")] = "",
    body_file: Annotated[
        Path | None,
        typer.Option(help="File with the pull request's description; - reads standard input."),
    ] = None,
    commit_message: Annotated[
        str, typer.Option(help="Message for what is not committed yet.")
    ] = "",
    reply: Annotated[
        list[str] | None,
        typer.Option(metavar="ID=TEXT", help="Answer to a comment, by its number; repeatable."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Say that the work of this run is done. For agents, inside a run.

    Writes the run's result.json; a later word replaces an earlier one.

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
    question: Annotated[str, typer.Argument(help="What a person must answer.")],
    blocked: Annotated[
        bool, typer.Option("--blocked", help="The work cannot go on; the text says why.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Ask a person a question, and end the work until it is answered. For agents, inside a run.

    Writes the run's result.json; a later word replaces an earlier one.

    \b
    Examples:
      hostler ask "Shall old files be converted, or refused?"
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
        print_line(f"Noted: {result.status} ({path}). End your program now.")


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
        why = "it is not text in UTF-8"
    raise HostlerError(f"{path} cannot be read: {why}.", safe="Nothing was written.")

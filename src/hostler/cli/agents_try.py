"""`hostler agents try`: one small prompt, to see an agent work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hostler.cli.output import note, say, say_json
from hostler.cli.state import globals_of, settings_of

if TYPE_CHECKING:
    from pathlib import Path

    from hostler.agents.lines import Line
    from hostler.config.settings import Agent
    from hostler.service.readable import Readable
    from hostler.service.trying import Trial, Tried

_LONGEST_PROMPT = 20_000
INTERRUPTED = 130


def register(commands: typer.Typer) -> None:
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

    from hostler.cli.agents import known, scratch_folder
    from hostler.cli.confirming import confirm
    from hostler.clock import SystemClock
    from hostler.service.readable import Readable
    from hostler.service.trying import USUAL_PROMPT, Trial, make_repository, trial_work

    settings = settings_of(globals_of(context)).settings
    agent = settings.agent[known(settings.agent, name)]
    text = _checked(prompt) if prompt is not None else USUAL_PROMPT
    if agent.kind != "scripted":
        note(f"{name} ({agent.kind}) may call a provider: that costs money, or uses up a quota.")
        if not yes:
            confirm("Go on?")
    with scratch_folder(keep=keep) as folder:
        make_repository(folder / "checkout", os.environ)
        work = trial_work(agent, settings, folder, text)
        words, tell = Readable(agent.kind), note if json else say
        trial = Trial(agent, work, SystemClock(), _teller(words, tell))
        with _ended_by_signals(trial):
            tried = trial.run(settings, os.environ)
        _tell_all(words.rest(), tell)
        _report(name, agent, tried, folder if keep else None, json=json)
    raise typer.Exit(_code(tried))


def _checked(prompt: str) -> str:
    from hostler.cli.prompts import BadText

    if not prompt.strip():
        raise BadText("The prompt is empty.")
    if len(prompt) > _LONGEST_PROMPT:
        raise BadText(f"The prompt has more than {_LONGEST_PROMPT:,} characters.")
    return prompt.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


@contextmanager
def _ended_by_signals(trial: Trial) -> Iterator[None]:
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


def _teller(words: Readable, tell: Callable[[str], None]) -> Callable[[Line], None]:
    import sys

    def heard(line: Line) -> None:
        _tell_all(words.of(line), tell)
        sys.stdout.flush()

    return heard


def _tell_all(texts: Iterable[str], tell: Callable[[str], None]) -> None:
    from hostler.cli.looks import visible

    for text in texts:
        tell(visible(text))


def _report(name: str, agent: Agent, tried: Tried, folder: Path | None, *, json: bool) -> None:
    from hostler.agents.classify import Classified
    from hostler.cli.agents import verdict_lines

    told: dict[str, Any] = {
        "agent": name,
        "kind": agent.kind,
        **Classified(tried.verdict, tried.tally).as_json(),
        "seconds": tried.seconds,
        "result_written": tried.wrote_result,
        "folder": folder,
    }
    if json:
        say_json(told)
        return
    for line in ("", *verdict_lines(told)):
        say(line)
    written = "result.json was written" if tried.wrote_result else "no valid result.json"
    say(f"  result     {written}")
    say(f"  time       {tried.seconds:.1f} s")
    if folder:
        say(f"  folder     {folder}")


def _code(tried: Tried) -> int:
    from hostler.agents.outcomes import Outcome

    if tried.verdict.outcome is Outcome.INTERRUPTED:
        return INTERRUPTED
    return 0 if tried.verdict.outcome is Outcome.SUCCESS else 1

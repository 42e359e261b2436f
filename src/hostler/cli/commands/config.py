"""`hostler config` and `hostler init`: write, show, check and describe the settings."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from hostler.cli.context import JsonOption, global_options, load_settings
from hostler.cli.help import CommandGroup
from hostler.cli.output import print_error, print_json, print_line, write_atomically
from hostler.config.agent_kinds import DETECTED_KINDS
from hostler.errors import ConfigError, HostlerError

if TYPE_CHECKING:
    from hostler.config.template import DetectedEnvironment, InitAnswers
    from hostler.model import RepoName


commands = CommandGroup(
    "config",
    """Show, check and describe the settings.

    \b
    Example:
      hostler config check
    """,
)


def register_config(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands)


@commands.command()
def show(context: typer.Context, json: JsonOption = False) -> None:
    """Print the effective settings, including defaults.

    \b
    Example:
      hostler config show
      hostler config show --json | jq .runtime.worker_count
    """
    from hostler.config.reference import format_toml

    loaded = load_settings(global_options(context))
    if json:
        print_json(loaded.settings.model_dump())
        return
    print_line(f"# from {loaded.path or 'defaults only: there is no settings file'}\n")
    print_line(format_toml(loaded.settings, loaded.given))


@commands.command()
def check(context: typer.Context, json: JsonOption = False) -> None:
    """Check the settings and report every mistake.

    Reads hostler.toml and, in the home, governor.json. Exit code 2: there are mistakes.

    \b
    Example:
      hostler config check
      hostler --config ./hostler.toml config check --json
    """
    from hostler.config.loader import check_files

    given = global_options(context)
    found = check_files(given.home_folder, given.config)
    if json:
        print_json(found.as_json())
    elif not found.errors:
        print_line(found.sentence())
    else:
        for error in found.errors:
            print_error(error)
    if found.errors:
        raise typer.Exit(2)


@commands.command()
def schema() -> None:
    """Print a JSON Schema of the settings file.

    \b
    Example:
      hostler config schema > hostler.schema.json
    """
    from hostler.config.reference import build_json_schema

    print_json(build_json_schema())


@commands.command()
def reference(
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to write instead of standard output."),
    ] = None,
) -> None:
    """Print the reference page of all settings, in Markdown.

    \b
    Example:
      hostler config reference --output docs/reference/configuration.md
    """
    from hostler.cli.output import write_atomically
    from hostler.config.reference import render_reference as page

    if output is None:
        print_line(page())
    else:
        write_atomically(output, page())


T = TypeVar("T")


def register_init(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(init)


def init(
    context: typer.Context,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Accept the defaults without questions.")
    ] = False,
    repo: Annotated[str, typer.Option(metavar="OWNER/NAME", help="Repository to watch.")] = "",
    allowed_user: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LOGIN", help="User whose issues and comments start work (repeatable)."
        ),
    ] = None,
    agent: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help=f"{', '.join(DETECTED_KINDS[:-1])} or {DETECTED_KINDS[-1]}; none to decide later.",
        ),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write a commented settings file.

    Suggests what it finds on this machine: installed agents, the repository of the current
    folder, the account of `gh`. Writes to the path of --config, or hostler.toml in the home.
    Afterwards, `hostler repo add` creates the repository's labels on GitHub.

    \b
    Example:
      hostler init
      hostler init --yes --repo octo/hello --allowed-user octocat --agent claude
    """
    from hostler.config import template

    given = global_options(context)
    path = (given.config or given.home_folder / "hostler.toml").absolute()
    _refuse_to_overwrite(path, force)
    found = template.detect_environment(Path.cwd(), os.environ)
    start = _apply_options(template.propose_answers(found), repo, allowed_user or [], agent)
    answers = start if yes else _ask_questions(start, found)
    _write_checked(path, answers)
    _print_result(path, answers, found, json)


def _refuse_to_overwrite(path: Path, force: bool) -> None:
    from hostler.config.loader import path_exists

    if path_exists(path) and not force:
        raise HostlerError(
            f"{path} already exists.",
            safe="It was not changed.",
            remedy="Edit it, choose another path with --config, or replace it with --force.",
        )


def _apply_options(start: InitAnswers, repo: str, users: list[str], agent: str) -> InitAnswers:
    if repo:
        name = _parse_repo(repo)
        start = replace(start, repo=name, allowed_users=(name.owner,))
    if users:
        start = replace(start, allowed_users=tuple(users))
    return replace(start, agent=_parse_agent(agent) if agent else start.agent)


def _parse_repo(text: str) -> RepoName:
    from hostler.model import RepoName

    try:
        return RepoName.parse(text.strip())
    except ValueError as error:
        raise HostlerError(
            f"Invalid repository {text!r}: {error}.", remedy="Write it as owner/name."
        ) from error


def _ask_questions(start: InitAnswers, found: DetectedEnvironment) -> InitAnswers:
    if not sys.stdin.isatty():
        raise HostlerError(
            "Not a terminal: cannot ask questions.", remedy="Use `hostler init --yes`."
        )
    named = _ask_until_valid(
        _parse_repo, "Repository to watch (owner/name; empty for none)", start.repo
    )
    users = _ask_until_valid(
        _parse_logins,
        "Users whose issues start work (logins, separated by commas)",
        start.allowed_users,
    )
    agent = _ask_until_valid(_parse_agent, f"Agent ({_agents_hint(found)})", start.agent or "none")
    auth = start.auth
    if found.gh_has_token:
        use_gh = typer.confirm("Use the token of `gh auth token`?", default=True)
        auth = "gh" if use_gh else "auto"
    return replace(start, auth=auth, repo=named, allowed_users=users or (), agent=agent or "")


def _ask_until_valid(read: Callable[[str], T], question: str, default: object) -> T | None:
    """Ask until the answer is valid; return None for an empty answer."""
    shown = ",".join(default) if isinstance(default, tuple) else str(default or "")
    while True:
        answer: str = typer.prompt(question, default=shown, show_default=bool(shown)).strip()
        try:
            return read(answer) if answer else None
        except HostlerError as error:
            print_line(f"  {error.what} {error.remedy}")


def _parse_logins(text: str) -> tuple[str, ...]:
    from hostler.model import RepoName

    logins = tuple(login.strip() for login in text.split(",") if login.strip())
    for login in logins:
        try:
            RepoName(login, "any")
        except ValueError as error:
            raise HostlerError(f"Invalid GitHub login {login!r}.") from error
    return logins


def _parse_agent(name: str) -> str:
    if name not in (*DETECTED_KINDS, "none"):
        raise HostlerError(
            f"Unknown agent {name!r}.",
            remedy=f"Choose one of: {', '.join(DETECTED_KINDS)}, none.",
        )
    return "" if name == "none" else name


def _agents_hint(found: DetectedEnvironment) -> str:
    return "installed: " + ", ".join(found.agents) if found.agents else "none found on PATH"


def _write_checked(path: Path, answers: InitAnswers) -> None:
    """Write the settings file after checking the new text in a temporary file."""
    from tempfile import TemporaryDirectory

    from hostler.config.loader import read_settings
    from hostler.config.template import build_choices, render_template

    text = render_template(build_choices(answers))
    with TemporaryDirectory() as folder:
        draft = Path(folder) / "hostler.toml"
        draft.write_text(text, encoding="utf-8")
        try:
            read_settings(draft)
        except ConfigError as error:
            raise ConfigError(path, error.problems) from None
    write_atomically(path, text)


def _print_result(path: Path, answers: InitAnswers, found: DetectedEnvironment, json: bool) -> None:
    missing = list(_list_missing(answers, found))
    if json:
        print_json({"path": str(path), "auth": answers.auth, "still_missing": missing})
        return
    print_line(f"Wrote {path}.")
    for line in missing:
        print_line(f"  Still missing: {line}")
    if answers.repo:
        add = f"hostler repo add {answers.repo}"
        print_line(f"Next: {add}   create its labels on GitHub")
        print_line(f"      {'hostler doctor':<{len(add)}}   check the setup")
    else:
        print_line("Next: hostler doctor")


def _list_missing(answers: InitAnswers, found: DetectedEnvironment) -> Iterator[str]:
    if not answers.repo:
        yield "a repository: run `hostler repo add owner/name`."
    elif not answers.allowed_users:
        yield "users whose issues start work: set allowed_users."
    if not answers.agent:
        yield "an agent: add an [agent.<name>] table."
    if not found.has_token and answers.auth != "gh":
        yield "a GitHub token: set GITHUB_TOKEN, or log in with `gh auth login`."

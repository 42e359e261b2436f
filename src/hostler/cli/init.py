"""`hostler init`: write a settings file and check it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from hostler.cli.output import say, say_json, write_file
from hostler.cli.state import globals_of
from hostler.errors import ConfigError, HostlerError

if TYPE_CHECKING:
    from hostler.config.proposal import Answers, Surroundings
    from hostler.model import RepoName

T = TypeVar("T")


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command()(init)


def init(
    context: typer.Context,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Take the proposals, ask nothing.")
    ] = False,
    repo: Annotated[str, typer.Option(help="Repository to watch, as owner/name.")] = "",
    allowed_user: Annotated[
        list[str] | None, typer.Option(help="Whose issues cause work (repeatable).")
    ] = None,
    agent: Annotated[
        str, typer.Option(help="claude, codex, gemini or opencode; `none` to decide later.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Write a commented settings file and check it.

    It proposes what is found on this machine: agents, the repository of this folder, the login of
    `gh`. The file goes to the path of --config, or to hostler.toml in the home.

    \b
    Example:
      hostler init
      hostler init --yes --repo octo/hello --allowed-user octocat --agent claude
    """
    from hostler.config import proposal

    given = globals_of(context)
    path = (given.config or given.home_folder / "hostler.toml").absolute()
    _refuse_to_overwrite(path, force)
    found = proposal.look_around(Path.cwd(), os.environ)
    start = _with_options(proposal.propose(found), repo, allowed_user or [], agent)
    answers = start if yes else _ask(start, found)
    _write_checked(path, answers)
    _report(path, answers, found, json)


def _refuse_to_overwrite(path: Path, force: bool) -> None:
    from hostler.config.load import present

    if present(path) and not force:
        raise HostlerError(
            f"{path} is there already.",
            safe="It was not changed.",
            remedy="Edit it, name another place with --config, or replace it with --force.",
        )


def _with_options(start: Answers, repo: str, users: list[str], agent: str) -> Answers:
    if repo:
        name = _repo(repo)
        start = replace(start, repo=name, allowed_users=(name.owner,))
    if users:
        start = replace(start, allowed_users=tuple(users))
    return replace(start, agent=_agent(agent) if agent else start.agent)


def _repo(text: str) -> RepoName:
    from hostler.model import RepoName

    try:
        return RepoName.parse(text.strip())
    except ValueError as error:
        raise HostlerError(f"{text!r}: {error}.", remedy="Write it as owner/name.") from error


def _ask(start: Answers, found: Surroundings) -> Answers:
    if not sys.stdin.isatty():
        raise HostlerError(
            "There is no terminal to ask questions on.", remedy="Use `hostler init --yes`."
        )
    named = _asked_until(_repo, "Repository to watch (owner/name, empty for none)", start.repo)
    users = _asked_until(
        _logins, "Whose issues may cause work (logins, comma)", start.allowed_users
    )
    agent = _asked_until(_agent, f"Agent ({_agents_hint(found)})", start.agent or "none")
    auth = start.auth
    if found.gh_has_token:
        use_gh = typer.confirm("Take the token from `gh auth token` when needed?", default=True)
        auth = "gh" if use_gh else "auto"
    return replace(start, auth=auth, repo=named, allowed_users=users or (), agent=agent or "")


def _asked_until(read: Callable[[str], T], question: str, default: object) -> T | None:
    """Ask until the answer can be read; nothing for an empty one."""
    shown = ",".join(default) if isinstance(default, tuple) else str(default or "")
    while True:
        answer: str = typer.prompt(question, default=shown, show_default=bool(shown)).strip()
        try:
            return read(answer) if answer else None
        except HostlerError as error:
            say(f"  {error.what} {error.remedy}")


def _logins(text: str) -> tuple[str, ...]:
    from hostler.model import RepoName

    logins = tuple(login.strip() for login in text.split(",") if login.strip())
    for login in logins:
        try:
            RepoName(login, "any")
        except ValueError as error:
            raise HostlerError(f"{login!r} is not a GitHub login.") from error
    return logins


def _agent(name: str) -> str:
    from hostler.config.proposal import AGENTS

    if name not in (*AGENTS, "none"):
        raise HostlerError(
            f"There is no agent called {name!r}.",
            remedy=f"Choose one of {', '.join(AGENTS)}, none.",
        )
    return "" if name == "none" else name


def _agents_hint(found: Surroundings) -> str:
    return "found here: " + ", ".join(found.agents) if found.agents else "none found on PATH"


def _write_checked(path: Path, answers: Answers) -> None:
    """Check the new text in a file of its own first: what is written is always valid."""
    from tempfile import TemporaryDirectory

    from hostler.config import read
    from hostler.config.proposal import choices
    from hostler.config.template import template

    text = template(choices(answers))
    with TemporaryDirectory() as folder:
        draft = Path(folder) / "hostler.toml"
        draft.write_text(text, encoding="utf-8")
        try:
            read(draft)
        except ConfigError as error:
            raise ConfigError(path, error.problems) from None
    write_file(path, text)


def _report(path: Path, answers: Answers, found: Surroundings, json: bool) -> None:
    missing = list(_missing(answers, found))
    if json:
        say_json({"path": str(path), "auth": answers.auth, "still_missing": missing})
        return
    say(f"Wrote {path} and checked it: no mistakes.")
    for line in missing:
        say(f"  Still missing: {line}")
    say("Next: hostler doctor")


def _missing(answers: Answers, found: Surroundings) -> Iterator[str]:
    if not answers.repo:
        yield "a repository: fill in a [repo.<id>] table."
    elif not answers.allowed_users:
        yield "people whose issues cause work: allowed_users."
    if not answers.agent:
        yield "an agent: fill in an [agent.<name>] table."
    if not found.has_token and answers.auth != "gh":
        yield "a GitHub token: set GITHUB_TOKEN, or log in with `gh auth login`."

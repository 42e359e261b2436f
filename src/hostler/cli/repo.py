"""`hostler repo`: watch repositories, look at them, pause them, let them go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.confirming import confirm
from hostler.cli.doing import with_holds
from hostler.cli.logbook import logbook
from hostler.cli.output import note, say, say_json
from hostler.cli.state import globals_of, settings_of
from hostler.errors import HostlerError

if TYPE_CHECKING:
    from hostler.cli.repo_facts import Facts

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Which = Annotated[str, typer.Argument(help="Its id in the settings, or owner/name.")]

commands = typer.Typer(
    name="repo",
    help="Add, list, pause and remove watched repositories.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands)


@commands.command()
def add(
    context: typer.Context,
    repository: Annotated[str, typer.Argument(help="The repository, as owner/name.")],
    id: Annotated[
        str, typer.Option("--id", help="Its name in the settings [default: like the repository].")
    ] = "",
    base_branch: Annotated[
        str, typer.Option(help="Branch to work from [default: the repository's own].")
    ] = "",
    allow: Annotated[
        list[str] | None,
        typer.Option(help="Whose issues cause work (repeatable) [default: the token's account]."),
    ] = None,
    agent: Annotated[
        str, typer.Option(help="Which [agent.<name>] works there [default: the only one].")
    ] = "",
    no_labels: Annotated[
        bool, typer.Option("--no-labels", help="Leave the labels on GitHub as they are.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Ask GitHub and say what would be done.")
    ] = False,
    json: Json = False,
) -> None:
    """Watch a repository: check it, add it to the settings, make its labels.

    Adding again does what is still missing. A running service makes the labels; without one,
    this command does.

    \b
    Example:
      hostler repo add octo/stable --dry-run
      hostler repo add octo/stable --allow ann --allow bob
    """
    from hostler.cli.repo_add import Adding, Wishes
    from hostler.config.repos import parse_name

    given = globals_of(context)
    wishes = Wishes(
        name=parse_name(repository),
        id=id,
        base_branch=base_branch,
        allow=tuple(allow or ()),
        agent=agent,
        labels=not no_labels,
        dry_run=dry_run,
    )
    loaded = settings_of(given)
    if loaded.path is None:
        raise HostlerError(
            "There is no settings file to add it to.",
            safe="Nothing was changed.",
            remedy="Write one first: hostler init",
        )
    with logbook(given, loaded.settings, "repo add"):
        done = Adding(given.home_folder, loaded.path, loaded.settings, wishes).run()
    if json:
        say_json(done.as_json())
    else:
        for line in done.lines():
            say(line)
    if done.labels.failed:
        raise done.failure()


@commands.command("list")
def list_all(context: typer.Context, json: Json = False) -> None:
    """Show the watched repositories, what is paused, and what is open.

    It asks nobody: it reads the settings and the database, also while a service runs.

    \b
    Example:
      hostler repo list
      hostler repo list --json | jq '.repositories[].tasks'
    """
    from hostler.cli.repo_facts import facts_of

    loaded = settings_of(globals_of(context))
    found = facts_of(globals_of(context).home_folder, loaded.settings)
    if json:
        say_json({"settings": loaded.path, "repositories": [one.as_json() for one in found]})
    elif not found:
        say("No repository is watched. Add one: hostler repo add owner/name")
    else:
        for one in found:
            say("\n".join(one.lines()))


@commands.command()
def pause(
    context: typer.Context,
    repository: Which,
    why: Annotated[str, typer.Option(help="Why, for those who wonder later.")] = "",
    json: Json = False,
) -> None:
    """Start nothing new on a repository until somebody lifts it; running agents go on.

    \b
    Example:
      hostler repo pause stable --why "release week"
    """
    from hostler.config.repos import meant
    from hostler.store.operator import project_scope

    found = meant(settings_of(globals_of(context)).settings.repo, repository)
    scope = project_scope(found)
    made = with_holds(context, lambda to: to.pause(scope, why), make=True)
    held, changed = made.held, made.changed
    facts = {"since": held.since, "by": held.by, "why": held.why}
    if json:
        say_json({"id": found, "changed": changed, "paused": facts})
        return
    reason = f": {held.why}" if held.why else "."
    already = "" if changed else "already "
    say(f"{found} is {already}paused, since {held.since} by {held.by}{reason}")


@commands.command()
def unpause(context: typer.Context, repository: Which, json: Json = False) -> None:
    """Let a paused repository go on.

    A pause in the settings file (`paused = true`) is lifted there.

    \b
    Example:
      hostler repo unpause octo/stable
    """
    from hostler.config.repos import meant

    loaded = settings_of(globals_of(context))
    found = meant(loaded.settings.repo, repository)
    changed, everything = _lift(context, found)
    in_settings = loaded.settings.repo[found].paused
    if json:
        still = in_settings or everything
        say_json({"id": found, "changed": changed, "paused": still, "in_settings": in_settings})
        return
    say(f"{found} goes on." if changed else f"{found} was not paused by a command.")
    if in_settings:
        say(f"It stays paused by {loaded.path}: remove `paused = true` from [repo.{found}].")
    if everything:
        say("It stays paused with everything else.")


def _lift(context: typer.Context, project: str) -> tuple[bool, bool]:
    """Remove a pause; whether there was one, and whether everything is paused."""
    from hostler.errors import StoreMissing
    from hostler.store.operator import ALL, project_scope

    try:
        changed, left = with_holds(context, lambda to: to.unpause(project_scope(project)))
    except StoreMissing:
        return False, False
    return changed, ALL in left


@commands.command()
def remove(
    context: typer.Context,
    repository: Which,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Stop watching a repository: its table leaves the settings, what is known of it stays.

    \b
    Example:
      hostler repo remove stable
      hostler repo remove octo/stable --yes
    """
    from hostler.cli.repo_facts import facts_of
    from hostler.clock import SystemClock
    from hostler.config.editing import remove_table
    from hostler.config.repos import meant
    from hostler.config.rewriting import preview, rewrite

    given = globals_of(context)
    loaded = settings_of(given)
    found = meant(loaded.settings.repo, repository)
    (facts,) = facts_of(given.home_folder, loaded.settings, only=found)
    assert loaded.path is not None, "a repository comes from a file"

    def edit(text: str) -> str:
        return remove_table(text, "repo", found)

    preview(loaded.path, edit)
    _warn(facts)
    if not yes:
        confirm(f"Stop watching {facts.repository}?")
    rewrite(loaded.path, edit, SystemClock())
    if json:
        say_json({"removed": found, "settings": loaded.path, "left": facts.as_json()})
        return
    say(f"Removed [repo.{found}] from {loaded.path}.")
    say("What is known about it stays in the database: add it again, and work goes on.")
    if facts.is_paused_by_command:
        say(f"So does its pause; `hostler repo unpause {found}` lifts it then.")
    say("A service that runs now watches it until its next start.")


def _warn(facts: Facts) -> None:
    """What is not finished, before it is too late."""
    for task in facts.tasks:
        what = f"#{task.issue_number}" if task.issue_number else "by hand"
        note(f"Not finished: {what} {task.title} ({task.state.value}, task {task.id})")
    for pull in facts.pulls:
        note(f"Open pull request: #{pull.pr_number} for #{pull.issue_number} {pull.url}".rstrip())

"""`hostler repo`: add, list, pause, unpause and remove watched repositories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.context import (
    JsonOption,
    ReasonOption,
    control_pauses,
    global_options,
    load_settings,
    open_command_log,
)
from hostler.cli.help import CommandGroup
from hostler.cli.output import print_json, print_line, print_note, require_confirmation
from hostler.errors import HostlerError

if TYPE_CHECKING:
    from hostler.cli.commands.repo_status import RepoStatus


RepoArgument = Annotated[
    str, typer.Argument(metavar="REPO", help="Repository: its ID in the settings, or owner/name.")
]

commands = CommandGroup(
    "repo",
    """Add, list, pause and remove watched repositories.

    \b
    Example:
      hostler repo add octo/stable
    """,
)


def register_repo(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands)


@commands.command()
def add(
    context: typer.Context,
    repository: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Repository on GitHub.")],
    id: Annotated[
        str,
        typer.Option(
            "--id", metavar="ID", help="Name in the settings [default: the repository's name]."
        ),
    ] = "",
    base_branch: Annotated[
        str,
        typer.Option(
            metavar="BRANCH", help="Branch to work from [default: the repository's default branch]."
        ),
    ] = "",
    allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LOGIN",
            help="User whose issues and comments start work (repeatable) [default: the token's "
            "account].",
        ),
    ] = None,
    agent: Annotated[
        str,
        typer.Option(metavar="NAME", help="Agent from [agent.<name>] [default: the only one]."),
    ] = "",
    no_labels: Annotated[
        bool, typer.Option("--no-labels", help="Do not create labels on GitHub.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check on GitHub and show what would be done.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Watch a repository: check access, add it to the settings, create its labels.

    Safe to repeat: only missing steps are done. A running service creates the labels and starts
    watching within seconds; without one, this command creates them.

    \b
    Example:
      hostler repo add octo/stable --dry-run
      hostler repo add octo/stable --allow ann --allow bob
    """
    from hostler.cli.commands.repo_add import RepoAdder, RepoAddOptions
    from hostler.config.repositories import parse_repo_name

    given = global_options(context)
    options = RepoAddOptions(
        name=parse_repo_name(repository),
        id=id,
        base_branch=base_branch,
        allow=tuple(allow or ()),
        agent=agent,
        labels=not no_labels,
        dry_run=dry_run,
    )
    loaded = load_settings(given)
    if loaded.path is None:
        raise HostlerError(
            "There is no settings file.",
            safe="Nothing was changed.",
            remedy="Create one first: hostler init",
        )
    with open_command_log(given, loaded.settings, "repo add"):
        done = RepoAdder(given.home_folder, loaded.path, loaded.settings, options).run()
    if json:
        print_json(done.as_json())
    else:
        for line in done.lines():
            print_line(line)
    if done.labels.failed:
        raise done.failure()


@commands.command("list")
def list_repos(context: typer.Context, json: JsonOption = False) -> None:
    """List the watched repositories with open tasks, pull requests and pauses.

    Works offline: reads the settings and the database.

    \b
    Example:
      hostler repo list
      hostler repo list --json | jq '.repositories[].tasks'
    """
    from hostler.cli.commands.repo_status import read_repo_statuses

    loaded = load_settings(global_options(context))
    found = read_repo_statuses(global_options(context).home_folder, loaded.settings)
    if json:
        print_json({"settings": loaded.path, "repositories": [one.as_json() for one in found]})
    elif not found:
        print_line("No repository is watched. Add one with: hostler repo add owner/name")
    else:
        for one in found:
            print_line("\n".join(one.lines()))


@commands.command()
def pause(
    context: typer.Context,
    repository: RepoArgument,
    why: ReasonOption = "",
    json: JsonOption = False,
) -> None:
    """Stop starting new work on a repository; running agents continue.

    \b
    Example:
      hostler repo pause stable --why "release week"
    """
    from hostler.config.repositories import resolve_repo_id
    from hostler.store.operator import project_scope

    found = resolve_repo_id(load_settings(global_options(context)).settings.repo, repository)
    scope = project_scope(found)
    made = control_pauses(context, lambda to: to.pause(scope, why), make=True)
    held, changed = made.held, made.changed
    facts = {"since": held.since, "by": held.by, "why": held.why}
    if json:
        print_json({"id": found, "changed": changed, "paused": facts})
        return
    reason = f": {held.why}" if held.why else "."
    already = "" if changed else "already "
    print_line(f"{found} is {already}paused, since {held.since} by {held.by}{reason}")


@commands.command()
def unpause(context: typer.Context, repository: RepoArgument, json: JsonOption = False) -> None:
    """Resume work on a paused repository.

    A pause in the settings file (`paused = true`) must be removed there.

    \b
    Example:
      hostler repo unpause octo/stable
    """
    from hostler.config.repositories import resolve_repo_id

    loaded = load_settings(global_options(context))
    found = resolve_repo_id(loaded.settings.repo, repository)
    changed, everything = _remove_pause(context, found)
    in_settings = loaded.settings.repo[found].paused
    if json:
        still = in_settings or everything
        print_json({"id": found, "changed": changed, "paused": still, "in_settings": in_settings})
        return
    print_line(
        f"Resumed {found}." if changed else f"{found} was not paused by `hostler repo pause`."
    )
    if in_settings:
        print_line(f"Still paused in {loaded.path}: remove `paused = true` from [repo.{found}].")
    if everything:
        print_line("All work is still paused (resume with `hostler unpause`).")


def _remove_pause(context: typer.Context, project: str) -> tuple[bool, bool]:
    """Remove a pause; return whether there was one, and whether all work is paused."""
    from hostler.errors import StoreMissing
    from hostler.store.operator import ALL, project_scope

    try:
        changed, left = control_pauses(context, lambda to: to.unpause(project_scope(project)))
    except StoreMissing:
        return False, False
    return changed, ALL in left


@commands.command()
def remove(
    context: typer.Context,
    repository: RepoArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    json: JsonOption = False,
) -> None:
    """Stop watching a repository.

    Removes it from the settings; its tasks stay in the database.

    \b
    Example:
      hostler repo remove stable
      hostler repo remove octo/stable --yes
    """
    from hostler.cli.commands.repo_status import read_repo_statuses
    from hostler.clock import SystemClock
    from hostler.config.editor import preview_edit, remove_table, rewrite_file
    from hostler.config.repositories import resolve_repo_id

    given = global_options(context)
    loaded = load_settings(given)
    found = resolve_repo_id(loaded.settings.repo, repository)
    (facts,) = read_repo_statuses(given.home_folder, loaded.settings, only=found)
    assert loaded.path is not None, "a repository comes from a file"

    def edit(text: str) -> str:
        return remove_table(text, "repo", found)

    preview_edit(loaded.path, edit)
    _warn_unfinished(facts)
    if not yes:
        require_confirmation(f"Stop watching {facts.repository}?")
    rewrite_file(loaded.path, edit, SystemClock())
    if json:
        print_json({"removed": found, "settings": loaded.path, "left": facts.as_json()})
        return
    print_line(f"Removed [repo.{found}] from {loaded.path}.")
    print_line("Its tasks stay in the database and continue if you add it again.")
    if facts.is_paused_by_command:
        print_line(f"Its pause stays too; `hostler repo unpause {found}` removes it then.")
    print_line("A running service stops watching it within seconds.")


def _warn_unfinished(facts: RepoStatus) -> None:
    """Print the open tasks and pull requests."""
    for task in facts.tasks:
        what = f"#{task.issue_number}" if task.issue_number else "manual"
        print_note(f"Open task: {what} {task.title} ({task.state.value}, {task.id})")
    for pull in facts.pulls:
        print_note(
            f"Open pull request: #{pull.pr_number} for #{pull.issue_number} {pull.url}".rstrip()
        )

"""`hostler config`: show, check and describe the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hostler.cli.output import report, say, say_json
from hostler.cli.state import globals_of, settings_of

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
commands = typer.Typer(
    name="config",
    help="Show, check and describe the settings.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.add_typer(commands)


@commands.command()
def show(context: typer.Context, json: Json = False) -> None:
    """Print the settings in force, defaults included.

    \b
    Example:
      hostler config show
      hostler config show --json | jq .runtime.worker_count
    """
    from hostler.config.explain import as_toml

    loaded = settings_of(globals_of(context))
    if json:
        say_json(loaded.settings.model_dump())
        return
    say(f"# from {loaded.path or 'defaults alone: there is no settings file'}\n")
    say(as_toml(loaded.settings, loaded.given))


@commands.command()
def check(context: typer.Context, json: Json = False) -> None:
    """Report every mistake in the settings at once.

    Both files are read: hostler.toml and the home's governor.json.

    \b
    Example:
      hostler config check
      hostler --config ./hostler.toml config check --json
    """
    from hostler.config.verdict import examine_files

    given = globals_of(context)
    found = examine_files(given.home_folder, given.config)
    if json:
        say_json(found.as_json())
    elif not found.errors:
        say(found.sentence())
    else:
        for error in found.errors:
            report(error)
    if found.errors:
        raise typer.Exit(2)


@commands.command()
def schema() -> None:
    """Print a JSON Schema of the settings file.

    \b
    Example:
      hostler config schema > hostler.schema.json
    """
    from hostler.config.explain import json_schema

    say_json(json_schema())


@commands.command()
def reference(
    output: Annotated[
        Path | None, typer.Option(help="File to write instead of standard output.")
    ] = None,
) -> None:
    """Write the reference page of all keys, in Markdown.

    \b
    Example:
      hostler config reference --output docs/configuration.md
    """
    from hostler.cli.output import write_file
    from hostler.config.explain import reference as page

    if output is None:
        say(page())
    else:
        write_file(output, page())

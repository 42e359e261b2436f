"""Help without Python types: command groups, and commands whose help names arguments plainly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# `hostler --help` lists the commands in these sections, in this order.
COMMAND_SECTIONS = {
    "Set up": ("init", "doctor", "repo", "agents", "config"),
    "Run": ("service", "console", "run", "pause", "unpause", "stop-all"),
    "Tasks": ("task", "why", "feedback", "bus"),
    "Watch": ("status", "top", "web"),
    "Limits": ("governor", "github", "wrap"),
    "Maintenance": ("db", "gc", "notify", "support-bundle"),
    "Try out": ("demo", "sandbox", "sim"),
    "Called by agents": ("done", "ask"),
}


class RootGroup(TyperGroup):
    """The root command; its help lists the commands in sections."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        # The widest name of all sections, so that their columns line up.
        width = max(len(name) for name in self.commands)
        limit = formatter.width - width - 6
        for title, names in COMMAND_SECTIONS.items():
            present = [name for name in names if name in self.commands]
            rows = [
                (f"{name:<{width}}", self.commands[name].get_short_help_str(limit))
                for name in present
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class PlainCommand(TyperCommand):
    """A command whose help shows arguments as `NAME` and `[NAME]`, without Python types."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = [self.options_metavar] if self.options_metavar else []
        return [*pieces, *(_usage_name(one) for one in self.get_params(ctx) if _is_argument(one))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        arguments = [
            (argument_name(one), getattr(one, "help", None) or "")
            for one in self.get_params(ctx)
            if _is_argument(one)
        ]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        records = [
            one.get_help_record(ctx) for one in self.get_params(ctx) if not _is_argument(one)
        ]
        with formatter.section("Options"):
            formatter.write_dl([record for record in records if record is not None])


class CommandGroup(typer.Typer):
    """A group of commands with plain help; without a command it prints its help."""

    def __init__(self, name: str, help: str | None = None, *, runs_alone: bool = False) -> None:
        """`help` is needed for groups without a callback, whose docstring is used otherwise.

        `runs_alone`: the group does something without a command, and prints no help then.
        """
        # Typer takes an explicit None for an empty help.
        given: dict[str, Any] = {} if help is None else {"help": help}
        super().__init__(
            name=name,
            **given,
            no_args_is_help=not runs_alone,
            invoke_without_command=runs_alone,
            rich_markup_mode=None,
        )

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """Register a command with plain help."""
        return super().command(name, cls=PlainCommand, **options)


class RootCommands(typer.Typer):
    """The whole program: commands with plain help, listed in sections."""

    def __init__(self) -> None:
        # Decorated help would double the start-up time of every `--help`.
        super().__init__(
            name="hostler",
            cls=RootGroup,
            rich_markup_mode=None,
            invoke_without_command=True,
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        )

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """Register a command with plain help."""
        return super().command(name, cls=PlainCommand, **options)


def argument_name(argument: Any) -> str:
    """Return the name of an argument as help shows it."""
    return str(argument.metavar or argument.name.upper())


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def _usage_name(argument: Any) -> str:
    name = argument_name(argument)
    return name if argument.required else f"[{name}]"

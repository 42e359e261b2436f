"""`hostler task`: the group, and what its commands share. Each command has a file of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hostler.cli.state import globals_of, settings_of

if TYPE_CHECKING:
    from hostler.clock import SystemClock
    from hostler.config import Loaded, Settings
    from hostler.store import Store

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Which = Annotated[
    str,
    typer.Argument(metavar="TASK", help="Its id, the beginning of it, or owner/repo#12."),
]
Those = Annotated[
    list[str],
    typer.Argument(metavar="TASK...", help="Ids, beginnings of ids, or issues as owner/repo#12."),
]
Why = Annotated[str, typer.Option(help="Why, for those who wonder later.")]

commands = typer.Typer(
    name="task",
    help="Submit tasks, look at them, wait for them, stop them and start them again.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@dataclass(frozen=True, slots=True)
class Opened:
    """A home whose database is open."""

    home: Path
    loaded: Loaded
    store: Store
    clock: SystemClock

    @property
    def settings(self) -> Settings:
        return self.loaded.settings


@contextmanager
def opened(context: typer.Context, *, make: bool = False) -> Iterator[Opened]:
    """The home that is meant; `make`: with a database, even if it has none yet."""
    from hostler.clock import SystemClock
    from hostler.service.opening import open_or_make
    from hostler.store import open_store

    given, clock = globals_of(context), SystemClock()
    loaded = settings_of(given)
    home, url = given.home_folder, loaded.settings.runtime.database_url or None
    store = open_or_make(home, url, clock) if make else open_store(home, url, clock=clock)
    try:
        yield Opened(home, loaded, store, clock)
    finally:
        store.close()


def register(app: typer.Typer) -> None:
    """Add the commands of this group."""
    from hostler.cli import (
        task_answer,
        task_delete,
        task_list,
        task_output,
        task_show,
        task_states,
        task_submit,
        task_wait,
    )

    parts = (
        task_submit,
        task_list,
        task_show,
        task_wait,
        task_output,
        task_answer,
        task_states,
        task_delete,
    )
    for part in parts:
        part.register(commands)
    app.add_typer(commands)

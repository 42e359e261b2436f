"""What the global options say, for every command."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import typer


@dataclass(frozen=True, slots=True)
class Globals:
    """The global options as given."""

    home: Path | None
    config: Path | None
    debug: bool

    @property
    def home_folder(self) -> Path:
        """Where our state lives: `--home`, `HOSTLER_HOME`, or `~/.hostler`."""
        return self.home.expanduser().absolute() if self.home else default_home()


def default_home() -> Path:
    """The home where no option names one."""
    return Path(os.environ.get("HOSTLER_HOME") or "~/.hostler").expanduser().absolute()


def globals_of(context: typer.Context) -> Globals:
    """The global options of this call."""
    found = context.find_root().obj
    assert isinstance(found, Globals)
    return found

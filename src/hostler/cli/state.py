"""What the global options say, for every command."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hostler.errors import HostlerError

if TYPE_CHECKING:
    from hostler.config import Loaded, Settings


@dataclass(frozen=True, slots=True)
class Globals:
    """The global options as given."""

    home: Path | None
    config: Path | None
    debug: bool

    @property
    def home_folder(self) -> Path:
        """Where our state lives: `--home`, `HOSTLER_HOME`, or `~/.hostler`."""
        return folder(self.home) if self.home else default_home()


def default_home() -> Path:
    """The home where no option names one."""
    return folder(Path(os.environ.get("HOSTLER_HOME") or "~/.hostler"))


def folder(path: Path) -> Path:
    """A path that a person named, absolute and with its `~` resolved."""
    try:
        return path.expanduser().absolute()
    except (RuntimeError, OSError) as error:
        raise HostlerError(
            f"Where {path} is cannot be found out: {str(error).rstrip('.')}.",
            remedy="Name the home with its full path: --home or HOSTLER_HOME.",
        ) from error


def settings_of(given: Globals) -> Loaded:
    """The settings; from here on, the secrets they name are hidden in all we write."""
    from hostler.config import load

    if given.config is None and os.environ.get("HOSTLER_RUN"):
        loaded = _inside_a_run(given.home_folder)
    else:
        loaded = load(given.home_folder, given.config)
    _hide(loaded.settings)
    return loaded


def read_again(path: Path) -> Settings:
    """The settings of a file that has changed; the secrets they name are hidden too."""
    from hostler.config import read

    settings = read(path).settings
    _hide(settings)
    return settings


def _hide(settings: Settings) -> None:
    from hostler.config.secrets import named_secrets
    from hostler.telemetry.redact import remember_secret

    for secret in named_secrets(settings, os.environ):
        remember_secret(secret)


def _inside_a_run(home: Path) -> Loaded:
    """The operator's settings. An agent stands in a checkout: a file in there is not his."""
    from hostler.config import Loaded, Settings, read
    from hostler.config.load import FILE_NAME, present

    ours = home / FILE_NAME
    return read(ours) if present(ours) else Loaded(Settings(), None, frozenset())


def hand_on(loaded: Loaded) -> None:
    """Have agents that we start find the same settings, when they call us."""
    if loaded.path is not None:
        os.environ["HOSTLER_CONFIG"] = str(loaded.path.absolute())


def globals_of(context: typer.Context) -> Globals:
    """The global options of this call."""
    found = context.find_root().obj
    assert isinstance(found, Globals)
    return found

"""The secrets that settings name: in the environment, and in files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from hostler.config.settings import Settings

# A variable that is called so holds a secret; a short value would hide ordinary words.
_SECRET_NAME = re.compile(r"(API_?KEY|AUTH_TOKEN|OAUTH_TOKEN|ACCESS_TOKEN|SECRET|PASSWORD)$")
SHORTEST = 8


def named_secrets(settings: Settings, environment: Mapping[str, str]) -> Iterator[str]:
    """The values that must appear nowhere: of every `…_env` key, and of whatever is called so.

    Keys of the agents' providers are among these: an agent may print its own.
    """
    ours = {*_named(settings, "_env"), "PGPASSWORD"}
    called_so = {name for name in environment if _SECRET_NAME.search(name.upper())}
    for name in sorted(ours | called_so):
        value = environment.get(name, "")
        if len(value) >= (1 if name in ours else SHORTEST):
            yield value


def secret_files(settings: Settings) -> tuple[Path, ...]:
    """The files that hold a secret of ours: of every `…_file` key."""
    names = sorted({name for name in _named(settings, "_file") if name})
    return tuple(Path(os.path.expanduser(name)).absolute() for name in names)  # noqa: PTH111


def _named(settings: Settings, ending: str) -> Iterator[str]:
    for section in (settings.github, settings.web, settings.notify):
        for key in type(section).model_fields:
            if key.endswith(ending):
                yield getattr(section, key)

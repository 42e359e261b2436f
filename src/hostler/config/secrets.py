"""The secrets that settings name: in the environment, and in files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from hostler.config.settings import Settings


def named_secrets(settings: Settings, environment: Mapping[str, str]) -> Iterator[str]:
    """The values that must appear nowhere: of every `…_env` key, and libpq's password."""
    for name in sorted({*_named(settings, "_env"), "PGPASSWORD"}):
        if value := environment.get(name, ""):
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

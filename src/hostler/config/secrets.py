"""The secrets that settings name, where they are in the environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hostler.config.settings import Settings


def named_secrets(settings: Settings, environment: Mapping[str, str]) -> Iterator[str]:
    """The values that must appear nowhere: of every `…_env` key, and libpq's password."""
    sections = (settings.github, settings.web, settings.notify)
    names = {
        getattr(section, key)
        for section in sections
        for key in type(section).model_fields
        if key.endswith("_env")
    }
    for name in sorted(names | {"PGPASSWORD"}):
        if value := environment.get(name, ""):
            yield value

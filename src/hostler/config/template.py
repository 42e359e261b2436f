"""The file that `hostler init` writes: what you chose, and every other key as a comment."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hostler.config.explain import TABLES, Key, section_keys, toml_value

_HEAD = """\
# Settings of Hostler. Keys that are commented out show their defaults.
# Check this file with `hostler config check`; docs/configuration.md explains every key.
# Secrets do not belong here: name a variable (…_env) or a file (…_file).
"""


@dataclass(frozen=True, slots=True)
class Choices:
    """What the person chose: keys to set, per table."""

    tables: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


def template(choices: Choices) -> str:
    """The commented file."""
    parts = [_HEAD]
    for table, section in TABLES.items():
        kind = table.partition(".<")[0]
        chosen = _chosen(kind, choices) if kind != table else [table]
        for name in chosen or [f"{kind}.example"]:
            is_real = name in choices.tables or kind == table
            parts.append(f"# {'-' * 76}\n# {section.__doc__}")
            parts.append(f"[{name}]" if is_real else f"# [{name}]")
            rows = [key for key in section_keys(name, section) if key.table == name]
            parts.extend(_rows(rows, choices.tables.get(name, {})))
            parts.extend(_inner_tables(name, section_keys(name, section)))
            parts.append("")
    return "\n".join(parts)


def _chosen(kind: str, choices: Choices) -> list[str]:
    return [name for name in choices.tables if name.startswith(f"{kind}.")]


def _rows(keys: Iterable[Key], chosen: Mapping[str, object]) -> Iterable[str]:
    for key in keys:
        yield from textwrap.wrap(
            key.meaning, 96, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
        )
        if key.name in chosen:
            yield f"{key.name} = {toml_value(chosen[key.name])}"
        else:
            shown = '""' if key.is_required else toml_value(key.default)
            yield f"# {key.name} = {shown}"


def _inner_tables(name: str, keys: Iterable[Key]) -> Iterable[str]:
    inner = [key for key in keys if key.table != name]
    if inner:
        yield f"# [{inner[0].table}]"
        yield from _rows(inner, {})

"""Print the settings as TOML, as a JSON Schema, and as the reference page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import PydanticUndefined

from hostler.config.pools import PoolCaps
from hostler.config.settings import PLAIN_TABLES, Agent, Repo, Section, Settings, needs_restart

# What everybody edits comes first.
SETTINGS_TABLES: dict[str, type[Section]] = {
    "repo.<id>": Repo,
    "agent.<name>": Agent,
    **PLAIN_TABLES,
}


@dataclass(frozen=True, slots=True)
class SettingKey:
    """One key, as a person reads about it."""

    table: str
    name: str
    default: object
    allowed: str
    meaning: str
    restart: bool

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is PydanticUndefined


def list_keys() -> Iterator[SettingKey]:
    """Every key of every table, in the order of the file."""
    for table, section in SETTINGS_TABLES.items():
        yield from list_section_keys(table, section)


def list_section_keys(table: str, section: type[Section]) -> Iterator[SettingKey]:
    """The keys of one table; a table inside it follows under its dotted name."""
    schema = section.model_json_schema()
    for name, field in section.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from list_section_keys(f"{table}.{name}", field.annotation)
        else:
            yield SettingKey(
                table,
                name,
                field.get_default(call_default_factory=True),
                _allowed_text(schema["properties"][name]),
                field.description or "",
                needs_restart(field),
            )


_JSON_TYPES = {
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "string": "text",
    "array": "list",
}


def _allowed_text(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(format_toml_value(value) for value in schema["enum"])
    words = _JSON_TYPES[schema["type"]]
    low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
    if low is not None and high is not None:
        return f"{words}, {low} to {high}"
    return f"{words}, {low} or more" if low is not None else words


def format_toml_value(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, list):
        return "[" + ", ".join(format_toml_value(item) for item in value) + "]"
    # JSON's texts, numbers and booleans are TOML's too, but for one character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def format_toml(settings: Settings, given: frozenset[str]) -> str:
    """The settings in force, with a mark on what is only a default."""
    blocks = list(_table_blocks(settings.model_dump(), given))
    return "\n".join(blocks)


def _table_blocks(
    value: Mapping[str, Any], given: frozenset[str], table: str = ""
) -> Iterator[str]:
    plain = {k: v for k, v in value.items() if not isinstance(v, dict)}
    if plain:
        rows = [f"[{table}]", *(_key_line(table, k, v, given) for k, v in plain.items()), ""]
        yield "\n".join(rows)
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from _table_blocks(inner, given, f"{table}.{name}" if table else name)


def _key_line(table: str, name: str, value: object, given: frozenset[str]) -> str:
    row = f"{name} = {format_toml_value(value)}"
    return row if f"{table}.{name}" in given else f"{row:<44}  # default"


def build_json_schema() -> dict[str, Any]:
    """A JSON Schema of the whole file, for editors."""
    schema = Settings.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "hostler.toml"
    return schema


_REFERENCE_HEAD = """# Settings

<!-- Written by `hostler config reference`; a test keeps it true. -->

Hostler reads one file: the one named by `--config`, else `./hostler.toml`, else `hostler.toml` in
its home (`--home`, `HOSTLER_HOME`, or `~/.hostler`). `hostler init` writes one, `hostler config
check` reports every mistake in it at once, `hostler config show` prints what is in force.

Unknown keys are mistakes. Secrets are never written here: keys that end in `_env` name an
environment variable, keys that end in `_file` name a file. A key marked ↻ takes effect after a
restart; all others while Hostler runs.
"""


def render_reference() -> str:
    """The reference page of all keys."""
    parts = [_REFERENCE_HEAD]
    for table, section in SETTINGS_TABLES.items():
        parts.append(f"## `[{table}]`\n\n{section.__doc__}\n")
        parts.append(_render_table(list_section_keys(table, section), table))
    parts.append(f"## `governor.json`\n\n{PoolCaps.__doc__}\n\n{_GOVERNOR_TEXT}")
    parts.append(_render_table(list_section_keys("pools.<provider>", PoolCaps), "pools.<provider>"))
    return "\n".join(parts)


_GOVERNOR_TEXT = """It lies in the home and has the form
`{"pools": {"anthropic": {"max_global_agents": 4}}}`. An older flat file,
`{"max_global_agents": 4}`, means the pool `anthropic`. Unknown keys are kept.
"""


def _render_table(rows: Iterator[SettingKey], table: str) -> str:
    lines = ["| key | default | allowed | meaning |", "|---|---|---|---|"]
    for key in rows:
        inner = key.table.removeprefix(table).lstrip(".")
        name = f"{inner}.{key.name}" if inner else key.name
        default = "(needed)" if key.is_required else f"`{format_toml_value(key.default)}`"
        mark = " ↻" if key.restart and not key.is_required else ""
        meaning = key.meaning.replace("|", "\\|")
        lines.append(f"| `{name}`{mark} | {default} | {key.allowed} | {meaning} |")
    return "\n".join(lines) + "\n"

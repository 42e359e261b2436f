"""Find, read and validate hostler.toml and governor.json, and compare two versions of settings."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hostler.config.pools import POOLS_FILE_NAME, load_pools
from hostler.config.settings import PLAIN_TABLES, Agent, Repo, Section, Settings, needs_restart
from hostler.config.validation import (
    check_across_tables,
    find_pasted_secrets,
    format_value,
    problem_from_validation,
    unknown_key_problem,
)
from hostler.errors import ConfigError, Problem

SETTINGS_FILE_NAME = "hostler.toml"
TABLE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
# `repo` and `agent` contain one table per name; all other tables are plain.
_NAMED_TABLES: dict[str, type[Section]] = {"repo": Repo, "agent": Agent}


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings and their origin. `path` is None if there is no settings file."""

    settings: Settings
    path: Path | None
    given: frozenset[str]


def find_settings_file(home: Path, explicit: Path | None = None) -> Path | None:
    """Return the settings file: the given one, else `./hostler.toml`, else the home's."""
    if explicit is not None:
        return explicit
    return next((path for path in _candidate_paths(home) if path_exists(path)), None)


def _candidate_paths(home: Path) -> Iterator[Path]:
    with suppress(OSError):  # the current folder may have been deleted
        yield Path.cwd() / SETTINGS_FILE_NAME
    yield home / SETTINGS_FILE_NAME


def path_exists(path: Path) -> bool:
    """Return whether the path exists, or cannot be checked (reading it will report why)."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def load_settings(home: Path, explicit: Path | None = None) -> LoadedSettings:
    """Find and read the settings; use defaults if there is no file and none was given."""
    path = find_settings_file(home, explicit)
    return read_settings(path) if path else LoadedSettings(Settings(), None, frozenset())


def read_settings(path: Path) -> LoadedSettings:
    """Read one settings file. Raises ConfigError with all mistakes."""
    return parse_settings(_read_text(path), path)


def parse_settings(text: str, path: Path) -> LoadedSettings:
    """Parse and validate the text of a settings file. Raises ConfigError with all mistakes."""
    raw = _parse_toml(path, text)
    parsed, problems = _validate(raw)
    problems.extend(check_across_tables(parsed))
    named = {problem.key for problem in problems}
    problems.extend(found for found in find_pasted_secrets(raw) if found.key not in named)
    if problems:
        lines = _line_numbers(text)
        raise ConfigError(path, [_add_line_number(problem, lines) for problem in problems])
    settings = Settings(**parsed)
    return LoadedSettings(settings, path, frozenset(_list_set_keys(raw)))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        found, message, hint = "bytes that are not UTF-8", "The file is not UTF-8 text", ""
    except FileNotFoundError:
        found, message, hint = "nothing", "There is no such file", "`hostler init` creates one."
    except OSError as error:
        found = error.strerror or str(error)
        message, hint = f"Cannot read the file: {found}", ""
    raise ConfigError(path, [Problem("the file", found, "a settings file", hint, message=message)])


def _parse_toml(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error) or "too deeply nested"
        line = re.search(r"at line (\d+)", reason)
        # The line is shown in front, so it is left out of the reason.
        shown = re.sub(r" \(at line \d+, column (\d+)\)", r" at column \1", reason)
        problem = Problem("the file", reason, "TOML", message=f"TOML syntax error: {shown}")
        raise ConfigError(path, [replace(problem, line=int(line[1]) if line else 0)]) from error


def _validate(raw: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Validate each table separately, so that a mistake in one does not hide others."""
    parsed: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in raw.items():
        if name not in Settings.model_fields:
            problems.append(unknown_key_problem("", name, Settings.model_fields))
        elif not isinstance(value, dict):
            problems.append(Problem(name, format_value(value), f"a table, [{name}]"))
        elif name in _NAMED_TABLES:
            parsed[name] = _validate_named_tables(name, value, problems)
        else:
            _validate_table(name, PLAIN_TABLES[name], value, parsed, name, problems)
    return parsed, problems


def _validate_named_tables(
    kind: str, tables: Mapping[str, Any], problems: list[Problem]
) -> dict[str, Section]:
    found: dict[str, Section] = {}
    for name, value in tables.items():
        dotted = f"{kind}.{name}"
        if not isinstance(value, dict):
            problems.append(Problem(dotted, format_value(value), f"a table, [{kind}.<name>]"))
        elif not TABLE_NAME.fullmatch(name):
            problems.append(
                Problem(dotted, format_value(name), "a name of letters, digits, '_' and '-'")
            )
        else:
            _validate_table(dotted, _NAMED_TABLES[kind], value, found, name, problems)
    return found


def _validate_table(
    dotted: str,
    section: type[Section],
    value: Mapping[str, Any],
    into: dict[str, Any],
    name: str,
    problems: list[Problem],
) -> None:
    try:
        into[name] = section(**value)
    except ValidationError as error:
        known = section.model_fields
        problems.extend(problem_from_validation(dotted, one, known) for one in error.errors())


def _list_set_keys(raw: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the dotted names of all keys that the file sets."""
    for name, value in raw.items():
        if isinstance(value, dict):
            yield from _list_set_keys(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


_HEADER_LINE = re.compile(r"^\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$")
_KEY_LINE = re.compile(r"^\s*([A-Za-z0-9_.\"'-]+?)\s*=")


def _line_numbers(text: str) -> dict[str, int]:
    """Map dotted keys and tables to line numbers, as far as simple patterns find them."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER_LINE.match(line):
            table = header[1].replace('"', "").replace("'", "")
            lines.setdefault(table, number)
            lines.setdefault(table.partition(".")[0], number)
        elif found := _KEY_LINE.match(line):
            name = found[1].replace('"', "").replace("'", "")
            lines.setdefault(f"{table}.{name}" if table else name, number)
    return lines


def _add_line_number(problem: Problem, lines: Mapping[str, int]) -> Problem:
    """Add the line of the key, or of the nearest table around it."""
    name = problem.key
    while name:
        if name in lines:
            return replace(problem, line=lines[name])
        name = name.rpartition(".")[0]
    return problem


@dataclass(frozen=True, slots=True)
class FilesReport:
    """The files that were checked, and the errors of those with mistakes."""

    files: tuple[Path, ...]
    errors: tuple[ConfigError, ...]

    def sentence(self) -> str:
        """Return the result in one line, if there are no mistakes."""
        if not self.files:
            return "There is no settings file; defaults are used. `hostler init` creates one."
        return " and ".join(str(path) for path in self.files) + ": no mistakes."

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON data."""
        problems = [
            {"file": str(error.path), **asdict(problem)}
            for error in self.errors
            for problem in error.problems
        ]
        return {"ok": not self.errors, "files": [str(f) for f in self.files], "problems": problems}


def check_files(home: Path, explicit: Path | None) -> FilesReport:
    """Check the settings and the caps; a mistake in one does not hide others."""
    settings, caps = find_settings_file(home, explicit), home / POOLS_FILE_NAME
    files = [path for path in (settings, caps) if path and (path_exists(path) or path == explicit)]
    return FilesReport(tuple(files), tuple(_read_errors(files, caps)))


def _read_errors(files: Iterable[Path], caps: Path) -> Iterable[ConfigError]:
    for path in files:
        try:
            load_pools(path) if path == caps else read_settings(path)
        except ConfigError as error:
            yield error


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """Effective settings after a change, the changed keys, and those that need a restart."""

    settings: Settings
    taken: tuple[str, ...]
    waiting: tuple[str, ...]


def merge_settings(present: Settings, wanted: Settings) -> SettingsChange:
    """Apply all changes that need no restart; other keys keep their present values."""
    tables: dict[str, Section] = {}
    taken: list[str] = []
    waiting: list[str] = []
    for name in PLAIN_TABLES:
        old, new = getattr(present, name), getattr(wanted, name)
        changed = _changed_keys(old, new)
        kept = [key for key in changed if needs_restart(type(new).model_fields[key])]
        waiting += [f"{name}.{key}" for key in kept]
        taken += [f"{name}.{key}" for key in changed if key not in kept]
        tables[name] = new.model_copy(update={key: getattr(old, key) for key in kept})
    for name in ("repo", "agent"):
        taken += [
            f"{name}.{key}"
            for key in _changed_tables(getattr(present, name), getattr(wanted, name))
        ]
    return SettingsChange(wanted.model_copy(update=tables), tuple(taken), tuple(waiting))


def _changed_keys(old: Section, new: Section) -> list[str]:
    return [key for key in type(new).model_fields if getattr(old, key) != getattr(new, key)]


def _changed_tables(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return the names of added, removed and changed tables."""
    return [name for name in {**old, **new} if old.get(name) != new.get(name)]

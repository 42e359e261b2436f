"""From a file to settings, or to every mistake in it at once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hostler.config.crosschecks import crosschecks
from hostler.config.keys import Section
from hostler.config.problems import from_validation, pasted_secrets, shown, unknown_key
from hostler.config.settings import PLAIN_TABLES, Agent, Repo, Settings
from hostler.errors import ConfigError, Problem

FILE_NAME = "hostler.toml"
TABLE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
# `repo` and `agent` hold one table per name; everything else is a table by itself.
_NAMED: dict[str, type[Section]] = {"repo": Repo, "agent": Agent}


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings and where they came from. `path` is None when everything is default."""

    settings: Settings
    path: Path | None
    given: frozenset[str]


def find(home: Path, explicit: Path | None = None) -> Path | None:
    """The settings file: the named one, `./hostler.toml`, then the home's."""
    if explicit is not None:
        return explicit
    return next((path for path in _candidates(home) if present(path)), None)


def _candidates(home: Path) -> Iterator[Path]:
    with suppress(OSError):  # the folder we stand in may have been removed
        yield Path.cwd() / FILE_NAME
    yield home / FILE_NAME


def present(path: Path) -> bool:
    """Whether something is there. What cannot be looked at counts: reading it will say why."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def load(home: Path, explicit: Path | None = None) -> Loaded:
    """Find and read the settings; defaults where there is no file and none was named."""
    path = find(home, explicit)
    return read(path) if path else Loaded(Settings(), None, frozenset())


def read(path: Path) -> Loaded:
    """Read one file. Raises `ConfigError` with every mistake."""
    return understand(_text(path), path)


def understand(text: str, path: Path) -> Loaded:
    """What the text of a file says. Raises `ConfigError` with every mistake."""
    raw = _parse(path, text)
    parsed, problems = _validate(raw)
    problems.extend(crosschecks(parsed))
    named = {problem.key for problem in problems}
    problems.extend(found for found in pasted_secrets(raw) if found.key not in named)
    if problems:
        lines = _line_numbers(text)
        raise ConfigError(path, [_with_line(problem, lines) for problem in problems])
    settings = Settings(**parsed)
    return Loaded(settings, path, frozenset(_given(raw)))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        problem = Problem("the file", "bytes that are not UTF-8", "text in UTF-8")
    except FileNotFoundError:
        problem = Problem("the file", "nothing", "a settings file", "`hostler init` writes one.")
    except OSError as error:
        problem = Problem("the file", error.strerror or str(error), "a readable file")
    raise ConfigError(path, [problem])


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        line = re.search(r"at line (\d+)", str(error))
        problem = Problem(
            "the file", str(error) or "too deep", "TOML, as docs/configuration.md shows"
        )
        raise ConfigError(path, [replace(problem, line=int(line[1]) if line else 0)]) from error


def _validate(raw: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Each table by itself, so that a mistake in one hides none in another."""
    parsed: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in raw.items():
        if name not in Settings.model_fields:
            problems.append(unknown_key("", name, Settings.model_fields))
        elif not isinstance(value, dict):
            problems.append(Problem(name, shown(value), f"a table, [{name}]"))
        elif name in _NAMED:
            parsed[name] = _named_tables(name, value, problems)
        else:
            _one_table(name, PLAIN_TABLES[name], value, parsed, name, problems)
    return parsed, problems


def _named_tables(
    kind: str, tables: Mapping[str, Any], problems: list[Problem]
) -> dict[str, Section]:
    found: dict[str, Section] = {}
    for name, value in tables.items():
        dotted = f"{kind}.{name}"
        if not isinstance(value, dict):
            problems.append(Problem(dotted, shown(value), f"a table, [{kind}.<name>]"))
        elif not TABLE_NAME.fullmatch(name):
            problems.append(Problem(dotted, shown(name), "a name of letters, digits, '_', '-'"))
        else:
            _one_table(dotted, _NAMED[kind], value, found, name, problems)
    return found


def _one_table(
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
        problems.extend(from_validation(dotted, one, known) for one in error.errors())


def _given(raw: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The dotted names of all keys that the file sets."""
    for name, value in raw.items():
        if isinstance(value, dict):
            yield from _given(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


_HEADER = re.compile(r"^\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$")
_KEY = re.compile(r"^\s*([A-Za-z0-9_.\"'-]+?)\s*=")


def _line_numbers(text: str) -> dict[str, int]:
    """On which line each dotted key or table stands, as well as a plain reading can tell."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = header[1].replace('"', "").replace("'", "")
            lines.setdefault(table, number)
        elif found := _KEY.match(line):
            name = found[1].replace('"', "").replace("'", "")
            lines.setdefault(f"{table}.{name}" if table else name, number)
    return lines


def _with_line(problem: Problem, lines: Mapping[str, int]) -> Problem:
    """The line of the key itself, or of the nearest table around it."""
    name = problem.key
    while name:
        if name in lines:
            return replace(problem, line=lines[name])
        name = name.rpartition(".")[0]
    return problem

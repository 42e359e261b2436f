"""`governor.json`: the operator's caps per agent pool. It holds no state.

Two formats are read: `{"pools": {"<provider>": {…}}}`, and the older flat `{…}`, which means the
default pool. Older spellings of keys (`MaxGlobalAgents`) are accepted, and unknown keys are kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, ValidationError

from hostler.config.settings import Section, key
from hostler.config.validation import format_value, problem_from_validation
from hostler.errors import ConfigError, Problem

POOLS_FILE_NAME = "governor.json"
DEFAULT_POOL = "anthropic"
# A longer pause is a slip of the pen, and one that is far longer has no end that can be told.
DAY_SECONDS = 86_400


class PoolCaps(Section):
    """One pool's caps, all set by the operator. Zero means: the default."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, allow_inf_nan=False)

    max_global_agents: int = key(
        0, "Maximum number of agents at once; 0: `[runtime] max_global_agents`.", ge=0
    )
    adaptive: bool = key(False, "Adapt the cap to what the provider accepts.")
    policy: Literal["aimd", "served"] = key("aimd", "Adaptive policy.")
    hard_max: int = key(0, "Upper limit of an adaptive cap; 0: twice max_global_agents.", ge=0)
    settle_seconds: int = key(
        120, "Settle window after a change of an adaptive cap.", ge=1, le=DAY_SECONDS
    )
    break_seconds: int = key(
        300, "How long the breaker first stays open; doubles up to 3600.", ge=1, le=DAY_SECONDS
    )
    min_dispatch_interval_seconds: float = key(
        3.0, "Minimum time between two starts.", ge=0, le=DAY_SECONDS
    )


def load_pools(path: Path) -> dict[str, PoolCaps]:
    """Load the pools of a file; none if there is no file. Raises ConfigError if it is damaged."""
    raw = read_pools_json(path)
    return {} if raw is None else parse_pools(path, raw)


def read_pools_json(path: Path) -> Any:
    """Read the JSON of a file; return None if there is no file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        message = f"Cannot read the file: {error.strerror}"
        problem = Problem("the file", str(error.strerror), "readable", message=message)
        raise ConfigError(path, [problem]) from error
    except (ValueError, RecursionError) as error:
        problem = Problem("the file", str(error), "JSON", message=f"JSON syntax error: {error}")
        raise ConfigError(path, [problem]) from error


def parse_pools(path: Path, raw: Any) -> dict[str, PoolCaps]:
    """Parse the pools of a file's content. Raises ConfigError with all mistakes."""
    if not isinstance(raw, dict):
        raise ConfigError(
            path, [Problem("the file", format_value(raw), 'an object, {"pools": {…}}')]
        )
    tables = raw.get("pools", {DEFAULT_POOL: raw})
    if not isinstance(tables, dict):
        raise ConfigError(path, [Problem("pools", format_value(tables), "an object")])
    problems: list[Problem] = []
    if "" in tables and DEFAULT_POOL in tables:
        problems.append(
            Problem(
                f"pools.{DEFAULT_POOL}",
                "both",
                "one",
                message=f'The pool {DEFAULT_POOL} is given twice: as "" and by its name',
            )
        )
    pools = {
        name or DEFAULT_POOL: _parse_pool(name, table, problems) for name, table in tables.items()
    }
    if problems:
        raise ConfigError(path, problems)
    return pools


def canonical_key(key: str) -> str | None:
    """Return the known key that a differently spelt key means; None if there is none."""
    return _KEYS_BY_SPELLING.get(key.replace("_", "").lower())


_KEYS_BY_SPELLING = {name.replace("_", ""): name for name in PoolCaps.model_fields}


def _is_default(key: str, value: object) -> bool:
    """Return whether the value is 0, which means the default for every known number."""
    return key in PoolCaps.model_fields and type(value) in (int, float) and value == 0


def _parse_pool(name: str, table: Any, problems: list[Problem]) -> PoolCaps:
    pool = f"pools.{name or DEFAULT_POOL}"
    if not isinstance(table, Mapping):
        problems.append(Problem(pool, format_value(table), "an object"))
        return PoolCaps()
    named: dict[str, Any] = {}
    for spelt, value in table.items():
        name = canonical_key(spelt) or spelt
        if name in named:
            what = f"The key {pool}.{name} is given twice, in different spellings"
            problems.append(Problem(f"{pool}.{name}", "both", "one", message=what))
        named[name] = value
    try:
        return PoolCaps(
            **{key: value for key, value in named.items() if not _is_default(key, value)}
        )
    except ValidationError as error:
        known = PoolCaps.model_fields
        problems.extend(problem_from_validation(pool, one, known) for one in error.errors())
        return PoolCaps()

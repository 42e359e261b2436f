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

    max_global_agents: int = key(0, "Agents at once; 0: `[runtime] max_global_agents`.", ge=0)
    adaptive: bool = key(False, "Let the cap follow what the provider takes.")
    policy: Literal["aimd", "served"] = key("aimd", "How an adaptive cap follows.")
    hard_max: int = key(0, "Ceiling of an adaptive cap; 0: twice max_global_agents.", ge=0)
    settle_seconds: int = key(
        120, "Pause after every change of an adaptive cap.", ge=1, le=DAY_SECONDS
    )
    break_seconds: int = key(
        300, "First pause of the breaker; doubles up to 3600.", ge=1, le=DAY_SECONDS
    )
    min_dispatch_interval_seconds: float = key(
        3.0, "Least pause between two starts.", ge=0, le=DAY_SECONDS
    )


def load_pools(path: Path) -> dict[str, PoolCaps]:
    """The pools of a file; none without a file. A damaged one is an error, never a default."""
    raw = read_pools_json(path)
    return {} if raw is None else parse_pools(path, raw)


def read_pools_json(path: Path) -> Any:
    """The JSON of a file as it is; None without a file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(path, [Problem("the file", str(error.strerror), "readable")]) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(path, [Problem("the file", f"no JSON ({error})", "JSON")]) from error


def parse_pools(path: Path, raw: Any) -> dict[str, PoolCaps]:
    """The pools of a file's content, all mistakes in it at once; the path is for those."""
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
            Problem(f"pools.{DEFAULT_POOL}", "the pool twice", 'one of "" and its name')
        )
    pools = {
        name or DEFAULT_POOL: _parse_pool(name, table, problems) for name, table in tables.items()
    }
    if problems:
        raise ConfigError(path, problems)
    return pools


def canonical_key(key: str) -> str | None:
    """Which of our keys is meant, also where it is spelt in another way; None: it is not ours."""
    return _KEYS_BY_SPELLING.get(key.replace("_", "").lower())


_KEYS_BY_SPELLING = {name.replace("_", ""): name for name in PoolCaps.model_fields}


def _is_default(key: str, value: object) -> bool:
    """Zero means the default for every number of ours."""
    return key in PoolCaps.model_fields and type(value) in (int, float) and value == 0


def _parse_pool(name: str, table: Any, problems: list[Problem]) -> PoolCaps:
    place = f"pools.{name or DEFAULT_POOL}"
    if not isinstance(table, Mapping):
        problems.append(Problem(place, format_value(table), "an object"))
        return PoolCaps()
    named: dict[str, Any] = {}
    for spelt, value in table.items():
        name = canonical_key(spelt) or spelt
        if name in named:
            problems.append(Problem(f"{place}.{name}", "the key twice", "one spelling of it"))
        named[name] = value
    try:
        return PoolCaps(
            **{key: value for key, value in named.items() if not _is_default(key, value)}
        )
    except ValidationError as error:
        known = PoolCaps.model_fields
        problems.extend(problem_from_validation(place, one, known) for one in error.errors())
        return PoolCaps()

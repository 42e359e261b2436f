"""`governor.json`: the operator's caps per agent pool. State never goes in here.

Two shapes are read: `{"pools": {"<provider>": {…}}}`, and the older flat `{…}`, which means the
default pool. Our keys may be spelt as older programs named them, `MaxGlobalAgents`. Keys we do not
know are kept, so that another program's are not lost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, ValidationError

from hostler.config.keys import Section, key
from hostler.config.problems import from_validation, shown
from hostler.errors import ConfigError, Problem

FILE_NAME = "governor.json"
DEFAULT_POOL = "anthropic"
# A longer pause is a slip of the pen, and one that is far longer has no end that can be told.
A_DAY = 86_400


class PoolCaps(Section):
    """One pool's caps, all set by the operator. Zero means: the default."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, allow_inf_nan=False)

    max_global_agents: int = key(0, "Agents at once; 0: `[runtime] max_global_agents`.", ge=0)
    adaptive: bool = key(False, "Let the cap follow what the provider takes.")
    policy: Literal["aimd", "served"] = key("aimd", "How an adaptive cap follows.")
    hard_max: int = key(0, "Ceiling of an adaptive cap; 0: twice max_global_agents.", ge=0)
    settle_seconds: int = key(120, "Pause after every change of an adaptive cap.", ge=1, le=A_DAY)
    break_seconds: int = key(300, "First pause of the breaker; doubles up to 3600.", ge=1, le=A_DAY)
    min_dispatch_interval_seconds: float = key(
        3.0, "Least pause between two starts.", ge=0, le=A_DAY
    )


def load_pools(path: Path) -> dict[str, PoolCaps]:
    """The pools of a file; none without a file. A damaged one is an error, never a default."""
    raw = read_content(path)
    return {} if raw is None else pools_in(path, raw)


def read_content(path: Path) -> Any:
    """The JSON of a file as it is; None without a file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(path, [Problem("the file", str(error.strerror), "readable")]) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(path, [Problem("the file", f"no JSON ({error})", "JSON")]) from error


def pools_in(path: Path, raw: Any) -> dict[str, PoolCaps]:
    """The pools of a file's content, all mistakes in it at once; the path is for those."""
    if not isinstance(raw, dict):
        raise ConfigError(path, [Problem("the file", shown(raw), 'an object, {"pools": {…}}')])
    tables = raw.get("pools", {DEFAULT_POOL: raw})
    if not isinstance(tables, dict):
        raise ConfigError(path, [Problem("pools", shown(tables), "an object")])
    problems: list[Problem] = []
    if "" in tables and DEFAULT_POOL in tables:
        problems.append(
            Problem(f"pools.{DEFAULT_POOL}", "the pool twice", 'one of "" and its name')
        )
    pools = {name or DEFAULT_POOL: _pool(name, table, problems) for name, table in tables.items()}
    if problems:
        raise ConfigError(path, problems)
    return pools


def ours(key: str) -> str | None:
    """Which of our keys is meant, also where it is spelt in another way; None: it is not ours."""
    return _SPELT.get(key.replace("_", "").lower())


_SPELT = {name.replace("_", ""): name for name in PoolCaps.model_fields}


def _is_default(key: str, value: object) -> bool:
    """Zero means the default for every number of ours."""
    return key in PoolCaps.model_fields and type(value) in (int, float) and value == 0


def _pool(name: str, table: Any, problems: list[Problem]) -> PoolCaps:
    place = f"pools.{name or DEFAULT_POOL}"
    if not isinstance(table, Mapping):
        problems.append(Problem(place, shown(table), "an object"))
        return PoolCaps()
    named: dict[str, Any] = {}
    for spelt, value in table.items():
        name = ours(spelt) or spelt
        if name in named:
            problems.append(Problem(f"{place}.{name}", "the key twice", "one spelling of it"))
        named[name] = value
    try:
        return PoolCaps(
            **{key: value for key, value in named.items() if not _is_default(key, value)}
        )
    except ValidationError as error:
        known = PoolCaps.model_fields
        problems.extend(from_validation(place, one, known) for one in error.errors())
        return PoolCaps()

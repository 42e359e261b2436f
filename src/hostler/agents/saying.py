"""The shell's way to say how a run went: check the words, and write result.json."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hostler.agents.errors import BadWord, NotInRun, RunFilesFailed
from hostler.agents.launch import RESULT
from hostler.agents.result import Result, parse
from hostler.agents.resultfile import LARGEST


def say(variables: Mapping[str, str], words: Mapping[str, Any]) -> tuple[Path, Result]:
    """Write these words as the run's result. A later word replaces an earlier one."""
    path = result_path(variables)
    result = parse({"version": 1, **{name: value for name, value in words.items() if value}})
    if not isinstance(result, Result):
        raise BadWord(result)
    data = (result.model_dump_json(indent=2) + "\n").encode()
    if len(data) > LARGEST:
        raise BadWord([f"all together: {len(data):,} bytes; a result may have {LARGEST:,}"])
    _replace(path, data)
    return path, result


def result_path(variables: Mapping[str, str]) -> Path:
    """Where the result of the run belongs in which we are called."""
    folder = variables.get("HOSTLER_RUN_DIR", "")
    if not folder:
        raise NotInRun("HOSTLER_RUN_DIR is not set")
    if not Path(folder).is_dir():
        raise NotInRun(f"HOSTLER_RUN_DIR is {folder}, which is no folder")
    return Path(folder) / RESULT


def replies(given: Iterable[str]) -> list[dict[str, str]]:
    """Read `ID=TEXT` words; every one that is not so is named."""
    parts = [(word, *word.partition("=")) for word in given]
    wrong = [word for word, number, equals, _ in parts if not (equals and _is_id(number))]
    if wrong:
        raise BadWord(
            [f"--reply {word[:60]!r}: must be ID=TEXT with a comment's number" for word in wrong]
        )
    return [{"comment_id": number.strip(), "body": text} for _, number, _, text in parts]


def _is_id(text: str) -> bool:
    return text.strip().isascii() and text.strip().isdigit()


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RunFilesFailed(path, error) from error

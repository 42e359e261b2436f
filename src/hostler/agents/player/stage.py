"""Where a script is played: the run's variables, its context, and its voice."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostler.agents.events import Event
from hostler.agents.plainfile import NotPlain, read_plain
from hostler.agents.wire import encode

LARGEST = 16 * 1024 * 1024
_NAME = re.compile(r"\{\{\s*([A-Za-z0-9_.]+)\s*\}\}")


class CannotPlay(Exception):
    """The script asks for something that is not there."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a script can know. Paths are None where the player runs by hand, outside of a run."""

    checkout: Path
    attempt: int
    context: Mapping[str, Any]
    prompt: str
    result_file: Path | None
    done_file: Path | None
    task_dir: Path | None

    @property
    def comments(self) -> list[Mapping[str, Any]]:
        """The comments that the context asks to answer."""
        found = self.context.get("comments")
        items = found if isinstance(found, list) else []
        return [item for item in items if isinstance(item, dict)]

    def filled(self, text: str, **more: Any) -> str:
        """The text with every `{{ name }}` replaced by what the context says."""
        known = {**self.context, "attempt": self.attempt, **more}
        return _NAME.sub(lambda found: str(_look_up(known, found[1])), text)


def _look_up(known: Mapping[str, Any], dotted: str) -> Any:
    value: Any = known
    for part in dotted.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise CannotPlay(f"nothing here is called {dotted}")
        value = value[part]
    return value


def emit(event: Event) -> None:
    """An event on standard output, at once."""
    raw(encode(event).encode() + b"\n")


def raw(data: bytes, to: int = 1) -> None:
    """Bytes as they are, past every buffer."""
    sys.stdout.flush()
    view = memoryview(data)
    while view:
        view = view[os.write(to, view) :]


def set_up(variables: Mapping[str, str]) -> Stage:
    """The stage of this process."""
    attempt = variables.get("HOSTLER_ATTEMPT", "1")
    return Stage(
        checkout=Path.cwd(),
        attempt=int(attempt) if attempt.isdigit() else 1,
        context=_context(variables.get("HOSTLER_CONTEXT", "")),
        prompt=_text(variables.get("HOSTLER_PROMPT", "")),
        result_file=_path(variables.get("HOSTLER_RESULT", "")),
        done_file=_path(variables.get("HOSTLER_DONE", "")),
        task_dir=_path(variables.get("HOSTLER_TASK_DIR", "")),
    )


def _path(text: str) -> Path | None:
    return Path(text) if text else None


def _text(path: str) -> str:
    try:
        return read_plain(Path(path), LARGEST).decode("utf-8", "replace") if path else ""
    except NotPlain as error:
        raise CannotPlay(f"{path}: {error.found}") from None


def _context(path: str) -> Mapping[str, Any]:
    text = _text(path)
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        raise CannotPlay(f"{path} is not JSON") from None
    if not isinstance(value, dict):
        raise CannotPlay(f"{path} holds no object")
    return value

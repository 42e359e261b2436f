"""How commands speak: text for people, JSON for programs, one clear line for errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from hostler.errors import HostlerError

RED, YELLOW, GREEN, DIM = "31", "33", "32", "2"


def coloured(text: str, colour: str, stream: TextIO | None = None) -> str:
    """The text in a colour, on a terminal that wants colours; otherwise as it is."""
    stream = stream or sys.stdout
    if not stream.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{colour}m{text}\x1b[0m"


def emit(text: str) -> None:
    """A line on standard output, as it is: for texts that cannot hold a secret of the user's."""
    sys.stdout.write(text + "\n")


def say(text: str = "") -> None:
    """A line on standard output, without secrets."""
    from hostler.telemetry.redact import redact

    emit(redact(text))


def note(text: str) -> None:
    """A line about what we are doing, on standard error, so that output can be piped."""
    from hostler.telemetry.redact import redact

    sys.stderr.write(redact(text) + "\n")
    sys.stderr.flush()


def say_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """One JSON document on standard output, without secrets."""
    say(as_json(value))


def as_json(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """A JSON document for programs (and for people who look at it)."""
    import json

    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def report(error: HostlerError) -> None:
    """What happened, what is safe, what to do next, on standard error."""
    from hostler.telemetry.redact import redact

    first, *rest = error.lines()
    label = coloured("error:", RED, sys.stderr)
    text = "\n".join([f"{label} {first}", *(f"  {line}" for line in rest)])
    sys.stderr.write(redact(text) + "\n")


def write_file(path: Path, text: str) -> None:
    """Write a file whole or not at all; a clear error where that fails."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        # New folders are ours alone: the home holds what agents and people said.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise HostlerError(
            f"{path} could not be written: {error.strerror}.",
            safe="What was there before is unchanged.",
            remedy="Choose another place, or make this one writable.",
        ) from error

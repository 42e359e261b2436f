"""Print text, JSON and errors; format text for the terminal; read prompts; ask for confirmation."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import typer

from hostler.errors import HostlerError
from hostler.text import escape_line

RED, YELLOW, GREEN, DIM = "31", "33", "32", "2"


def colourise(text: str, colour: str, stream: TextIO | None = None) -> str:
    """Return the text in a colour if the stream is a terminal that supports it."""
    stream = stream or sys.stdout
    if not stream.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{colour}m{text}\x1b[0m"


def print_raw(text: str) -> None:
    """Print a line without redaction, for texts that cannot contain a secret."""
    sys.stdout.write(text + "\n")


def print_line(text: str = "") -> None:
    """Print a line on standard output, with secrets redacted."""
    from hostler.telemetry.redaction import redact

    print_raw(redact(text))


def print_note(text: str) -> None:
    """Print a line on standard error, with secrets redacted."""
    from hostler.telemetry.redaction import redact

    sys.stderr.write(redact(text) + "\n")
    sys.stderr.flush()


def print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Print one JSON document on standard output, with secrets redacted."""
    print_line(format_json(value))


def format_json(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """Format a JSON document, indented."""
    import json

    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def print_error(error: HostlerError) -> None:
    """Print what happened, what is safe and what to do, on standard error."""
    from hostler.telemetry.redaction import redact

    first, *rest = error.lines()
    label = colourise("error:", RED, sys.stderr)
    text = "\n".join([f"{label} {first}", *(f"  {line}" for line in rest)])
    sys.stderr.write(redact(text) + "\n")


def write_atomically(path: Path, text: str) -> None:
    """Write a file atomically; raise HostlerError if that fails."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        # New folders are private: the home contains prompts and output of agents.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise HostlerError(
            f"Cannot write {path}: {error.strerror}.",
            safe="The existing file was not changed.",
            remedy="Make it writable, or choose another path.",
        ) from error


_LABEL_WIDTH = 12
_MIN_WIDTH = 40


def format_local_time(at: datetime) -> str:
    """Format a timestamp in local time, with its date unless it is today."""
    local = at.astimezone()
    today = datetime.now().astimezone().date()
    return f"{local:%H:%M:%S}" if local.date() == today else f"{local:%Y-%m-%d %H:%M:%S}"


def terminal_width() -> int | None:
    """Return the number of columns; None if standard output is not a terminal."""
    if not sys.stdout.isatty():
        return None
    return max(shutil.get_terminal_size().columns, _MIN_WIDTH)


def format_labelled(label: str, text: str) -> list[str]:
    """Format a label and a text in two columns, wrapped on a terminal."""
    columns = terminal_width()
    width = 10_000_000 if columns is None else columns - _LABEL_WIDTH - 2
    # Users copy names: do not break them across lines.
    wrapped = textwrap.wrap(
        escape_line(text), width, break_on_hyphens=False, break_long_words=False
    )
    parts = wrapped or [""]
    heads = [f"  {label:<{_LABEL_WIDTH}}", *(" " * (_LABEL_WIDTH + 2) for _ in parts[1:])]
    return [f"{head}{part}".rstrip() for head, part in zip(heads, parts, strict=True)]


def require_confirmation(question: str) -> None:
    """Ask for confirmation; exit if the user declines, raise HostlerError without a terminal."""
    if not sys.stdin.isatty():
        raise HostlerError(
            "Not a terminal: cannot ask for confirmation.",
            safe="Nothing was changed.",
            remedy="Pass --yes to confirm.",
        )
    if not typer.confirm(question, err=True):
        print_note("Nothing was changed.")
        raise typer.Exit(1)


class BadText(HostlerError):
    """A text argument is missing, given twice, or cannot be read."""

    exit_code = 2

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what, safe="Nothing was changed.", remedy=remedy)


def read_text_argument(
    text: str | None, file: Path | None, stdin: TextIO, max_length: int, what: str
) -> str:
    """Read a text from the argument, a file or standard input; `what` names it in errors."""
    if text is not None and file is not None:
        raise BadText(f"Give {what} either as a text or with --file, not both.")
    if file is not None:
        found = _read_text_file(file, max_length, what)
    elif text == "-" or (text is None and not stdin.isatty()):
        found = _decode_text(stdin.buffer.read(4 * max_length + 1), max_length, what)
    else:
        found = (text or "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if not found.strip():
        raise BadText(
            f"{what} is empty.".capitalize(), "Give a text, --file FILE, or - for standard input."
        )
    return found


def _read_text_file(file: Path, max_length: int, what: str) -> str:
    try:
        with file.expanduser().open("rb") as opened:
            return _decode_text(opened.read(4 * max_length + 1), max_length, what)
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadText(f"Cannot read {file}: {why}.") from error


def _decode_text(data: bytes, max_length: int, what: str) -> str:
    text = data.decode("utf-8", "replace")
    if len(text) > max_length:
        raise BadText(
            f"{what} is longer than {max_length:,} characters.".capitalize(),
            "Put the material into a file and name the file in the text.",
        )
    # The last newline ends the file, it is not part of the text.
    return text.removesuffix("\n")

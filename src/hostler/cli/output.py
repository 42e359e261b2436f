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
    """The text in a colour, on a terminal that wants colours; otherwise as it is."""
    stream = stream or sys.stdout
    if not stream.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{colour}m{text}\x1b[0m"


def print_raw(text: str) -> None:
    """A line on standard output, as it is: for texts that cannot hold a secret of the user's."""
    sys.stdout.write(text + "\n")


def print_line(text: str = "") -> None:
    """A line on standard output, without secrets."""
    from hostler.telemetry.redaction import redact

    print_raw(redact(text))


def print_note(text: str) -> None:
    """A line about what we are doing, on standard error, so that output can be piped."""
    from hostler.telemetry.redaction import redact

    sys.stderr.write(redact(text) + "\n")
    sys.stderr.flush()


def print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """One JSON document on standard output, without secrets."""
    print_line(format_json(value))


def format_json(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """A JSON document for programs (and for people who look at it)."""
    import json

    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def print_error(error: HostlerError) -> None:
    """What happened, what is safe, what to do next, on standard error."""
    from hostler.telemetry.redaction import redact

    first, *rest = error.lines()
    label = colourise("error:", RED, sys.stderr)
    text = "\n".join([f"{label} {first}", *(f"  {line}" for line in rest)])
    sys.stderr.write(redact(text) + "\n")


def write_atomically(path: Path, text: str) -> None:
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


_LABEL_WIDTH = 12
_MIN_WIDTH = 40


def format_local_time(at: datetime) -> str:
    """A moment in the reader's own time; with its day if it is not today's."""
    here = at.astimezone()
    today = datetime.now().astimezone().date()
    return f"{here:%H:%M:%S}" if here.date() == today else f"{here:%Y-%m-%d %H:%M:%S}"


def terminal_width() -> int | None:
    """How many columns there are; None where nobody looks at a terminal."""
    if not sys.stdout.isatty():
        return None
    return max(shutil.get_terminal_size().columns, _MIN_WIDTH)


def format_labelled(label: str, text: str) -> list[str]:
    """A line for people, its label in a column of its own; wrapped on a terminal."""
    columns = terminal_width()
    room = 10_000_000 if columns is None else columns - _LABEL_WIDTH - 2
    # Names are there to be copied: better a long line than half a name.
    wrapped = textwrap.wrap(escape_line(text), room, break_on_hyphens=False, break_long_words=False)
    parts = wrapped or [""]
    heads = [f"  {label:<{_LABEL_WIDTH}}", *(" " * (_LABEL_WIDTH + 2) for _ in parts[1:])]
    return [f"{head}{part}".rstrip() for head, part in zip(heads, parts, strict=True)]


def require_confirmation(question: str) -> None:
    """Go on only with a yes. Without a terminal nobody can be asked, and that is said."""
    if not sys.stdin.isatty():
        raise HostlerError(
            "There is no terminal to ask on.", safe="Nothing was changed.", remedy="Use --yes."
        )
    if not typer.confirm(question, err=True):
        print_note("Nothing was changed.")
        raise typer.Exit(1)


class BadText(HostlerError):
    """There is no text, or more than one, or none that can be read."""

    exit_code = 2

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what, safe="Nothing was changed.", remedy=remedy)


def read_text_argument(
    text: str | None, file: Path | None, stdin: TextIO, largest: int, what: str
) -> str:
    """The one text that was given. `what` names it: the prompt, the answer."""
    if text is not None and file is not None:
        raise BadText(f"There is a text and a --file; {what} is one of them.")
    if file is not None:
        found = _read_text_file(file, largest, what)
    elif text == "-" or (text is None and not stdin.isatty()):
        found = _decode_text(stdin.buffer.read(4 * largest + 1), largest, what)
    else:
        found = (text or "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if not found.strip():
        raise BadText(
            f"{what} is empty.".capitalize(), "Give a text, --file FILE, or - to read one."
        )
    return found


def _read_text_file(file: Path, largest: int, what: str) -> str:
    try:
        with file.expanduser().open("rb") as opened:
            return _decode_text(opened.read(4 * largest + 1), largest, what)
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadText(f"{file} cannot be read: {why}.") from error


def _decode_text(data: bytes, largest: int, what: str) -> str:
    text = data.decode("utf-8", "replace")
    if len(text) > largest:
        raise BadText(
            f"{what} has more than {largest:,} characters.".capitalize(),
            "Leave the material in a file, and name it in the text.",
        )
    # The last newline belongs to the file, and not to what it says.
    return text.removesuffix("\n")

"""A text that somebody gives: as an argument, a file, or on standard input."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

from hostler.errors import HostlerError


class BadText(HostlerError):
    """There is no text, or more than one, or none that can be read."""

    exit_code = 2

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what, safe="Nothing was changed.", remedy=remedy)


def text_of(text: str | None, file: Path | None, stdin: TextIO, largest: int, what: str) -> str:
    """The one text that was given. `what` names it: the prompt, the answer."""
    if text is not None and file is not None:
        raise BadText(f"There is a text and a --file; {what} is one of them.")
    if file is not None:
        found = _from_file(file, largest, what)
    elif text == "-" or (text is None and not stdin.isatty()):
        found = _decoded(stdin.buffer.read(4 * largest + 1), largest, what)
    else:
        found = (text or "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    if not found.strip():
        raise BadText(
            f"{what} is empty.".capitalize(), "Give a text, --file FILE, or - to read one."
        )
    return found


def _from_file(file: Path, largest: int, what: str) -> str:
    try:
        with file.expanduser().open("rb") as opened:
            return _decoded(opened.read(4 * largest + 1), largest, what)
    except (OSError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadText(f"{file} cannot be read: {why}.") from error


def _decoded(data: bytes, largest: int, what: str) -> str:
    text = data.decode("utf-8", "replace")
    if len(text) > largest:
        raise BadText(
            f"{what} has more than {largest:,} characters.".capitalize(),
            "Leave the material in a file, and name it in the text.",
        )
    # The last newline belongs to the file, and not to what it says.
    return text.removesuffix("\n")

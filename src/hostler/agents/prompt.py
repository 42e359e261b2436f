"""How a prompt reaches a program: on standard input, or as the path of a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

PLACEHOLDER = "{prompt_file}"


def with_prompt(argv: Sequence[str], how: str, path: Path) -> tuple[tuple[str, ...], str]:
    """The arguments and the file for standard input.

    A placeholder is filled wherever it stands. A prompt that shall come as a file, where no
    placeholder says where to, is the last argument.
    """
    filled = tuple(word.replace(PLACEHOLDER, str(path)) for word in argv)
    if how == "stdin":
        return filled, str(path)
    return (filled if filled != tuple(argv) else (*filled, str(path))), ""

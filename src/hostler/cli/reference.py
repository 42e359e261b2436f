"""Generate the reference page of all commands.

python -m hostler.cli.reference > docs/reference/commands.md
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

_HEAD = """# Commands

<!-- Written by `python -m hostler.cli.reference`; a test keeps it true. -->

Every command takes `--help`. These come before the command's name:

"""
_BUILTIN_OPTIONS = {"--help", "--install-completion", "--show-completion"}


def walk_commands(
    command: Any, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and every group that has options of its own, with the words that call it."""
    inner = getattr(command, "commands", {})
    if path and (not inner or _own_options(command)):
        yield path, command
    for name in sorted(inner):
        yield from walk_commands(inner[name], (*path, name))


def render_page() -> str:
    """The whole page."""
    from hostler.cli.main import app

    root = get_command(app)
    parts = [_HEAD + _options(root)]
    for path, command in walk_commands(root):
        parts.append(
            f"## `hostler {' '.join(path)}`\n\n{_render_help(command.help)}\n\n{_options(command)}"
        )
    parts.append(_COMPLETION)
    return "\n".join(parts)


def _render_help(raw: str | None) -> str:
    """A command's help as Markdown: what stands behind a backspace mark is shown as typed."""
    blocks = inspect.cleandoc(raw or "").split("\n\n")
    return "\n\n".join(_render_block(block) for block in blocks)


def _render_block(block: str) -> str:
    if not block.startswith("\b"):
        return block
    title, *lines = block.removeprefix("\b").strip("\n").splitlines()
    code = "\n".join(line.strip() for line in lines)
    return f"{title}\n\n```sh\n{code}\n```"


def _own_options(command: Any) -> list[Any]:
    return [one for one in command.params if not _BUILTIN_OPTIONS & set(one.opts)]


def _options(command: Any) -> str:
    rows = [_render_row(one) for one in _own_options(command)]
    if not rows:
        return ""
    return "\n".join(["| option | meaning |", "|---|---|", *rows, ""])


def _render_row(parameter: Any) -> str:
    is_argument = parameter.param_type_name == "argument"
    names = [parameter.name.upper()] if is_argument else sorted(parameter.opts, key=len)[::-1]
    said = getattr(parameter, "help", None) or ""
    return f"| {', '.join(f'`{name}`' for name in names)} | {said.replace('|', chr(92) + '|')} |"


_COMPLETION = """## Shell completion

`hostler --install-completion` sets up completion of commands and options for the shell you use;
`hostler --show-completion` prints the script instead.
"""


if __name__ == "__main__":
    sys.stdout.write(render_page())

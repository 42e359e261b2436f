"""Which lines a patch shows. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_HEADER = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True, slots=True)
class PatchLine:
    """One line of a patch; `position` counts from the first hunk header, as GitHub does."""

    position: int
    hunk: int
    old: int | None
    new: int | None
    text: str

    def number(self, side: str) -> int | None:
        """The line number on the LEFT (old) or RIGHT (new) side."""
        return self.old if side == "LEFT" else self.new


def lines(patch: str) -> list[PatchLine]:
    """Every shown line with its numbers on both sides."""
    shown: list[PatchLine] = []
    old = new = header = 0
    for position, text in enumerate(patch.split("\n")):
        found = _HEADER.match(text)
        if found:
            old, new, header = int(found[1]), int(found[2]), position
        elif text[:1] in {" ", "+", "-"}:
            left, right = text[0] != "+", text[0] != "-"
            shown.append(
                PatchLine(position, header, old if left else None, new if right else None, text)
            )
            old, new = old + left, new + right
    return shown


def find(patch: str, line: int, side: str) -> PatchLine | None:
    """The shown line with this number on this side."""
    return next((shown for shown in lines(patch) if shown.number(side) == line), None)


def at_position(patch: str, position: int) -> PatchLine | None:
    """The shown line at this distance from the first hunk header."""
    return next((shown for shown in lines(patch) if shown.position == position), None)


def excerpt(patch: str, until: PatchLine) -> str:
    """The hunk from its header down to a line: what a review comment carries."""
    return "\n".join(patch.split("\n")[until.hunk : until.position + 1])

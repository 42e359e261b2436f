"""The supervisor's last word, exit.json, as far as a verdict needs it."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass

from hostler.agents.verdict import EndedBy

_LONGEST_REASON = 500


@dataclass(frozen=True, slots=True)
class Exit:
    """How the process ended. The code of a signal is negative."""

    ended_by: EndedBy
    code: int | None = None
    reason: str = ""


# There is no last word: the supervisor itself is gone.
LOST = Exit(EndedBy.LOST)


def read_word(word: Mapping[str, object]) -> Exit:
    """What exit.json says. A word that newer supervisors may use and we do not know is `lost`."""
    ended_by, reason = word.get("ended_by"), word.get("reason")
    known = isinstance(ended_by, str) and ended_by in set(EndedBy)
    said = " ".join(reason.split())[:_LONGEST_REASON] if isinstance(reason, str) else ""
    return Exit(EndedBy(str(ended_by)) if known else EndedBy.LOST, _code(word), said)


def _code(word: Mapping[str, object]) -> int | None:
    code, name = word.get("exit_code"), word.get("signal")
    if isinstance(code, int) and not isinstance(code, bool):
        return code
    if isinstance(name, str) and name in signal.Signals.__members__:
        return -signal.Signals[name].value
    return None

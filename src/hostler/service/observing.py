"""Who is told of steps: tests that kill in between. Nobody else."""

from __future__ import annotations

from collections.abc import Callable

# The step that was just done, and what it was about.
Observer = Callable[[str, str], None]


def nobody(_step: str, _about: str) -> None:
    """Observes nothing."""

"""How many examples a test tries: few in every run, many in the long campaigns."""

from __future__ import annotations

import os


def examples(usual: int, long: int) -> int:
    """Return `long` where `make soak` runs the tests, else `usual`."""
    return long if os.environ.get("HYPOTHESIS_PROFILE") == "soak" else usual

"""The person at this machine, by the name that the system has."""

from __future__ import annotations

import os
from getpass import getuser


def person() -> str:
    """Whoever runs this process."""
    try:
        return getuser()
    except (KeyError, OSError):  # a user without a name
        return f"user {os.getuid()}"

"""Rule: whether two programs would do the same with the same words."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from hostler import __version__
from hostler.config.settings import Settings


def likeness(home: Path, settings: Settings, version: str = __version__) -> str:
    """A digest of all that a command's meaning depends on: version, home, settings."""
    whole = [version, str(home.resolve()), settings.model_dump(mode="json")]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()

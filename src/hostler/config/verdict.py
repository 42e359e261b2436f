"""Whether the operator's files are in order, all of them looked at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hostler.config.load import find, present, read
from hostler.config.pools import FILE_NAME, load_pools
from hostler.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Verdict:
    """The files that were read, and the errors of those that have mistakes."""

    files: tuple[Path, ...]
    errors: tuple[ConfigError, ...]

    def sentence(self) -> str:
        """The good news in one line."""
        if not self.files:
            return "There is no settings file: defaults are in force. `hostler init` writes one."
        return " and ".join(str(path) for path in self.files) + ": no mistakes."

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        problems = [
            {"file": str(error.path), **asdict(problem)}
            for error in self.errors
            for problem in error.problems
        ]
        return {"ok": not self.errors, "files": [str(f) for f in self.files], "problems": problems}


def examine_files(home: Path, explicit: Path | None) -> Verdict:
    """Read the settings and the caps; a mistake in one hides none in the other."""
    settings, caps = find(home, explicit), home / FILE_NAME
    files = [path for path in (settings, caps) if path and (present(path) or path == explicit)]
    return Verdict(tuple(files), tuple(_errors(files, caps)))


def _errors(files: Iterable[Path], caps: Path) -> Iterable[ConfigError]:
    for path in files:
        try:
            load_pools(path) if path == caps else read(path)
        except ConfigError as error:
            yield error

"""What `hostler repo add` says at its end, to people and to programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hostler.config.editing import table_rows
from hostler.errors import ForgeError, HostlerError


@dataclass(slots=True)
class Labelled:
    """Labels by what became of them; `failed` has GitHub's words."""

    present: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    queued: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Added:
    """What became of it. `table` is empty where the repository was there already."""

    path: Path
    id: str
    repository: str
    login: str
    default_branch: str
    dry_run: bool
    table: dict[str, object] = field(default_factory=dict)
    added: bool = False
    # Its name on GitHub, where that is another one than in the settings.
    now_called: str = ""
    allows_itself: bool = False
    has_agent: bool = True
    labels: Labelled = field(default_factory=Labelled)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        labels = self.labels
        return {
            "id": self.id,
            "repository": self.repository,
            "now_called": self.now_called or None,
            "settings": self.path,
            "login": self.login,
            "default_branch": self.default_branch,
            "dry_run": self.dry_run,
            "added": self.added,
            "table": self.table or None,
            "labels": {
                "present": labels.present,
                "missing": labels.missing,
                "made": labels.made,
                "queued": labels.queued,
                "failed": labels.failed,
            },
        }

    def lines(self) -> Iterator[str]:
        """For people."""
        yield from self._about_table()
        yield from self._about_labels()
        if not self.has_agent:
            yield "Still missing: an agent. Add an [agent.<name>] table."
        if self.dry_run:
            yield "Nothing was changed."
            return
        if self.added:
            yield "A service that runs now watches it from its next start on."
        yield "Next: hostler service --dry-run   what would be picked up"
        yield "      hostler service             start"

    def failure(self) -> HostlerError:
        """The labels that GitHub would not have."""
        failed = self.labels.failed
        return ForgeError(
            "Labels could not be made: "
            + "; ".join(f"{name} ({why.rstrip('.')})" for name, why in failed.items())
            + ".",
            safe=f"[repo.{self.id}] is in {self.path}.",
            remedy="Mend that and run the command again, or make them on GitHub by hand.",
        )

    def _about_table(self) -> Iterator[str]:
        if self.dry_run and self.table:
            yield f"Would add to {self.path}:"
            yield from (f"  {row}" for row in table_rows("repo", self.id, self.table))
        elif self.added:
            yield f"Added {self.repository} as [repo.{self.id}] to {self.path}."
        else:
            yield f"{self.repository} is there already as [repo.{self.id}] in {self.path}."
        if self.now_called:
            yield f"GitHub calls it {self.now_called} now: change owner and name in that table."
        if self.allows_itself:
            yield f"Only {self.login}, the account of the token, causes work; --allow names others."

    def _about_labels(self) -> Iterator[str]:
        labels = self.labels
        if self.dry_run and labels.missing:
            yield f"Would make the labels {', '.join(labels.missing)}."
        if labels.present and not labels.missing:
            yield f"The labels are there: {', '.join(labels.present)}."
        if labels.made:
            yield f"Made the labels {', '.join(labels.made)}."
        if labels.queued:
            yield f"Queued, not made yet: {', '.join(labels.queued)}. The service makes them."

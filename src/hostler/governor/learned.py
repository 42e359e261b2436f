"""Rule: a pool as its policy sees it now, from what is stored of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from hostler.governor.controls import CONTROLS
from hostler.governor.overlay import Control, Knobs, Load, Overlay, Shut, Slot
from hostler.governor.remembering import as_text, from_text

# What is not known to this program is read as the policy that everybody knows.
USUAL = "aimd"


@dataclass(frozen=True, slots=True)
class Learned:
    """What is known of an adaptive pool at a moment, with what time alone has changed.

    `stored` is the text that it came from.
    """

    knobs: Knobs
    overlay: Overlay
    stored: str
    now: datetime

    @property
    def control(self) -> Control:
        """The policy of the pool."""
        return control_of(self.knobs)

    @property
    def cap(self) -> int:
        """How many agents the pool takes now."""
        return self.control.cap(self.knobs, self.overlay)

    @property
    def shut(self) -> Shut | None:
        """The gate that is closed for everybody, if one is."""
        return self.control.shut(self.knobs, self.overlay, self.now)

    def after_start(self, slot: Slot, roll: float) -> str:
        """What is to be stored once an agent has its place."""
        return as_text(self.control.admitted(self.knobs, self.overlay, self.now, slot, roll))


def learned(
    knobs: Knobs, stored: str, now: datetime, load: Load, ended: Iterable[Slot] = ()
) -> Learned:
    """A pool at a moment. `ended`: whose programs are gone, with nobody left to say more."""
    control, overlay = control_of(knobs), from_text(stored)
    for slot in ended:
        overlay = control.released(knobs, overlay, now, slot, reached=False)
    return Learned(knobs, control.passed(knobs, overlay, now, load), stored, now)


def control_of(knobs: Knobs) -> Control:
    """The policy that the operator chose."""
    return CONTROLS.get(knobs.policy, CONTROLS[USUAL])


def slot_of(project: str, task: str, lease: str) -> Slot:
    """Whose agent holds a lease. A program without a task is known by its lease alone."""
    return Slot(project, task or lease)


def load_of(
    active: int, rows: Sequence[tuple[str, str, str]], *, waiting: bool, heard: Iterable[Slot] = ()
) -> Load:
    """What a pool carries, by the project, task and name of each lease; and who was just heard."""
    # Only the runs of tasks are followed.
    mute = slots_of(row for row in rows if not row[1])
    return Load(active, waiting, slots_of(rows) | frozenset(heard), mute)


def slots_of(rows: Iterable[tuple[str, str, str]]) -> frozenset[Slot]:
    """The same for many, each with its project, task and lease."""
    return frozenset(slot_of(*row) for row in rows)

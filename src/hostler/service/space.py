"""Room on disk: nothing begins that would soon have none."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# Where what agents and we write goes; each may be a disk of its own.
FOLDERS = ("", "checkouts", "mirrors", "projects", "logs")
# Of a small disk, this share is enough.
SHARE = 0.05
_MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Room:
    """One disk that we write to."""

    where: str
    free_mb: float
    total_mb: float


def rooms_of(home: Path) -> tuple[Room, ...]:
    """The disks of a home, each once; what cannot be asked is left out."""
    found: dict[int, Room] = {}
    for name in FOLDERS:
        place = home / name
        try:
            device, disk = place.stat().st_dev, os.statvfs(place)
        except OSError:
            continue
        free, total = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        found.setdefault(device, Room(str(place), free / _MB, total / _MB))
    return tuple(found.values())


def floor_of(room: Room, floor_mb: int) -> float:
    """What must be free there."""
    return min(float(floor_mb), room.total_mb * SHARE)


def too_full(rooms: Iterable[Room], floor_mb: int) -> Room | None:
    """The disk with the least room, if it is too little. Pure."""
    short = [room for room in rooms if room.free_mb < floor_of(room, floor_mb)]
    return min(short, key=lambda room: (room.free_mb, room.where), default=None)


def sentence(room: Room, floor_mb: int) -> str:
    """Why nothing begins."""
    needed = floor_of(room, floor_mb)
    return (
        f"The disk of {room.where} has {room.free_mb:.1f} MB free, and {needed:.1f} MB are needed "
        "(`[runtime] disk_floor_mb`). What runs goes on; nothing new starts."
    )


REMEDY = "Free some space (`hostler gc` finds what is old), and it goes on by itself."

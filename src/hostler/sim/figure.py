"""A drawing as data: the ceiling, the cap and what runs, over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

from hostler.sim.tally import Moment

WIDTH, HEIGHT = 1000, 420
MARKS = 12
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 50, 50
Point = tuple[float, float]
Colour = tuple[int, int, int]

INK: Colour = (60, 60, 60)
FAINT: Colour = (225, 225, 225)
CEILING: Colour = (205, 222, 240)
CAP: Colour = (214, 96, 38)
IN_FLIGHT: Colour = (38, 96, 164)


@dataclass(frozen=True, slots=True)
class Line:
    """Points that are joined."""

    points: tuple[Point, ...]
    colour: Colour
    width: int = 1


@dataclass(frozen=True, slots=True)
class Area:
    """What lies between points and the ground."""

    points: tuple[Point, ...]
    ground: float
    colour: Colour


@dataclass(frozen=True, slots=True)
class Words:
    """A text that begins, is centred, or ends at a point."""

    at: Point
    text: str
    colour: Colour = INK
    anchor: str = "start"


Shape = Line | Area | Words


def drawn(title: str, moments: Sequence[Moment]) -> list[Shape]:
    """The shapes of one run, those behind first."""
    hours = max(1.0, moments[-1].seconds / 3600) if moments else 1.0
    most = max([10.0, *(max(m.ceiling, m.cap, m.active) for m in moments)])
    apart = spread(most)
    top = ceil(most / apart) * apart

    def at(hour: float, agents: float) -> Point:
        x = LEFT + hour / hours * (WIDTH - LEFT - RIGHT)
        return round(x, 1), round(HEIGHT - BOTTOM - agents / top * (HEIGHT - TOP - BOTTOM), 1)

    def steps(heights: Sequence[float]) -> tuple[Point, ...]:
        return tuple(at(m.seconds / 3600, h) for m, h in zip(moments, heights, strict=True))

    return [
        Area(steps([m.ceiling for m in moments]), at(0, 0)[1], CEILING),
        *_grid(at, hours, top),
        Line(steps([float(m.active) for m in moments]), IN_FLIGHT, 2),
        Line(steps([float(m.cap) for m in moments]), CAP, 2),
        Words((LEFT, 24), title),
        *_legend(),
    ]


def spread(most: float) -> int:
    """How far apart marks are, for up to a dozen of them: 1, 2 or 5, times a power of ten."""
    scale = 1
    while most > MARKS * 5 * scale:
        scale *= 10
    return next(step * scale for step in (1, 2, 5) if most <= MARKS * step * scale)


def _grid(place: Callable[[float, float], Point], hours: float, top: int) -> list[Shape]:
    shapes: list[Shape] = []
    for agents in range(0, top + 1, spread(top)):
        left, y = place(0, agents)
        shapes.append(Line(((left, y), (WIDTH - RIGHT, y)), FAINT))
        shapes.append(Words((left - 8, y + 4), str(agents), anchor="end"))
    for hour in range(0, int(hours) + 1, spread(hours)):
        x, ground = place(hour, 0)
        shapes.append(Line(((x, ground), (x, ground + 5)), INK))
        shapes.append(Words((x, ground + 20), str(hour), anchor="middle"))
    shapes.append(Words(((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10), "hours", anchor="middle"))
    return shapes


def _legend() -> list[Shape]:
    shapes: list[Shape] = []
    for place, (name, colour) in enumerate(
        (("ceiling", CEILING), ("cap", CAP), ("in flight", IN_FLIGHT))
    ):
        x = WIDTH - 330 + place * 110
        shapes.append(Line(((x, 20), (x + 18, 20)), colour, 6))
        shapes.append(Words((x + 24, 24), name))
    return shapes

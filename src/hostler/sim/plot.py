"""Draw a run as SVG: the ceiling, the cap and the running agents over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil

from hostler.sim.metrics import Sample

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
class Label:
    """A text that begins, is centred, or ends at a point."""

    at: Point
    text: str
    colour: Colour = INK
    anchor: str = "start"


Shape = Line | Area | Label


def draw(title: str, moments: Sequence[Sample]) -> list[Shape]:
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
        Label((LEFT, 24), title),
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
        shapes.append(Label((left - 8, y + 4), str(agents), anchor="end"))
    for hour in range(0, int(hours) + 1, spread(hours)):
        x, ground = place(hour, 0)
        shapes.append(Line(((x, ground), (x, ground + 5)), INK))
        shapes.append(Label((x, ground + 20), str(hour), anchor="middle"))
    shapes.append(Label(((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10), "hours", anchor="middle"))
    return shapes


def _legend() -> list[Shape]:
    shapes: list[Shape] = []
    for place, (name, colour) in enumerate(
        (("ceiling", CEILING), ("cap", CAP), ("in flight", IN_FLIGHT))
    ):
        x = WIDTH - 330 + place * 110
        shapes.append(Line(((x, 20), (x + 18, 20)), colour, 6))
        shapes.append(Label((x + 24, 24), name))
    return shapes


def svg(shapes: Iterable[Shape]) -> str:
    """A whole file."""
    body = "\n".join(map(_element, shapes))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="13">\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n{body}\n</svg>\n'
    )


def _element(shape: Shape) -> str:
    colour = _colour(shape.colour)
    if isinstance(shape, Line):
        return (
            f'<polyline points="{_points(shape.points)}" fill="none" '
            f'stroke="{colour}" stroke-width="{shape.width}"/>'
        )
    if isinstance(shape, Area):
        return f'<polygon points="{_points(_closed(shape))}" fill="{colour}"/>'
    return _text(shape, colour)


def _text(words: Label, colour: str) -> str:
    x, y = words.at
    return (
        f'<text x="{x:g}" y="{y:g}" fill="{colour}" text-anchor="{words.anchor}">'
        f"{escape(words.text)}</text>"
    )


def _closed(area: Area) -> tuple[Point, ...]:
    if not area.points:
        return ()
    first, last = area.points[0][0], area.points[-1][0]
    return ((first, area.ground), *area.points, (last, area.ground))


def _points(points: Iterable[Point]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def _colour(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)

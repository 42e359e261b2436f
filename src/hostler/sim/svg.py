"""A drawing as SVG."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from hostler.sim.figure import HEIGHT, WIDTH, Area, Colour, Line, Point, Shape, Words


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


def _text(words: Words, colour: str) -> str:
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

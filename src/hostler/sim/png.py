"""A drawing as PNG, dot by dot."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from itertools import pairwise

from hostler.sim import letters
from hostler.sim.figure import HEIGHT, WIDTH, Area, Colour, Line, Point, Shape, Words

WHITE = (255, 255, 255)


class Canvas:
    """Rows of dots. What lies outside is not painted."""

    def __init__(self, width: int = WIDTH, height: int = HEIGHT) -> None:
        self.width, self.height = width, height
        self.rows = [bytearray(bytes(WHITE) * width) for _ in range(height)]

    def dot(self, x: int, y: int, colour: Colour) -> None:
        """Paint one dot."""
        if 0 <= x < self.width and 0 <= y < self.height:
            self.rows[y][3 * x : 3 * x + 3] = bytes(colour)

    def paint(self, shape: Shape) -> None:
        """Paint a shape over what is there."""
        if isinstance(shape, Line):
            for begin, end in pairwise(shape.points):
                self._stroke(begin, end, shape)
        elif isinstance(shape, Area):
            self._fill(shape)
        else:
            self._write(shape)

    def _stroke(self, begin: Point, end: Point, line: Line) -> None:
        """As many dots as the longer way has, each a square as wide as the line."""
        steps = max(1, round(max(abs(end[0] - begin[0]), abs(end[1] - begin[1]))))
        half = line.width // 2
        for step in range(steps + 1):
            x = round(begin[0] + (end[0] - begin[0]) * step / steps)
            y = round(begin[1] + (end[1] - begin[1]) * step / steps)
            for right in range(line.width):
                for down in range(line.width):
                    self.dot(x + right - half, y + down - half, line.colour)

    def _fill(self, area: Area) -> None:
        for (left, begin), (right, end) in pairwise(area.points):
            for x in range(round(left), max(round(right), round(left) + 1)):
                part = max(0.0, (x - left) / (right - left)) if right > left else 0.0
                for y in range(round(begin + (end - begin) * part), round(area.ground)):
                    self.dot(x, y, area.colour)

    def _write(self, words: Words) -> None:
        x, y = words.at
        back = {"start": 0.0, "middle": 0.5, "end": 1.0}[words.anchor] * letters.width(words.text)
        for right, down in letters.dots(words.text):
            self.dot(round(x - back) + right, round(y) - letters.ASCENT + down, words.colour)


def png(shapes: Iterable[Shape]) -> bytes:
    """A whole file: eight bits of red, green and blue for each dot, no filters."""
    canvas = Canvas()
    for shape in shapes:
        canvas.paint(shape)
    head = struct.pack(">IIBBBBB", canvas.width, canvas.height, 8, 2, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in canvas.rows), 9)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", body) + _chunk(b"IEND")


def _chunk(kind: bytes, data: bytes = b"") -> bytes:
    check = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

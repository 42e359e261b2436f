"""Drawings: SVG that parses, PNG that decodes, the same lines in both."""

from __future__ import annotations

import struct
import zlib
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.sim.figure import CAP, CEILING, HEIGHT, IN_FLIGHT, WIDTH, Area, Line, drawn, spread
from hostler.sim.letters import dots, width
from hostler.sim.png import png
from hostler.sim.svg import svg
from hostler.sim.tally import Moment

DAY = [Moment(minute * 60.0, 20.0, 10, 5) for minute in range(241)]
SVG = "{http://www.w3.org/2000/svg}"


def decoded(data: bytes) -> list[bytes]:
    """The rows of a PNG as we write them, each chunk checked."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        (check,) = struct.unpack(">I", data[at + 8 + size : at + 12 + size])
        assert check == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + size
    wide, high, depth, colour, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (wide, high, depth, colour) == (WIDTH, HEIGHT, 8, 2)
    raw = zlib.decompress(chunks[b"IDAT"])
    length = 1 + 3 * wide
    assert len(raw) == high * length and set(raw[::length]) == {0}
    return [raw[row * length + 1 : (row + 1) * length] for row in range(high)]


def line_of(colour: tuple[int, int, int]) -> Line:
    return next(
        s
        for s in drawn("day", DAY)
        if isinstance(s, Line) and s.colour == colour and len(s.points) > 2
    )


def test_the_svg_holds_the_three_and_the_title():
    tree = ElementTree.fromstring(svg(drawn("a <day> & night", DAY)))
    assert len(tree.findall(f"{SVG}polygon")) == 1
    texts = [text.text for text in tree.findall(f"{SVG}text")]
    assert {"a <day> & night", "ceiling", "cap", "in flight", "hours"} <= set(texts)
    lines = {line.get("points") for line in tree.findall(f"{SVG}polyline")}
    for colour in (CAP, IN_FLIGHT):
        assert " ".join(f"{x:g},{y:g}" for x, y in line_of(colour).points) in lines


@pytest.mark.parametrize("colour", [CAP, IN_FLIGHT])
def test_the_png_shows_the_same_lines(colour):
    rows = decoded(png(drawn("day", DAY)))
    x, y = line_of(colour).points[100]
    assert tuple(rows[round(y)][3 * round(x) : 3 * round(x) + 3]) == colour


def test_the_png_fills_the_area_below_the_ceiling_and_not_above():
    area = next(s for s in drawn("day", DAY) if isinstance(s, Area))
    x, y = area.points[100]
    rows = decoded(png([area]))
    assert tuple(rows[round(y) + 2][3 * round(x) : 3 * round(x) + 3]) == CEILING
    assert tuple(rows[round(y) - 2][3 * round(x) : 3 * round(x) + 3]) == (255, 255, 255)


def test_a_cliff_is_painted_no_higher_than_it_is():
    cliff = Area(((100.4, 200.0), (101.7, 300.0)), 300.0, CEILING)
    rows = decoded(png([cliff]))
    assert all(tuple(row[3 * x : 3 * x + 3]) != CEILING for row in rows[:199] for x in (100, 101))


heights = st.tuples(st.floats(0, 10**5), st.integers(0, 500), st.integers(0, 500))


@settings(max_examples=8)
@given(st.lists(heights, max_size=9), st.integers(1, 10**5))
def test_any_day_can_be_drawn(heights, apart):
    day = [Moment(float(apart * at), *height) for at, height in enumerate(heights)]
    shapes = drawn("any", day)
    ElementTree.fromstring(svg(shapes))
    assert len(decoded(png(shapes))) == HEIGHT


@given(st.floats(0.01, 10**7))
def test_marks_are_few_and_at_round_numbers(most):
    assert most / spread(most) <= 12
    assert str(spread(most)).rstrip("0") in {"1", "2", "5"}


def test_letters_have_dots_of_their_own():
    known = [tuple(dots(letter)) for letter in "0123456789abcdefghijklmnopqrstuvwxyz_-,.:=/"]
    assert len(set(known)) == len(known) and all(known)
    assert dots("§") and not dots(" ")
    assert width("ab") == 2 * width("a")

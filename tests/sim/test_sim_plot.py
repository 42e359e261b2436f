"""Plots: well-formed SVG with the lines of the run."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from hostler.sim.metrics import Sample
from hostler.sim.plot import CAP, IN_FLIGHT, Area, Line, draw, spread, svg

DAY = [Sample(minute * 60.0, 20.0, 10, 5) for minute in range(241)]
SVG = "{http://www.w3.org/2000/svg}"


def line_of(colour: tuple[int, int, int]) -> Line:
    return next(
        s
        for s in draw("day", DAY)
        if isinstance(s, Line) and s.colour == colour and len(s.points) > 2
    )


def test_the_svg_holds_the_three_and_the_title():
    tree = ElementTree.fromstring(svg(draw("a <day> & night", DAY)))
    assert len(tree.findall(f"{SVG}polygon")) == 1
    texts = [text.text for text in tree.findall(f"{SVG}text")]
    assert {"a <day> & night", "ceiling", "cap", "in flight", "hours"} <= set(texts)
    lines = {line.get("points") for line in tree.findall(f"{SVG}polyline")}
    for colour in (CAP, IN_FLIGHT):
        assert " ".join(f"{x:g},{y:g}" for x, y in line_of(colour).points) in lines


def test_the_ceiling_is_an_area_down_to_the_ground():
    area = next(s for s in draw("day", DAY) if isinstance(s, Area))
    polygon = ElementTree.fromstring(svg([area])).find(f"{SVG}polygon")
    points = polygon.get("points").split()
    assert points[1] == f"{area.points[0][0]:g},{area.points[0][1]:g}"
    assert points[0].endswith(f",{area.ground:g}") and points[-1].endswith(f",{area.ground:g}")


heights = st.tuples(st.floats(0, 10**5), st.integers(0, 500), st.integers(0, 500))


@settings(max_examples=8)
@given(st.lists(heights, max_size=9), st.integers(1, 10**5))
def test_any_day_can_be_drawn(heights, apart):
    day = [Sample(float(apart * at), *height) for at, height in enumerate(heights)]
    shapes = draw("any", day)
    ElementTree.fromstring(svg(shapes))


@given(st.floats(0.01, 10**7))
def test_marks_are_few_and_at_round_numbers(most):
    assert most / spread(most) <= 12
    assert str(spread(most)).rstrip("0") in {"1", "2", "5"}

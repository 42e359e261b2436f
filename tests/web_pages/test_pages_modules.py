"""Run the JavaScript unit tests in a browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_pages import PageOpener

FILES = sorted(path.name for path in (Path(__file__).parent / "js").glob("*.test.js"))


@pytest.mark.parametrize("name", FILES)
def test_javascript_unit_tests_pass(name: str, open_page: PageOpener) -> None:
    page = open_page("", path="/login")
    found = page.evaluate("name => import(`/tests/${name}`).then((file) => file.run())", name)
    assert found["failed"] == []
    assert found["count"] > 3


def test_every_library_module_has_javascript_tests() -> None:
    rules = Path(__file__).parents[2] / "src/hostler/web/static/js/lib"
    texts = "".join(path.read_text() for path in (Path(__file__).parent / "js").glob("*.test.js"))
    assert [one.name for one in rules.glob("*.js") if f"/lib/{one.name}" not in texts] == []

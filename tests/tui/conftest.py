"""Screens as files: `pytest tests/tui --renew-screens` writes them anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

SCREENS = Path(__file__).with_name("screens")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--renew-screens", action="store_true", help="write the golden screens anew")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a screen with the one that is kept."""

    def compare(name: str, text: str) -> None:
        file = SCREENS / f"{name}.txt"
        if request.config.getoption("--renew-screens", default=False):
            SCREENS.mkdir(exist_ok=True)
            file.write_text(text + "\n", encoding="utf-8")
        assert text + "\n" == file.read_text(encoding="utf-8"), (
            f"the screen {name} is another one; if it should be: pytest tests/tui --renew-screens"
        )

    return compare

"""A town per test, on a GitHub of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from service_town import Town, github


@pytest.fixture
def found_town(tmp_path: Path) -> Iterator[Callable[..., Town]]:
    """A town with settings of one's own."""
    with ExitStack() as stack:

        def found(sandbox: dict[str, Any] | None = None, **settings: Any) -> Town:
            hub = stack.enter_context(github(**(sandbox or {})))
            return Town(hub, tmp_path, **settings)

        yield found


@pytest.fixture
def town(found_town: Callable[..., Town]) -> Town:
    return found_town()

"""Real programs, where npm brings them; otherwise nothing here is run, and it says why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from model_api import ModelApi, model_api
from real_agents_fixture import RealTown, settle
from real_programs import PACKAGES, Unavailable, installed
from service_town import Town, github

from missing_tools import reason_without

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.real_agents)
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def programs() -> None:
    """All of them, before the first is used."""
    try:
        for kind in PACKAGES:
            installed(kind)
    except Unavailable as error:
        pytest.skip(reason_without("npm", f"the real agents were not tried: {error}"))


@pytest.fixture
def api() -> Iterator[ModelApi]:
    with model_api() as found:
        yield found


@pytest.fixture
def found_town(tmp_path: Path) -> Iterator[Callable[..., Town]]:
    with ExitStack() as stack:

        def found(**settings: Any) -> Town:
            return Town(stack.enter_context(github()), tmp_path, **settings)

        yield found


@pytest.fixture
def live_in(
    programs: None,
    found_town: Callable[..., Town],
    api: ModelApi,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., RealTown]:
    """A town with one kind of agent; further settings and variables for it."""

    def live(kind: str, agent: dict[str, Any] | None = None, **variables: str) -> RealTown:
        return settle(kind, found_town, api, monkeypatch, agent or {}, variables)

    return live

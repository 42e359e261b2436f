"""A console asks GitHub what a service asks, by the sandbox's own ledger; a screen asks nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from service_town import ALICE, Town, github

from hostler.checkouts.process import allow_children
from hostler.clock import SystemClock
from hostler.service.context import open_context
from hostler.service.runner import ServiceRunner
from hostler.service.service_log import ServiceLog
from hostler.service.wiring import ServiceMode
from hostler.telemetry.logs import LogDestinations
from hostler.tui.app import HostlerApp
from hostler.tui.console import Console
from hostler.tui.snapshot_source import HomeSnapshots

Work = Callable[[ServiceRunner], None]


def as_service(runner: ServiceRunner) -> None:
    runner.run()


def as_console(runner: ServiceRunner) -> None:
    """With somebody at the screen who never leaves the keys alone."""

    def show(app: HostlerApp) -> None:
        async def press() -> None:
            async with app.run_test(size=(80, 24)) as pilot:
                while app.is_running:
                    await pilot.press("r", "tab", "enter", "escape", "w", "down")
            app.watcher.join()

        asyncio.run(press())

    Console(lambda _: None, "ann", show=show).work(runner, lambda: False, runner.leave)


class Village:
    """A town whose service is started for one look at a time, in one mode or the other."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self._read = 0

    def look(self, work: Work) -> Counter[tuple[str, str]]:
        """One look and all that follows from it; what was asked of GitHub for it."""
        clock, town = SystemClock(), self.town
        logging = LogDestinations(clock, town.home / "logs")
        with open_context(town.home, town.settings(), clock) as app:
            work(ServiceRunner(app, clock, ServiceLog(logging.log), ServiceMode(once=True)))
        allow_children()
        logging.close()
        return self.asked()

    def glance(self) -> None:
        """Somebody's `top`, for a while."""
        outlook = HomeSnapshots(self.town.home, self.town.settings)
        for _ in range(10):
            outlook.look()
        outlook.forget()

    def asked(self) -> Counter[tuple[str, str]]:
        """What was asked since the last time."""
        ledger = self.town.hub.app.pipeline.ledger.answer({"limit": "100000"})["entries"]
        fresh, self._read = ledger[self._read :], len(ledger)
        ours = [row for row in fresh if row["path"].startswith("/repos/")]
        return Counter((row["method"], row["path"].partition("?")[0]) for row in ours)


@pytest.mark.long
def test_a_console_asks_what_a_service_asks(tmp_path, monkeypatch):
    # How soon it notices that one look was all.
    monkeypatch.setattr("hostler.service.runner.WATCH_SECONDS", 0.05)
    with github() as hub:
        village = Village(Town(hub, tmp_path))
        alice = village.town.person(ALICE)
        alice.file("Notes", "agent:small-job")
        village.look(as_service)
        assert [pull["number"] for pull in alice.pulls()] == [2]
        # Our own comments are read once; from then on nothing happens.
        village.look(as_service)
        quiet = [village.look(work) for work in (as_service, as_console) * 2]
        assert quiet[0] and all(one == quiet[0] for one in quiet)
        village.glance()
        assert not village.asked()
        alice.remark(2, "Say more, please.")
        village.asked()
        turn = village.look(as_console)
        replies = [one["body"] for one in alice.remarks(2)][1:]
        assert len(replies) == 1 and replies[0].startswith("Done: Say more")
        assert turn[("POST", "/repos/alice/stable/pulls/2/comments/1/replies")] == 1, turn


def test_a_service_that_fails_closes_the_screen_and_says_so(tmp_path, monkeypatch):
    with github() as hub:
        town = Town(hub, tmp_path)
        with open_context(town.home, town.settings(), SystemClock()) as app:
            logging = LogDestinations(SystemClock(), town.home / "logs")
            runner = ServiceRunner(app, SystemClock(), ServiceLog(logging.log))

            def fails(_until: object) -> None:
                raise RuntimeError("a defect")

            monkeypatch.setattr(runner, "run", fails)
            with pytest.raises(RuntimeError, match="a defect"):
                as_console(runner)
            logging.close()

"""Delays of the sandbox that last until a test ends them, however fast the machine is."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from hostler.sandbox.http import pipeline
from hostler.sandbox.server import Running


class DelayGate:
    """Holds requests that meet a fault of the kind `delay`, before anything is done."""

    def __init__(self, sandbox: Running, monkeypatch: pytest.MonkeyPatch) -> None:
        self._sandbox = sandbox
        self._opened = asyncio.Event()
        # The seconds that were asked for, one for each request.
        self.delays: list[float] = []
        monkeypatch.setattr(pipeline, "asyncio", SimpleNamespace(sleep=self._sleep))

    def open(self) -> None:
        """Let the requests that were held go on, and wait until they are answered."""
        self._sandbox.wait(self._open())

    async def _sleep(self, seconds: float) -> None:
        self.delays.append(seconds)
        await self._opened.wait()

    async def _open(self) -> None:
        self._opened.set()
        ledger = self._sandbox.app.pipeline.ledger
        while len(ledger.answer({"fault": "delay"})["entries"]) < len(self.delays):
            await asyncio.sleep(0)

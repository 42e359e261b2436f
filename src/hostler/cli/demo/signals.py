"""Signals become a wish to end, which the story looks at between its steps."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType, TracebackType
from typing import Any, Self

_HEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ending:
    """While it is entered, no signal ends us in the middle of anything."""

    def __init__(self) -> None:
        self.signal = 0
        self._before: dict[int, Any] = {}
        # A pipe, because a handler may come while its own thread holds the lock of an event.
        self._wish, self._asking = os.pipe()

    def __enter__(self) -> Self:
        for number in _HEEDED:
            # Under nohup the terminal may go, and we stay.
            if signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._heed)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._wish)
        os.close(self._asking)

    @property
    def asked(self) -> bool:
        """Whether somebody wants us to end."""
        return bool(self.signal)

    @property
    def exit_code(self) -> int:
        """As a shell reports a program that was ended by the signal."""
        return 128 + self.signal

    def wait(self, seconds: float | None = None) -> None:
        """Until somebody does, or the time is over."""
        select.select([self._wish], [], [], seconds)

    def _heed(self, number: int, _frame: FrameType | None) -> None:
        if not self.signal:
            self.signal = number
            os.write(self._asking, b"!")

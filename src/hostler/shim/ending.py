"""Terminate, grace, kill: how a set of processes is brought to its end."""

from __future__ import annotations

import signal

from . import tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    Key = tuple[int, int]

# A process that starts during the grace is asked to leave this late at most.
LOOK_DURING_GRACE = 0.5
SHORTEST_PAUSE = 0.01
LONGEST_PAUSE = 1.0


class Step:
    """What to do now: whom to ask, whom to kill, how long to wait then."""

    __slots__ = ("ask", "kill", "pause")

    def __init__(self, ask: Set[Key], kill: Set[Key], pause: float) -> None:
        self.ask = ask
        self.kill = kill
        self.pause = pause


def step(alive: Set[Key], asked: Set[Key], killed: Set[Key], left: float, pause: float) -> Step:
    """The rule. `left` is what remains of the grace, `pause` how long we waited last."""
    if left > 0:
        return Step(alive - asked, frozenset(), min(left, LOOK_DURING_GRACE))
    if alive - killed:
        # Somebody forks while being killed: faster than we are, if we pause.
        return Step(frozenset(), alive, 0.0)
    return Step(frozenset(), alive, min(max(pause * 2, SHORTEST_PAUSE), LONGEST_PAUSE))


class Ending:
    """The end of one tree, over as many looks as it takes."""

    def __init__(self, now: float, grace: float, spared: int = 0) -> None:
        """`spared`: the pid of one whose end would take the others' grace; only killed."""
        self._spared = spared
        self._began = now
        self._deadline = now + grace
        self._asked: set[Key] = set()
        self._killed: set[Key] = set()
        self._pause = 0.0

    @property
    def met(self) -> int:
        """How many processes were found alive."""
        return len(self._asked | self._killed)

    @property
    def killed(self) -> int:
        """How many processes did not leave when asked."""
        return len(self._killed)

    def among(self, processes: Iterable[tree.Process]) -> list[tree.Process]:
        """Those that were met before."""
        met = self._asked | self._killed
        return [process for process in processes if process.key in met]

    def hurry(self, grace: float) -> None:
        """Shorten the grace, counted from the beginning; it is never made longer."""
        self._deadline = min(self._deadline, self._began + grace)

    def strike(self, alive: Iterable[tree.Process], now: float) -> float:
        """Signal whom the rule names; the seconds to wait before the next look."""
        by_key = {process.key: process for process in alive}
        what = step(by_key.keys(), self._asked, self._killed, self._deadline - now, self._pause)
        for key in what.ask:
            if key[0] != self._spared:
                tree.send(by_key[key], signal.SIGTERM)
            # One that is stopped hears SIGTERM only when it goes on.
            tree.send(by_key[key], signal.SIGCONT)
        for key in what.kill:
            tree.send_group(by_key[key], signal.SIGKILL)
            tree.send(by_key[key], signal.SIGKILL)
        self._asked |= what.ask
        self._killed |= what.kill
        self._pause = what.pause
        return what.pause

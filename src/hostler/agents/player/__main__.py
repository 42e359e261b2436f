"""python -I -m hostler.agents.player SCRIPT: play a script in the current folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hostler import __version__
from hostler.agents.errors import ScriptError
from hostler.agents.events import Finished, Started
from hostler.agents.outcomes import Outcome
from hostler.agents.player.play import choose, play
from hostler.agents.player.stage import CannotPlay, emit, set_up
from hostler.agents.script import load

USAGE = 2


def main(arguments: list[str]) -> int:
    """Play one script; the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -I -m hostler.agents.player SCRIPT\n")
        return USAGE
    emit(Started("scripted", __version__))
    try:
        script = load(Path(arguments[0]))
        stage = set_up(os.environ)
        return play(choose(script, stage), stage)
    except ScriptError as error:
        return _give_up(error.lines())
    except CannotPlay as error:
        return _give_up([str(error)])
    except OSError as error:
        return _give_up([str(error)], Outcome.CRASH)


def _give_up(lines: list[str], outcome: Outcome = Outcome.CONFIG) -> int:
    sys.stderr.write("\n".join(lines) + "\n")
    emit(Finished(ok=False, outcome=outcome, text=" ".join(lines)))
    return USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

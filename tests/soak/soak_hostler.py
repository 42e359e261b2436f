"""The real command, on a fast clock. argv: anchor, speed, skew, and the command's own words."""

from __future__ import annotations

import sys

from soak_time import Pace, speed_up

if __name__ == "__main__":
    speed_up(Pace(*map(float, sys.argv[1:4])))
    sys.argv = [sys.argv[0], *sys.argv[4:]]
    from hostler.__main__ import main

    sys.exit(main())

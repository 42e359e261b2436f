"""Where the real command is."""

import sys
from pathlib import Path

HOSTLER = str(Path(sys.executable).with_name("hostler"))

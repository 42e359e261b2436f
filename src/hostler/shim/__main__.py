"""Start the shim, as a folder (`python -I -S hostler/shim`) or as a module of Hostler."""

# ruff: noqa: PTH100

from __future__ import annotations

import os
import sys


def _run_shim(package: str | None) -> int:
    if not package:
        # Run as a folder. Import the sibling modules as a package through the parent
        # folder, which comes last in sys.path so that it cannot hide a standard module.
        parent, _, package = os.path.abspath(sys.path.pop(0)).rpartition("/")
        sys.path.append(parent)
    supervisor = __import__(f"{package}.supervisor", fromlist=["main"])
    code: int = supervisor.main(sys.argv[1:])
    return code


if __name__ == "__main__":
    sys.exit(_run_shim(__package__))

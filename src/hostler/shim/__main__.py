"""Start the shim, as a folder (`python -I -S hostler/shim`) or as a module of Hostler."""

# ruff: noqa: PTH100

from __future__ import annotations

import os
import sys


def _life(package: str | None) -> int:
    if not package:
        # Run as a folder. Our siblings become a package of their own, found through the parent
        # folder, which stands last: nothing in it can hide a standard module.
        parent, _, package = os.path.abspath(sys.path.pop(0)).rpartition("/")
        sys.path.append(parent)
    life = __import__(f"{package}.life", fromlist=["main"])
    code: int = life.main(sys.argv[1:])
    return code


if __name__ == "__main__":
    sys.exit(_life(__package__))

"""Run the named benchmarks, or all: print a table of each, write `bench/results/<name>.json`."""

from __future__ import annotations

import argparse
import importlib
import json
import pkgutil
import sys
from pathlib import Path

import bench
from bench.harness import Figures, flat

RESULTS = Path(__file__).parent / "results"
NOT_BENCHMARKS = {"__main__", "harness"}


def names() -> list[str]:
    """All benchmarks, by module name."""
    return [m.name for m in pkgutil.iter_modules(bench.__path__) if m.name not in NOT_BENCHMARKS]


def run(name: str) -> None:
    """Run one benchmark, show its figures and keep them."""
    module = importlib.import_module(f"bench.{name}")
    print(f"\n{name}: {(module.__doc__ or '').strip().splitlines()[0]}", flush=True)
    figures: Figures = module.run()
    for key, value in flat(figures):
        shown = f"{value:,.3f}" if isinstance(value, float) else f"{value}"
        print(f"  {key:<44} {shown:>16}")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(figures, indent=2) + "\n")


def main() -> int:
    """The command line of `make bench`."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"one of: {', '.join(names())}")
    wanted = parser.parse_args().name or names()
    unknown = sorted(set(wanted) - set(names()))
    if unknown:
        print(f"no benchmark called {', '.join(unknown)}; there are: {', '.join(names())}")
        return 2
    for name in wanted:
        run(name)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What a shim costs: start-up against an empty Python, memory, and from go to the agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench.harness import Figures, interleaved
from hostler.shim import command, run_files

ROUNDS = 31


class Bench:
    """Shims in a folder of our own, each with a run of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs = 0
        self.pipe = folder / "pipe"
        os.mkfifo(self.pipe)

    @contextmanager
    def waiting(self, *argv: str) -> Iterator[subprocess.Popen[bytes]]:
        """A shim that waits for go; it has left when the block ends."""
        self._runs += 1
        run = self._folder / str(self._runs)
        run.mkdir()
        spec = {"run": run.name, "argv": argv, "cwd": "/", "env": dict(os.environ)}
        run_files.write_json(
            str(run / run_files.SPEC_FILE), {**spec, "wall_seconds": 60, "silence_seconds": 60}
        )
        with subprocess.Popen(
            command(str(run)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as shim:
            assert shim.stdin and shim.stdout
            json.loads(shim.stdout.readline())
            yield shim

    def start(self) -> None:
        """From nothing to a shim that has its lock, and out again."""
        with self.waiting("true"):
            pass

    def go_to_agent(self) -> float:
        """Seconds from the go byte to the agent's first act."""
        with self.waiting("sh", "-c", f"echo started > {self.pipe}") as shim:
            return self._go(shim, lambda: self.pipe.read_bytes())

    def go_to_end(self) -> float:
        """Seconds from the go byte through an agent that does nothing to the last word."""
        with self.waiting("true") as shim:
            return self._go(shim, shim.wait)

    def memory(self) -> dict[str, float]:
        """Megabytes of a shim whose agent is at work."""
        with self.waiting("sh", "-c", f"echo > {self.pipe}; read _ < {self.pipe}") as shim:
            self._go(shim, lambda: self.pipe.read_bytes())
            rollup = Path(f"/proc/{shim.pid}/smaps_rollup").read_text().splitlines()
            self.pipe.write_text("end\n")
        sizes = {line.split(":")[0]: line.split()[1] for line in rollup[1:]}
        return {name.lower(): int(sizes[name]) / 1024 for name in ("Rss", "Pss", "Private_Dirty")}

    def _go(self, shim: subprocess.Popen[bytes], event: Callable[[], object]) -> float:
        assert shim.stdin
        start = time.perf_counter()
        shim.stdin.write(b"g")
        shim.stdin.flush()
        event()
        return time.perf_counter() - start


def _python(code: str) -> None:
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


def run() -> Figures:
    """Medians, measured in turns; ratios to `python -I -S -c pass`."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        taken = interleaved(
            ROUNDS,
            baseline=lambda: _python("pass"),
            imports=lambda: _python("import json, signal, ctypes"),
            start=bench.start,
        )
        return {
            "baseline_ms": taken["baseline"] * 1000,
            "imports_ratio": taken["imports"] / taken["baseline"],
            "start_ms": taken["start"] * 1000,
            "start_ratio": taken["start"] / taken["baseline"],
            "go_to_agent_ms": median(bench.go_to_agent() for _ in range(ROUNDS)) * 1000,
            "go_to_end_ms": median(bench.go_to_end() for _ in range(ROUNDS)) * 1000,
            "memory_mb": bench.memory(),
        }
